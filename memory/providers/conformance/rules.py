"""The list of rules, and which plugins they are run against."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

from memory.providers.base import (
    Compactor,
    Explorer,
    MemoryProvider,
    ProfileStore,
    ReviewSource,
    Searcher,
    SessionManager,
)
from memory.providers.conformance import assembling, capabilities, storing
from memory.providers.conformance.scene import Scene, make_scene
from memory.providers.registry import installed


class Rule(NamedTuple):
    """`kept` raises Broken when it is not. `of` is the capability it is about, None for every plugin."""

    kept: Callable[[Scene, Any], None]
    of: type[Any] | None = None

    @property
    def name(self) -> str:
        return self.kept.__name__


RULES: tuple[Rule, ...] = (
    Rule(storing.bootstrap_may_be_repeated),
    Rule(storing.append_stores_what_was_said),
    Rule(storing.append_is_all_or_nothing),
    Rule(storing.append_knows_what_was_said_before),
    Rule(storing.append_keeps_equal_messages_apart),
    Rule(assembling.all_that_fits_is_recalled),
    Rule(assembling.the_tail_is_always_recalled),
    Rule(assembling.the_newest_request_is_always_recalled),
    Rule(assembling.the_budget_is_kept),
    Rule(assembling.entries_stand_in_order_and_once),
    Rule(assembling.words_are_as_they_were_said),
    Rule(assembling.calls_and_results_stay_together),
    Rule(assembling.assembling_writes_nothing),
    Rule(assembling.nothing_after_before_is_recalled),
    Rule(assembling.what_may_not_be_shown_is_not_recalled),
    Rule(assembling.dive_results_are_for_those_who_read_them),
    Rule(assembling.changes_show_at_once),
    Rule(assembling.messages_the_plugin_was_not_told_of_are_recalled),
    Rule(assembling.other_conversations_stay_out),
    Rule(assembling.stats_are_true),
    Rule(assembling.nothing_is_remembered_between_calls),
    Rule(capabilities.compaction_is_due_only_when_it_helps, Compactor),
    Rule(capabilities.compaction_makes_it_smaller, Compactor),
    Rule(capabilities.compaction_loses_nothing, Compactor),
    Rule(capabilities.searching_is_literal_and_bounded, Searcher),
    Rule(capabilities.summaries_can_be_opened, Explorer),
    Rule(capabilities.notes_are_kept_per_person, ProfileStore),
    Rule(capabilities.info_of_sessions_is_kept, SessionManager),
    Rule(capabilities.history_is_given_page_by_page, SessionManager),
    Rule(capabilities.reviews_take_each_message_once, ReviewSource),
)


def rules_for(provider: MemoryProvider) -> list[Rule]:
    """The rules that bind a provider with these capabilities."""
    return [rule for rule in RULES if rule.of is None or isinstance(provider, rule.of)]


def hold(rule: Rule, make: Callable[[], MemoryProvider]) -> None:
    """Hold a provider to a rule, in the caller's transaction. Raises Broken."""
    rule.kept(make_scene(make), make())


def plugins_asked_for() -> dict[str, Callable[[], MemoryProvider]]:
    """How the plugins under test are made, by name: the one the environment names, else every installed one."""
    config = json.loads(os.environ.get("OPENVIBE_MEMORY_CONFIG") or "{}")
    only = os.environ.get("OPENVIBE_MEMORY_PLUGIN")
    if only and only not in installed():
        raise LookupError(f"There is no memory plugin {only!r}. Installed: {', '.join(installed())}.")
    wanted = [only] if only else list(installed())
    return {name: partial(_loaded, name, config) for name in wanted}


def _loaded(name: str, config: Mapping[str, Any]) -> MemoryProvider:
    return installed()[name].load()(config)
