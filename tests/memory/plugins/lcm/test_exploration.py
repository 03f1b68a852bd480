"""The way from a summary down to what was said, and never sideways into what the asker may not see."""

import pytest

from agents.models import Agent
from memory.plugins.base import ContextEntry, Session
from memory.plugins.lcm.models import Conversation
from memory.plugins.lcm.retrieval import MAX_EXPANSION_ENTRIES, MAX_EXPANSION_TOKENS, describe_summary, expand_summary
from openvibe.base.problems import Missing
from openvibe.chat.models import Message, Thread
from openvibe.chat.services import delete_message
from openvibe.engines.llm.tokens import count_tokens
from openvibe.workspaces.models import Member
from tests.factories import access, make_channel, make_thread
from tests.memory.plugins.lcm.factories import condensed, leaf, session_of, taken_in, told


@pytest.fixture
def conversation(thread: Thread, ana: Member) -> Conversation:
    told(thread, ana.participant, *(f"Message {number}." for number in range(1, 61)))
    return taken_in(thread)


def all_of(session: Session, summary_id: int) -> list[ContextEntry]:
    """One step down, page by page."""
    entries: list[ContextEntry] = []
    cursor = None
    while True:
        expansion = expand_summary(session, summary_id, cursor)
        assert expansion.entries or cursor is None
        entries += expansion.entries
        cursor = expansion.cursor
        if cursor is None:
            return entries


def messages_below(session: Session, summary_id: int) -> list[ContextEntry]:
    """All the way down."""
    return [
        message
        for entry in all_of(session, summary_id)
        for message in ([entry] if entry.summary_id is None else messages_below(session, entry.summary_id))
    ]


def test_a_summary_says_where_it_stands(session: Session, conversation: Conversation) -> None:
    low, high = leaf(conversation, 1, 10, "First."), leaf(conversation, 11, 20)
    above = condensed(conversation, [low, high])
    description = describe_summary(session, low.pk)
    assert (description.kind, description.depth, description.content, description.tokens) == (
        "leaf",
        0,
        "First.",
        count_tokens("First."),
    )
    assert (description.first, description.last, description.message_count, description.container) == (
        1,
        10,
        10,
        above.pk,
    )
    assert (description.earliest, description.latest) == ("2026-03-01T12:01:00+00:00", "2026-03-01T12:10:00+00:00")
    assert description.constituents == ()
    higher = describe_summary(session, above.pk)
    assert (higher.kind, higher.depth, higher.container, higher.constituents) == (
        "condensed",
        1,
        None,
        (low.pk, high.pk),
    )


def test_expanding_goes_down_never_up(session: Session, conversation: Conversation) -> None:
    low, high = leaf(conversation, 1, 10), leaf(conversation, 11, 20)
    above = condensed(conversation, [low, high])
    assert [entry.summary_id for entry in expand_summary(session, above.pk).entries] == [low.pk, high.pk]
    below = expand_summary(session, low.pk)
    assert [entry.ordinal for entry in below.entries] == list(range(1, 11))
    assert {entry.summary_id for entry in below.entries} == {None}
    assert below.cursor is None


def test_expanding_stops_at_the_cap_and_goes_on_from_there(session: Session, thread: Thread, ana: Member) -> None:
    told(thread, ana.participant, *["word " * 1_500] * 10)
    leaf_summary = leaf(taken_in(thread), 1, 10)
    first = expand_summary(session, leaf_summary.pk)
    assert sum(count_tokens(entry.text) for entry in first.entries) <= MAX_EXPANSION_TOKENS
    assert [entry.ordinal for entry in first.entries] == [1, 2]
    assert [entry.ordinal for entry in expand_summary(session, leaf_summary.pk, first.cursor).entries] == [3, 4]
    assert [entry.ordinal for entry in all_of(session, leaf_summary.pk)] == list(range(1, 11))


def test_one_message_longer_than_the_cap_is_given_whole(session: Session, thread: Thread, ana: Member) -> None:
    told(thread, ana.participant, "語" * 20_000, *["short"] * 11)
    leaf_summary = leaf(taken_in(thread), 1, 12)
    entries = expand_summary(session, leaf_summary.pk)
    assert [len(entry.text) for entry in entries.entries] == [20_000]
    assert [entry.ordinal for entry in expand_summary(session, leaf_summary.pk, entries.cursor).entries] == list(
        range(2, 13)
    )


def test_many_short_messages_come_in_pages(session: Session, thread: Thread, ana: Member) -> None:
    told(thread, ana.participant, *["a"] * (MAX_EXPANSION_ENTRIES + 50))
    leaf_summary = leaf(taken_in(thread), 1, MAX_EXPANSION_ENTRIES + 50)
    assert len(expand_summary(session, leaf_summary.pk).entries) == MAX_EXPANSION_ENTRIES
    assert len(all_of(session, leaf_summary.pk)) == MAX_EXPANSION_ENTRIES + 50


def test_expanding_all_the_way_gives_back_every_byte(session: Session, thread: Thread, ana: Member) -> None:
    texts = [f"{number}: 日本語 👩‍👩‍👧 <b>&amp;</b> \t\n {'long ' * (number * 40)}" for number in range(1, 61)]
    told(thread, ana.participant, *texts)
    conversation = taken_in(thread)
    leaves = [leaf(conversation, first, first + 9) for first in range(1, 60, 10)]
    middle = [condensed(conversation, leaves[:3]), condensed(conversation, leaves[3:])]
    top = condensed(conversation, middle)
    assert [entry.text for entry in messages_below(session, top.pk)] == texts


def test_what_was_deleted_is_not_given_back(session: Session, conversation: Conversation, ana: Member) -> None:
    leaf_summary = leaf(conversation, 1, 10)
    delete_message(message=Message.objects.get(thread=session.thread_id, seq=4), by=access(ana))
    assert [entry.ordinal for entry in expand_summary(session, leaf_summary.pk).entries] == [1, 2, 3, 5, 6, 7, 8, 9, 10]
    assert describe_summary(session, leaf_summary.pk).is_stale


def test_a_leaf_of_nothing_to_show_is_empty(session: Session, conversation: Conversation) -> None:
    leaf_summary = leaf(conversation, 1, 10)
    Message.objects.filter(thread=session.thread_id, seq__lte=10).update(kind="system")
    assert expand_summary(session, leaf_summary.pk).entries == ()
    assert expand_summary(session, leaf_summary.pk).cursor is None


@pytest.mark.parametrize("cursor", [-5, 0, 10**30])
def test_any_cursor_is_safe(session: Session, conversation: Conversation, cursor: int) -> None:
    leaf_summary = leaf(conversation, 1, 10)
    assert len(expand_summary(session, leaf_summary.pk, cursor).entries) in (0, 10)


@pytest.mark.parametrize("look", [describe_summary, expand_summary])
def test_unknown_and_out_of_scope_are_the_same(
    look: object, session: Session, conversation: Conversation, thread: Thread, ana: Member, cleo: Member, vibe: Agent
) -> None:
    assert callable(look)
    own = leaf(conversation, 1, 10)
    other = make_thread(thread.channel, ana, "Another")
    told(other, ana.participant, *["word"] * 10)
    elsewhere = leaf(taken_in(other), 1, 10)
    hers = make_thread(make_channel(cleo), cleo, "Hers")
    told(hers, cleo.participant, *["secret"] * 10)
    foreign = leaf(taken_in(hers), 1, 10)
    problems = set()
    for asking, summary_id in [
        (session, 10**9),
        (session, -1),
        (session, 10**30),
        (session, elsewhere.pk),
        (session, foreign.pk),
        (Session(thread.pk, access(cleo)), own.pk),
        (Session(hers.pk, session.access), foreign.pk),
        (session_of(thread, vibe.participant, before=10), own.pk),
    ]:
        with pytest.raises(Missing) as error:
            look(asking, summary_id)
        problems.add((error.value.status, error.value.code, error.value.message))
    assert len(problems) == 1
    look(session, own.pk)
    look(session_of(thread, vibe.participant, before=11), own.pk)
