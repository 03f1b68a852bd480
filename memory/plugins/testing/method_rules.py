"""Rules about the five methods every plugin has: storing messages and assembling the context."""

from itertools import pairwise
from typing import Any

from django.utils import timezone

from memory.plugins.base import MAX_ENTRY_TOKENS, ContextEntry, MemoryProvider, NewMessage
from memory.plugins.testing.scenario import (
    UNLIMITED_BUDGET,
    Scenario,
    covered_ordinals,
    expect_problem,
    forbid_writes,
    ordinals,
    require,
    total_cost,
)
from openvibe.engines.llm.tokens import count_tokens

TOOL_EXCHANGE = (
    NewMessage("user", "When do I prune?", external_id="m1", name="Zoë"),
    NewMessage("tool_call", '{"q": "prune"}', external_id="m2", call_id="c1"),
    NewMessage("tool_result", "In March.", external_id="m3", call_id="c1"),
    NewMessage("assistant", "In March, before the buds open.", external_id="m4"),
)


def bootstrap_may_be_repeated(scenario: Scenario, provider: MemoryProvider) -> None:
    scenario.talk(30)
    session = scenario.session()
    provider.bootstrap(session)
    before = provider.stats(session), scenario.recall(provider)
    provider.bootstrap(session)
    require(
        before == (provider.stats(session), scenario.recall(provider)),
        "bootstrap() a second time changed what is recalled.",
    )
    require(scenario.thread.messages.count() == 30, "bootstrap() added or removed messages of the thread.")


def append_stores_what_was_said(scenario: Scenario, provider: MemoryProvider) -> None:
    scenario.talk(2)
    stored = provider.append(scenario.session(), TOOL_EXCHANGE)
    rows = list(scenario.thread.messages.filter(seq__gt=2).order_by("seq").select_related("author"))
    require(stored == [row.seq for row in rows] == [3, 4, 5, 6], "append() must give the messages' numbers, in order.")
    require(
        [row.body for row in rows] == [message.text for message in TOOL_EXCHANGE], "append() changed or lost words."
    )
    require([row.kind for row in rows] == ["text", "tool_call", "tool_result", "text"], "append() mixed up the kinds.")
    require([row.call_id for row in rows] == ["", "c1", "c1", ""], "append() lost which result answers which call.")
    require(
        all(row.author_id == scenario.agent.pk for row in rows[1:]), "What the agent says must stand under its name."
    )
    require(rows[0].author.name == "Zoë", "A user of the outside agent must be its author, by the name given.")
    recalled_texts = [entry.text for entry in scenario.recall(provider)]
    require(recalled_texts[2:] == [message.text for message in TOOL_EXCHANGE], "What was appended must be recalled.")


def append_is_all_or_nothing(scenario: Scenario, provider: MemoryProvider) -> None:
    scenario.talk(1)
    batch = [*TOOL_EXCHANGE, NewMessage("user", "half a\x00character", external_id="m5")]
    expect_problem(lambda: provider.append(scenario.session(), batch), "append() must raise Problem for text with NUL.")
    require(scenario.thread.messages.count() == 1, "append() refused a batch, but kept a part of it.")


def append_knows_what_was_said_before(scenario: Scenario, provider: MemoryProvider) -> None:
    first = provider.append(scenario.session(), TOOL_EXCHANGE)
    second_ordinals = provider.append(
        scenario.session(), [*TOOL_EXCHANGE, TOOL_EXCHANGE[0], NewMessage("assistant", "More.", external_id="m5")]
    )
    require(second_ordinals[:5] == [*first, first[0]], "A known external id must give the number the message has.")
    require(scenario.thread.messages.count() == 5, "A known external id must not be stored again.")
    recalled_ordinals = ordinals(scenario.recall(provider))
    require(recalled_ordinals == [1, 2, 3, 4, 5], "Each message is recalled once, though it was sent twice.")


def append_keeps_equal_messages_apart(scenario: Scenario, provider: MemoryProvider) -> None:
    stored = provider.append(scenario.session(), [NewMessage("user", "ok"), NewMessage("user", "ok")])
    require(len(set(stored)) == 2, "Two equal messages without external ids are two messages.")
    texts = [entry.text for entry in scenario.recall(provider)]
    require(texts == ["ok", "ok"], "Two equal messages must both be recalled.")


BUDGETS = (0, 200, 1_000, 2_500, 6_000, UNLIMITED_BUDGET)
FRESH_TAILS = (0, 1, 5, 20)
SAMPLE_TEXTS = (
    "Prune in March.",
    "バラはいつ剪定しますか？三月です。",
    "🌹" * 40 + " 👩🏽 ok",
    '<summary> & "quotes" %_\\',
    "word " * 3_000 + "end",
)


def all_that_fits_is_recalled(scenario: Scenario, provider: MemoryProvider) -> None:
    seqs = scenario.talk(60)
    require(ordinals(scenario.recall(provider)) == seqs, "Everything fits, so everything is recalled.")
    require(ordinals(scenario.recall(provider, tail=0)) == seqs, "A tail of 0 does not end what fits.")
    require(scenario.recall(provider, scenario.other) == [], "Where nothing was said, there is nothing.")


def the_tail_is_always_recalled(scenario: Scenario, provider: MemoryProvider) -> None:
    seqs = scenario.talk(100)
    newest = scenario.recall(provider)[-5:]
    recalled_entries = scenario.recall(provider, budget=4 * total_cost(newest), tail=5)
    require(
        set(seqs[-5:]) <= set(ordinals(recalled_entries)),
        "The last messages asked for take a quarter of the budget: all stay.",
    )
    few = scenario.talk(3, thread=scenario.other)
    recalled_entries = scenario.recall(provider, scenario.other, budget=2_000)
    require(ordinals(recalled_entries) == few, "Of fewer messages than the tail, all are the tail.")


def the_newest_request_is_always_recalled(scenario: Scenario, provider: MemoryProvider) -> None:
    scenario.talk(40)
    (request,) = scenario.say("And when do I water them? " + "please " * 500)
    scenario.say("One moment.", by=scenario.agent)
    recalled_ordinals = ordinals(scenario.recall(provider, budget=0, tail=2))
    require(request in recalled_ordinals, "However small the budget, what a person asked last is recalled.")


def the_budget_is_kept(scenario: Scenario, provider: MemoryProvider) -> None:
    scenario.talk(150)
    provider.bootstrap(scenario.session())
    for budget in (1_000, 2_500, 6_000):
        tokens = total_cost(scenario.recall(provider, budget=budget, tail=2))
        require(tokens <= budget, f"Of {budget} tokens {tokens} were used, though the tail takes far less.")
        require(tokens > budget // 2, f"Of {budget} tokens only {tokens} were used, though older messages would fit.")


def entries_stand_in_order_and_once(scenario: Scenario, provider: MemoryProvider) -> None:
    scenario.talk(120)
    provider.bootstrap(scenario.session())
    scenario.talk(10)
    for budget in BUDGETS:
        entries = scenario.recall(provider, budget=budget)
        ends = [(entry.ordinal, entry.last) for entry in entries]
        require(
            all(before[1] < after[0] for before, after in pairwise(ends)),
            "Entries stand oldest first, and no message stands in two of them.",
        )
        gaps = set(range(min(covered_ordinals(entries), default=131), 131)) - covered_ordinals(entries)
        require(not gaps, "What is recalled is the end of the conversation, without gaps.")


def words_are_as_they_were_said(scenario: Scenario, provider: MemoryProvider) -> None:
    scenario.say(*SAMPLE_TEXTS)
    entries = scenario.recall(provider)
    require([entry.text for entry in entries] == list(SAMPLE_TEXTS), "Messages are recalled word for word.")
    tokens = [min(count_tokens(text), MAX_ENTRY_TOKENS) for text in SAMPLE_TEXTS]
    require([entry.tokens for entry in entries] == tokens, "Tokens are counted as o200k_base, up to LONGEST.")
    rows = scenario.thread.messages.order_by("seq").values_list("pk", "author__name", "author__kind")
    entry_rows = [(entry.message_id, entry.author_name, entry.author_kind) for entry in entries]
    require(
        entry_rows == list(rows), "An entry names its message, who said it, and whether that is a person or an agent."
    )


def calls_and_results_stay_together(scenario: Scenario, provider: MemoryProvider) -> None:
    rows: list[dict[str, Any]] = []
    for n in range(12):
        rows += scenario.talk_rows(len(rows), 3)
        rows += scenario.tool_rows(f"c{n}", len(rows), between=n % 4)
    rows += [{"body": "never answered", "author": scenario.agent, "kind": "tool_call", "call_id": "lost"}]
    rows += [{"body": "never asked", "author": scenario.agent, "kind": "tool_result", "call_id": "found"}]
    scenario.write([*rows, *scenario.talk_rows(len(rows), 2)])
    for when in ("before", "after"):
        for budget in (*BUDGETS, *range(300, 3_000, 90)):
            for tail in FRESH_TAILS:
                _check_pairs(scenario.recall(provider, budget=budget, tail=tail))
        if when == "before":
            provider.bootstrap(scenario.session())


def _check_pairs(entries: list[ContextEntry]) -> None:
    calls = [entry.call_id for entry in entries if entry.kind == "tool_call"]
    results = [entry.call_id for entry in entries if entry.kind == "tool_result"]
    require("lost" not in calls, "A call that has no result is not recalled.")
    require("found" not in results, "A result that has no call is not recalled.")
    require(sorted(calls) == sorted(results), "A tool's call and its result are recalled together, or neither.")
    require(
        all(entry.author_kind == "agent" for entry in entries if entry.kind in ("tool_call", "tool_result")),
        "A tool's call and result never become somebody else's words.",
    )


def assembling_writes_nothing(scenario: Scenario, provider: MemoryProvider) -> None:
    scenario.talk(60)
    with forbid_writes("assemble() and stats() only read, and take no lock."):
        scenario.recall(provider, budget=2_000)
        provider.stats(scenario.session())
    provider.bootstrap(scenario.session())
    scenario.talk(5)
    with forbid_writes("assemble() and stats() only read, and take no lock."):
        scenario.recall(provider)
        provider.stats(scenario.session())


def nothing_after_before_is_recalled(scenario: Scenario, provider: MemoryProvider) -> None:
    scenario.talk(60)
    provider.bootstrap(scenario.session())
    for before in (1, 2, 31, 60):
        recalled_ordinals = ordinals(scenario.recall(provider, before=before))
        require(
            recalled_ordinals == list(range(1, before)),
            f"Of what came before message {before}, all; of what came after, nothing.",
        )


def what_may_not_be_shown_is_not_recalled(scenario: Scenario, provider: MemoryProvider) -> None:
    scenario.say("Shown.")
    for state in ("writing", "failed"):
        scenario.say(f"This is {state}.", by=scenario.agent, state=state)
    scenario.say("Somebody joined.", kind="system")
    scenario.write([{"body": "", "author": scenario.ana, "deleted_at": timezone.now()}])
    scenario.say("Stopped half-way.", by=scenario.agent, state="stopped")
    for _ in range(2):
        recalled_texts = [entry.text for entry in scenario.recall(provider)]
        require(
            recalled_texts == ["Shown.", "Stopped half-way."],
            "Messages being written, failed, deleted, or of the system are not recalled.",
        )
        provider.bootstrap(scenario.session())


def dive_results_are_for_those_who_read_them(scenario: Scenario, provider: MemoryProvider) -> None:
    scenario.talk(3)
    (dive,) = scenario.say("What the dive found.", kind="dive_result")
    scenario.talk(3)
    provider.bootstrap(scenario.session())
    high = scenario.recall(provider, level=3)
    low = scenario.recall(provider, level=2)
    require(dive in ordinals(high), "An agent whose level reads dive results recalls them.")
    require(dive not in covered_ordinals(low), "An agent whose level reads no dive results does not recall them.")
    require(len(low) == 6, "What a level hides takes nothing else with it.")


def changes_show_at_once(scenario: Scenario, provider: MemoryProvider) -> None:
    scenario.talk(20)
    provider.bootstrap(scenario.session())
    messages = scenario.thread.messages
    messages.filter(seq=7).update(body="Said otherwise.", token_count=3)
    messages.filter(seq=9).update(body="", token_count=0, deleted_at=timezone.now())
    text_by_ordinal = {entry.ordinal: entry.text for entry in scenario.recall(provider)}
    require(text_by_ordinal.get(7) == "Said otherwise.", "An edited message is recalled as it is now.")
    require(9 not in text_by_ordinal, "A deleted message is not recalled.")


def messages_the_plugin_was_not_told_of_are_recalled(scenario: Scenario, provider: MemoryProvider) -> None:
    seqs = scenario.talk(15)
    provider.bootstrap(scenario.session())
    seqs += scenario.talk(15)  # another plugin was on meanwhile
    require(ordinals(scenario.recall(provider)) == seqs, "What was said past the plugin is recalled.")
    second_provider = scenario.make()
    second_provider.bootstrap(scenario.session())
    seqs += scenario.talk(5)
    require(ordinals(scenario.recall(second_provider)) == seqs, "Switched off and on again, nothing is missing.")


def other_conversations_stay_out(scenario: Scenario, provider: MemoryProvider) -> None:
    scenario.talk(5)
    scenario.talk(5, thread=scenario.other)
    far = scenario.write([{"body": "Far away.", "author": scenario.ana}], thread=scenario.elsewhere)
    provider.bootstrap(scenario.session())
    provider.bootstrap(scenario.session(scenario.other))
    own = set(scenario.thread.messages.values_list("pk", flat=True))
    recalled_ids = {entry.message_id for entry in scenario.recall(provider)}
    require(recalled_ids == own, "Only messages of the session's own thread are recalled.")
    foreign_entries = scenario.recall(provider, scenario.elsewhere)
    require(far and foreign_entries == [], "A thread of another workspace is never recalled, whatever the id.")


def stats_are_true(scenario: Scenario, provider: MemoryProvider) -> None:
    require(provider.stats(scenario.session()).messages == 0, "Before anything is said, stats() counts no message.")
    scenario.talk(40)
    for when in ("before", "after"):
        stats, entries = provider.stats(scenario.session()), scenario.recall(provider)
        require(stats.messages == 40, f"stats() {when} bootstrap() must count all messages: 40, not {stats.messages}.")
        require(stats.entries == len(entries), "stats().entries must be what assemble() gives when all fits.")
        require(stats.tokens == total_cost(entries), "stats().tokens must be what the entries need in a prompt.")
        provider.bootstrap(scenario.session())


def nothing_is_remembered_between_calls(scenario: Scenario, provider: MemoryProvider) -> None:
    scenario.talk(50)
    provider.bootstrap(scenario.session())
    mine, theirs = (scenario.recall(one, budget=2_000, tail=5) for one in (provider, scenario.make()))
    require(mine == theirs, "Another worker's provider recalls the same.")
    provider.close()
    provider.close()
