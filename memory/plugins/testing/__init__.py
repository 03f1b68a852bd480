"""The conformance suite: what every memory plugin promises, as rules that anybody can run against theirs.

    OPENVIBE_MEMORY_PLUGIN=acme/notebook pytest --pyargs memory.plugins.testing

runs them in a test database of the project's (`DJANGO_SETTINGS_MODULE` names its settings), against the plugin named,
else against every installed one. OPENVIBE_MEMORY_CONFIG may hold its config as JSON. `RULES` is the list; a rule
takes a scenario and the provider, and raises RuleViolation with a sentence when the promise is not kept. Rules about a
capability bind only plugins that have it."""

import json
import os
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from memory.plugins.base import Compactor, Explorer, MessageReader, ProfileStore, ReviewSource, Searcher, SessionManager
from memory.plugins.registry import installed_plugins
from memory.plugins.testing import capability_rules, method_rules
from memory.plugins.testing.scenario import MakeProvider, Scenario, create_scenario


class ConformanceRule(NamedTuple):
    """`check` raises RuleViolation. `capability` is the one the rule is about, None for every plugin."""

    check: Callable[[Scenario, Any], None]
    capability: type[Any] | None = None

    @property
    def name(self) -> str:
        return self.check.__name__


RULES: tuple[ConformanceRule, ...] = (
    ConformanceRule(method_rules.bootstrap_may_be_repeated),
    ConformanceRule(method_rules.append_stores_what_was_said),
    ConformanceRule(method_rules.append_is_all_or_nothing),
    ConformanceRule(method_rules.append_knows_what_was_said_before),
    ConformanceRule(method_rules.append_keeps_equal_messages_apart),
    ConformanceRule(method_rules.all_that_fits_is_recalled),
    ConformanceRule(method_rules.the_tail_is_always_recalled),
    ConformanceRule(method_rules.the_newest_request_is_always_recalled),
    ConformanceRule(method_rules.the_budget_is_kept),
    ConformanceRule(method_rules.entries_stand_in_order_and_once),
    ConformanceRule(method_rules.words_are_as_they_were_said),
    ConformanceRule(method_rules.calls_and_results_stay_together),
    ConformanceRule(method_rules.assembling_writes_nothing),
    ConformanceRule(method_rules.nothing_after_before_is_recalled),
    ConformanceRule(method_rules.what_may_not_be_shown_is_not_recalled),
    ConformanceRule(method_rules.dive_results_are_for_those_who_read_them),
    ConformanceRule(method_rules.changes_show_at_once),
    ConformanceRule(method_rules.messages_the_plugin_was_not_told_of_are_recalled),
    ConformanceRule(method_rules.other_conversations_stay_out),
    ConformanceRule(method_rules.stats_are_true),
    ConformanceRule(method_rules.nothing_is_remembered_between_calls),
    ConformanceRule(capability_rules.compaction_is_due_only_when_it_helps, Compactor),
    ConformanceRule(capability_rules.compaction_makes_it_smaller, Compactor),
    ConformanceRule(capability_rules.compaction_loses_nothing, Compactor),
    ConformanceRule(capability_rules.searching_is_literal_and_bounded, Searcher),
    ConformanceRule(capability_rules.searching_knows_phrases_dates_and_people, Searcher),
    ConformanceRule(capability_rules.other_threads_are_searched_as_far_as_they_are_seen, MessageReader),
    ConformanceRule(capability_rules.messages_are_read_piece_by_piece, MessageReader),
    ConformanceRule(capability_rules.summaries_can_be_opened, Explorer),
    ConformanceRule(capability_rules.notes_are_kept_per_person, ProfileStore),
    ConformanceRule(capability_rules.info_of_sessions_is_kept, SessionManager),
    ConformanceRule(capability_rules.history_is_given_page_by_page, SessionManager),
    ConformanceRule(capability_rules.reviews_take_each_message_once, ReviewSource),
)


def rules_for(provider: object) -> list[ConformanceRule]:
    """The rules that bind a provider with these capabilities."""
    return [rule for rule in RULES if rule.capability is None or isinstance(provider, rule.capability)]


def check_rule(rule: ConformanceRule, make: MakeProvider) -> None:
    """Holds a provider to a rule, in the caller's transaction. Raises RuleViolation."""
    rule.check(create_scenario(make), make())


def plugins_under_test() -> dict[str, MakeProvider]:
    """How the plugins under test are made, by name: the one the environment names, else every installed one."""
    config = json.loads(os.environ.get("OPENVIBE_MEMORY_CONFIG") or "{}")
    only = os.environ.get("OPENVIBE_MEMORY_PLUGIN")
    if only and only not in installed_plugins():
        raise LookupError(f"There is no memory plugin {only!r}. Installed: {', '.join(installed_plugins())}.")
    names = [only] if only else list(installed_plugins())
    return {name: partial(installed_plugins()[name].load(), config) for name in names}
