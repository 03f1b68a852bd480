"""What holds for every history: each invariant of lossless memory by its name, on generated conversations."""

from collections import Counter
from collections.abc import Callable
from itertools import pairwise

import pytest
from django.db import connection, transaction
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from agents.models import Agent
from memory.plugins.base import FRESH_TAIL, MAX_PAIR_DISTANCE, ContextEntry, Session
from memory.plugins.lcm import chunking
from memory.plugins.lcm.assembly import (
    assemble_entries,
    first_fitting_index,
    group_starts,
    with_references,
    without_orphans,
)
from memory.plugins.lcm.chunking import item_from_entry, tool_pair_spans
from memory.plugins.lcm.fresh_tail import fresh_tail_index, fresh_tail_tokens, newest_request_index, tail_index
from memory.plugins.lcm.integrity import find_violations
from memory.plugins.lcm.items import newest_items
from memory.plugins.lcm.models import Conversation, EndpointFailures, Item, Summary, SummaryEdge, SummaryMessage
from openvibe.base.problems import Problem
from openvibe.chat.models import Message, Thread
from openvibe.engines.llm.errors import ModelUnavailable
from openvibe.engines.llm.tokens import count_tokens
from openvibe.workspaces.models import Member
from tests.engines.llm.scripted_client import ScriptedModel
from tests.examples import examples
from tests.factories import make_thread
from tests.memory.plugins.lcm.factories import session_of
from tests.memory.plugins.lcm.histories import (
    Change,
    Compact,
    Finish,
    Line,
    Say,
    Step,
    World,
    brief,
    budgets,
    conversations,
    entries_of,
    histories,
    stretches,
    writers,
)

PURE = settings(deadline=None, max_examples=examples(300), suppress_health_check=list(HealthCheck))
STORED = settings(
    deadline=None,
    max_examples=examples(25),
    suppress_health_check=list(HealthCheck),
    phases=(Phase.explicit, Phase.reuse, Phase.generate),  # making a failure smaller takes minutes with a database
)
TABLES = ("lcm_conversation", "lcm_item", "lcm_summary", "lcm_summarymessage", "lcm_summaryedge", "chat_message")
NewWorld = Callable[[str, int], World]


@pytest.fixture
def new_world(thread: Thread, ana: Member, dora: Member, vibe: Agent) -> NewWorld:
    """A world with a thread of its own, for every example; what the one before it wrote is taken back."""
    cast = {"person": ana.participant, "other": dora.participant, "agent": vibe.participant}

    before_all = transaction.savepoint()

    def made(writer: str, budget: int) -> World:
        transaction.savepoint_rollback(before_all)
        private_thread = make_thread(thread.channel, ana)
        return World(private_thread, session_of(private_thread, vibe.participant), cast, writer, budget)

    return made


def stored() -> dict[str, list[tuple[object, ...]]]:
    """Everything there is in the tables of memory and chat."""
    with connection.cursor() as cursor:
        rows = {}
        for table in TABLES:
            cursor.execute(f"SELECT md5(t::text) FROM {table} t ORDER BY id")
            rows[table] = cursor.fetchall()
        return rows


def context_cost(world: World) -> int:
    """Tokens of the whole context."""
    return sum(entry.cost for entry in world.provider.assemble(world.session, 10**9, 0))


# --- pure: what is chosen of a conversation -----------------------------------------------------------------
@PURE
@given(conversations)
def test_no_orphan_call_or_result_after_assembly(entries: list[ContextEntry]) -> None:
    entries_shown = without_orphans(entries)
    calls = Counter(entry.call_id for entry in entries_shown if entry.kind == "tool_call")
    results = Counter(entry.call_id for entry in entries_shown if entry.kind == "tool_result")
    assert calls == results
    assert [entry for entry in entries_shown if not entry.kind.startswith("tool")] == [
        entry for entry in entries if not entry.kind.startswith("tool")
    ], "nothing else is dropped"
    assert without_orphans(entries_shown) == entries_shown


@PURE
@given(conversations, st.integers(0, 40), budgets)
def test_the_tail_splits_no_pair_and_holds_the_newest_turn(
    entries: list[ContextEntry], wanted: int, budget: int
) -> None:
    start = fresh_tail_index(entries, wanted, budget, {})
    assert all((call >= start) == (result >= start) for call, result in tool_pair_spans(entries))
    people = [at for at, entry in enumerate(entries) if item_from_entry(entry).by_person]
    near = people and entries[-1].ordinal - entries[people[-1]].ordinal <= MAX_PAIR_DISTANCE
    assert not wanted or not near or people[-1] >= start
    assert wanted or start == len(entries)
    plain = fresh_tail_index(entries, wanted, budget, {"fresh_tail_tokens": "none"})
    messages = sum(entry.summary_id is None for entry in entries)
    assert len(entries) - plain >= min(wanted, messages)


@PURE
@given(conversations, st.integers(0, 40), budgets)
def test_the_budget_holds_and_cuts_no_pair(entries: list[ContextEntry], wanted: int, budget: int) -> None:
    entries = without_orphans(entries)
    start = fresh_tail_index(entries, wanted, budget, {})
    first = first_fitting_index(entries, start, budget)
    cost = sum(entry.cost for entry in entries[first:])
    assert first <= start
    assert first == start or cost <= budget
    assert all((call >= first) == (result >= first) for call, result in tool_pair_spans(entries))
    older = [at for at in group_starts(entries, start, budget) if at < first]
    assert not older or cost + sum(entry.cost for entry in entries[older[0] : first]) > budget, "the next one fits, too"


@PURE
@given(conversations)
def test_results_that_are_referred_to_take_less(entries: list[ContextEntry]) -> None:
    long = {entry.ordinal: count_tokens(entry.text) for entry in entries}
    entries_shown = with_references(entries, long, None)
    assert len(entries_shown) == len(entries)
    for before, after in zip(entries, entries_shown, strict=True):
        assert after == before or (before.kind == "tool_result" and after.cost < before.cost)
        assert after == before or f"message {before.ordinal}" in after.text


@PURE
@given(stretches.map(lambda lines: list(lines)), budgets)
def test_leaf_groups_leave_the_tail_and_pairs_alone(lines: list[Line], budget: int) -> None:
    places = [item_from_entry(entry) for entry in entries_of(lines)]
    tail = tail_index(places, FRESH_TAIL, fresh_tail_tokens(budget, {}))
    chunks = chunking.leaf_chunks(places, tail)
    assert all(after <= tail and after - first >= chunking.MIN_LEAF_MESSAGES for first, after in chunks)
    assert all(high <= low for (_, high), (low, _) in pairwise(chunks))
    held = [at for first, after in chunks for at in range(first, after)]
    assert all(places[at].kind != "dive_result" for at in held)
    for call, result in chunking.tool_pairs(places):
        assert {
            next((n for n, (low, high) in enumerate(chunks) if low <= at < high), None) for at in (call, result)
        } in ([{None}] + [{n} for n in range(len(chunks))])


# --- stored: what compaction leaves behind ------------------------------------------------------------------
@STORED
@given(history=histories, writer=writers, budget=budgets)
def test_the_rows_hold_together_after_every_step(
    new_world: NewWorld, history: tuple[Step, ...], writer: str, budget: int
) -> None:
    world = new_world(writer, budget)
    for step in history:
        world.take(step)
        assert find_violations(world.thread.pk) == []
        assert_coverage(world)
        assert_one_place_for_every_summary(world)


def assert_coverage(world: World) -> None:
    """Messages reachable from the items are all messages taken in, each once, in order. Written anew, without SQL."""
    conversation = Conversation.objects.filter(thread=world.thread).first()
    if conversation is None:
        return
    held = dict[int, list[int]]()
    for summary_id, seq in SummaryMessage.objects.filter(summary__conversation=conversation).values_list(
        "summary_id", "message__seq"
    ):
        held.setdefault(summary_id, []).append(seq)
    below = dict[int, list[int]]()
    for container, constituent in SummaryEdge.objects.filter(container__conversation=conversation).values_list(
        "container_id", "constituent_id"
    ):
        below.setdefault(container, []).append(constituent)

    def reached(summary_id: int) -> list[int]:
        return sorted([*held.get(summary_id, []), *(seq for low in below.get(summary_id, []) for seq in reached(low))])

    seqs: list[int] = []
    for ordinal, summary_id, seq in conversation.items.order_by("ordinal").values_list(
        "ordinal", "summary_id", "message__seq"
    ):
        here = [seq] if summary_id is None else reached(summary_id)
        assert here[0] == ordinal
        seqs += here
    assert seqs == list(range(1, conversation.seen_seq + 1))


def assert_one_place_for_every_summary(world: World) -> None:
    summaries = Summary.objects.filter(conversation__thread=world.thread)
    placed = Counter(summaries.filter(item__isnull=False).values_list("pk", flat=True))
    placed += Counter(summaries.filter(edge_up__isnull=False).values_list("pk", flat=True))
    assert placed == Counter(summaries.values_list("pk", flat=True))


@STORED
@given(history=histories, writer=writers, budget=budgets, full=st.booleans())
def test_compaction_never_raises_the_total_and_lowers_it_when_it_created_something(
    new_world: NewWorld, history: tuple[Step, ...], writer: str, budget: int, full: bool
) -> None:
    world = new_world(writer, budget)
    world.live(history)
    world.take(Compact(full=False))  # what was changed has its words again
    before = context_cost(world)
    compaction_result = world.provider.compact(world.session, budget, full=full)
    after = context_cost(world)
    assert after <= before
    assert after < before or not compaction_result.created
    assert (compaction_result.tokens_before - compaction_result.tokens_after > 0) == bool(compaction_result.created)


LATE_PAIR = (
    Say((Line("look up", "agent", "tool_call", "a0"), *[Line("Every line tells one more thing. " * 8)] * 100)),
    Compact(full=True),
    Say((Line("result", "agent", "tool_result", "a0"),)),
)
"""What stands between the call and its result was summarised before the result came."""


@STORED
@given(history=histories, writer=writers, budget=budgets, full=st.booleans())
@example(history=LATE_PAIR, writer="brief", budget=2_000, full=False)
def test_the_tail_and_the_newest_request_stay_as_they_are(
    new_world: NewWorld, history: tuple[Step, ...], writer: str, budget: int, full: bool
) -> None:
    world = new_world(writer, budget)
    world.live(history)
    world.provider.bootstrap(world.session)
    places = newest_items(Conversation.objects.get(thread=world.thread).pk, 10_000)
    start = tail_index(places, FRESH_TAIL, fresh_tail_tokens(budget, {}))
    request = newest_request_index(places)
    tail = [place for place in places[start:] if place.kind != chunking.SUMMARY_KIND]  # one stands within a late pair
    fresh = {place.ordinal for place in (*tail, *(places[at] for at in [request] if at is not None))}
    world.take(Compact(full))
    tail_items = Item.objects.filter(conversation__thread=world.thread, message__isnull=False)
    assert fresh <= set(tail_items.values_list("message__seq", flat=True))


@STORED
@given(history=histories, writer=writers, budget=budgets)
def test_at_a_fixpoint_compacting_is_a_no_op_without_a_model_call(
    new_world: NewWorld, history: tuple[Step, ...], writer: str, budget: int
) -> None:
    world = new_world(writer, budget)
    world.live(history)
    for _ in range(5):
        if not world.provider.compact(world.session, budget, full=True).created:
            break
    rows, calls = stored(), world.calls()
    compaction_result = world.provider.compact(world.session, budget, full=True)
    assert compaction_result.created == ()
    assert compaction_result.tokens_before == compaction_result.tokens_after
    assert stored() == rows
    assert world.calls() == calls


@STORED
@given(history=histories, writer=writers, budget=budgets, tail=st.integers(0, 25))
def test_assembly_is_chronological_within_budget_without_orphans_and_writes_nothing(
    new_world: NewWorld, history: tuple[Step, ...], writer: str, budget: int, tail: int
) -> None:
    world = new_world(writer, budget)
    world.live(history)
    rows = stored()
    entries = assemble_entries(world.session, budget, tail, {})
    assert stored() == rows, "assemble writes nothing"
    assert all(older.last < newer.ordinal for older, newer in pairwise(entries)), "chronological, nothing twice"
    assert without_orphans(entries) == entries, "no orphans"
    whole = assemble_entries(world.session, 10**9, tail, {})
    assert entries == whole[len(whole) - len(entries) :], "the newest part of the whole"
    start = fresh_tail_index(whole, tail, budget, {})
    assert len(entries) >= len(whole) - start, "the tail always"
    assert sum(entry.cost for entry in entries) <= budget or len(entries) == len(whole) - start, "within budget"


@STORED
@given(history=histories, writer=writers, budget=budgets)
def test_expanding_recursively_gives_back_every_byte(
    new_world: NewWorld, history: tuple[Step, ...], writer: str, budget: int
) -> None:
    world = new_world(writer, budget)
    world.live(history)
    world.take(Compact(full=True))
    top = Item.objects.filter(conversation__thread=world.thread).select_related("message").order_by("ordinal")
    said = [
        body
        for item in top.select_related("message")
        for body in (below(world, item.summary_id) if item.summary_id else shown(item.message))
    ]
    assert said == [body for message in messages_of(world) for body in shown(message)]


def messages_of(world: World) -> list[Message]:
    return list(Message.objects.filter(thread=world.thread).order_by("seq"))


def shown(message: Message | None) -> list[str]:
    """The text, if it is one that anybody is shown."""
    assert message is not None
    is_shown = message.state in ("complete", "stopped") and message.deleted_at is None and message.kind != "system"
    return [message.body] if is_shown and message.body else []


def below(world: World, summary_id: int) -> list[str]:
    said: list[str] = []
    cursor: int | None = None
    while True:
        expansion = world.provider.expand(world.session, summary_id, cursor)
        for entry in expansion.entries:
            said += [entry.text] if entry.summary_id is None else below(world, entry.summary_id)
        if (cursor := expansion.cursor) is None:
            return said


@STORED
@given(history=histories, budget=budgets, works=st.integers(0, 3), full=st.booleans())
def test_a_failing_model_leaves_everything_as_before_or_after_a_step(
    new_world: NewWorld, history: tuple[Step, ...], budget: int, works: int, full: bool
) -> None:
    world = new_world("cut", budget)
    world.live(history)
    world.provider.bootstrap(world.session)
    rows = stored()
    was_stale = Summary.objects.filter(stale=True).exists()  # one whose sources are all gone is mended without a model
    scripted_model = ScriptedModel([brief] * works + [ModelUnavailable("Nobody answers.")])
    world.provider.config, world.provider.client = {}, scripted_model
    code = ""
    try:
        world.provider.compact(world.session, budget, full=full)
    except Problem as problem:
        code = problem.code
    assert (code == "compaction_failed") == (len(scripted_model.calls) > works)
    assert EndpointFailures.objects.filter(workspace=world.thread.workspace_id, failures=1).exists() == bool(code)
    if code and not works and not was_stale:
        assert stored() == rows
    assert find_violations(world.thread.pk) == []
    assert_coverage(world)
    assert not Summary.objects.filter(content__contains="Nobody answers").exists()


@STORED
@given(history=histories, writer=writers, budget=budgets, at=st.floats(0, 1))
def test_what_was_deleted_or_replaced_is_nowhere(
    new_world: NewWorld, history: tuple[Step, ...], writer: str, budget: int, at: float
) -> None:
    world = new_world(writer, budget)
    secret = "zq-secret-4711"
    world.take(Say(tuple(Line(f"{secret} is the code", by="agent" if n % 2 else "person") for n in range(30))))
    world.live(history)
    world.take(Compact(full=True))
    Message.objects.filter(thread=world.thread, body__contains=secret).update(
        body="", token_count=0, deleted_at="2026-04-01T00:00Z"
    )
    assert_gone(world, secret)
    assert find_violations(world.thread.pk) == []
    world.take(Finish())
    world.take(Change(at, "something else"))
    world.take(Compact(full=True))
    assert_gone(world, secret)
    assert find_violations(world.thread.pk) == []
    assert not Summary.objects.filter(conversation__thread=world.thread, stale=True).exists()


def assert_gone(world: World, secret: str) -> None:
    assert not Summary.objects.filter(conversation__thread=world.thread, content__contains=secret).exists()
    assert not any(secret in entry.text for entry in world.provider.assemble(world.session, 10**9))
    hits = world.provider.search(world.session, secret)  # words of the secret may stand elsewhere
    assert not any(secret in hit.snippet for hit in hits)
    standing = {message.pk for message in messages_of(world) if shown(message)}
    assert {hit.id for hit in hits if hit.kind == "message"} <= standing
    summaries = Summary.objects.filter(conversation__thread=world.thread, stale=False)
    assert {hit.id for hit in hits if hit.kind == "summary"} <= set(summaries.values_list("pk", flat=True))


@STORED
@given(history=histories, writer=writers, budget=budgets, at=st.floats(0, 1))
def test_an_earlier_request_sees_nothing_of_what_came_after(
    new_world: NewWorld, history: tuple[Step, ...], writer: str, budget: int, at: float
) -> None:
    world = new_world(writer, budget)
    world.live(history)
    before = max(1, round(at * world.thread.last_seq))
    session = Session(world.thread.pk, world.session.access, before=before)
    entries = world.provider.assemble(session, 10**9)
    assert all(entry.last < before for entry in entries)
    numbers = {seq for entry in entries for seq in range(entry.ordinal, entry.last + 1)}
    lost = [message for message in messages_of(world) if message.seq < before and message.seq not in numbers]
    assert all(not shown(message) or message.kind.startswith("tool") for message in lost), (
        "only halves of pairs are lost"
    )
