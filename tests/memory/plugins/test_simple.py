"""Simple memory: a window that moves in steps, with the tail always and the pairs of tools whole."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.agent.access import visible_to
from agents.models import Agent
from memory.plugins.base import ENVELOPE_TOKENS, MAX_PAIR_DISTANCE, WINDOW_STEP, ContextEntry, Session, capabilities_of
from memory.plugins.sessions import open_session
from memory.plugins.simple import SimpleProvider, WindowMessage, select_window
from openvibe.chat.models import Thread
from openvibe.workspaces.models import Member
from tests import factories
from tests.examples import examples

PLENTY = 100_000


@pytest.fixture
def session(vibe: Agent, thread: Thread) -> Session:
    return open_session(visible_to(vibe), thread.pk)


def numbers(entries: list[ContextEntry]) -> list[int]:
    return [entry.ordinal for entry in entries]


def texts(count: int, cost: int = 100) -> list[WindowMessage]:
    return [WindowMessage(seq, cost, "text", "") for seq in range(1, count + 1)]


@st.composite
def histories(draw: st.DrawFn) -> list[WindowMessage]:
    kinds = st.sampled_from(["text", "text", "text", "tool_call", "tool_result"])
    seq, lines = 0, []
    for _ in range(draw(st.integers(0, 60))):
        seq += draw(st.sampled_from([1, 1, 1, 2, 90]))
        kind = draw(kinds)
        call_id = "" if kind == "text" else draw(st.sampled_from(["a", "b", "c", ""]))
        lines.append(WindowMessage(seq, draw(st.integers(45, 1_244)), kind, call_id))
    return lines


@settings(deadline=None, max_examples=examples(300))
@given(histories(), st.integers(-5, 20_000), st.integers(0, 30), st.integers(1, 60), st.booleans())
def test_a_window_keeps_its_promises(
    lines: list[WindowMessage], budget: int, tail: int, most: int, is_all: bool
) -> None:
    shown = select_window(lines, budget=budget, fresh_tail=tail, max_messages=most, is_all=is_all)
    everything = select_window(lines, budget=10**9, fresh_tail=10**6, is_all=True)
    by_seq = {line.seq: line for line in lines}
    must = select_window(lines, budget=0, fresh_tail=tail, is_all=True)

    assert shown <= everything
    assert shown == {seq for seq in everything if seq >= min(shown, default=10**9)}, "no gaps"
    assert must <= shown
    if shown != must:
        assert sum(by_seq[seq].cost for seq in shown) <= budget
        assert len(shown) <= most
    waiting: dict[str, int] = {}
    for seq in sorted(shown):
        line = by_seq[seq]
        if line.kind == "tool_call":
            waiting[line.call_key] = seq
        elif line.kind == "tool_result":
            assert seq - waiting.pop(line.call_key) <= MAX_PAIR_DISTANCE
    assert not waiting, "every call has its result"


def test_the_window_moves_in_steps() -> None:
    begins = [min(select_window(texts(count), budget=5_000, fresh_tail=5)) for count in range(51, 111)]

    assert {first % WINDOW_STEP for first in begins} == {1}
    assert begins == sorted(begins)
    assert len(set(begins)) == 6, "one for ten messages more"


def test_all_that_fits_is_shown_whole() -> None:
    assert select_window(texts(50), budget=5_000, fresh_tail=5) == set(range(1, 51))


def test_the_tail_stands_whatever_the_budget() -> None:
    assert select_window(texts(30, cost=1_000), budget=0, fresh_tail=20) == set(range(11, 31))
    assert select_window(texts(7), budget=0, fresh_tail=20) == set(range(1, 8)), "all of them when there are fewer"
    assert select_window(texts(7), budget=0, fresh_tail=0) == set()


def test_the_tail_reaches_back_to_the_call_of_its_result() -> None:
    lines = [
        *texts(3),
        WindowMessage(4, 50, "tool_call", "a"),
        WindowMessage(5, 50, "text", ""),
        WindowMessage(6, 50, "tool_result", "a"),
    ]

    assert select_window(lines, budget=0, fresh_tail=1) == {4, 5, 6}


def test_a_call_without_a_result_is_not_shown() -> None:
    lines = [
        WindowMessage(1, 50, "tool_result", "a"),
        WindowMessage(2, 50, "tool_call", "a"),
        WindowMessage(3, 50, "text", ""),
    ]

    assert select_window(lines, budget=PLENTY, fresh_tail=3) == {3}


def test_a_call_answered_too_late_is_an_orphan() -> None:
    lines = [WindowMessage(1, 50, "tool_call", "a"), WindowMessage(2 + MAX_PAIR_DISTANCE, 50, "tool_result", "a")]

    assert select_window(lines, budget=PLENTY, fresh_tail=3) == set()


def test_it_recalls_the_newest(ana: Member, thread: Thread, session: Session) -> None:
    factories.say_all(thread, ana, (f"Message {number + 1}" for number in range(30)))
    simple = SimpleProvider({"messages": 12})

    entries = simple.assemble(session, PLENTY, 5)

    assert numbers(entries) == list(range(21, 31))
    assert entries[0].text == "Message 21"
    assert (entries[0].author_name, entries[0].author_kind) == ("Ana", "member")


def test_it_has_three_capabilities_less() -> None:
    capabilities = ("Searcher", "MessageReader", "ProfileStore", "SessionManager")
    assert capabilities_of(SimpleProvider({})) == capabilities


def test_a_long_thread_costs_two_statements_that_read_little(ana: Member, thread: Thread, session: Session) -> None:
    factories.say_all(thread, ana, (f"Message {number}" for number in range(400)))
    with CaptureQueriesContext(connection) as queries:
        entries = SimpleProvider({}).assemble(session, 1_000, 5)

    assert 40 <= len(entries) <= 70
    assert len(queries) == 2
    assert f"LIMIT {1_000 // (ENVELOPE_TOKENS + 1) + 5 + MAX_PAIR_DISTANCE + WINDOW_STEP}" in queries[0]["sql"]


def test_stats_count_what_was_said(ana: Member, thread: Thread, session: Session) -> None:
    first = factories.say(thread, ana, "One two three")
    stats = SimpleProvider({}).stats(session)

    assert (stats.messages, stats.entries, stats.tokens) == (1, 1, first.token_count + ENVELOPE_TOKENS)
    assert stats.summaries == stats.deepest == 0
