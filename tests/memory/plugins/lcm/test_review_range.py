"""What an agent has still to review: exact to the message."""

import pytest

from agents.models import Agent
from memory.plugins.base import Session, UnreviewedSession
from memory.plugins.lcm.provider import LcmProvider
from memory.plugins.lcm.retrieval import MAX_REVIEW_MESSAGES
from memory.plugins.models import ReviewMark
from openvibe.chat.models import Message, Thread, visibility_of
from openvibe.workspaces.models import Member
from tests.factories import make_channel, make_thread
from tests.memory.plugins.lcm.factories import leaf, session_of, taken_in, told

REVIEWS = LcmProvider()


def test_what_is_new_is_listed_until_it_is_reviewed(session: Session, thread: Thread, ana: Member) -> None:
    assert REVIEWS.list_unreviewed(session.access) == []
    told(thread, ana.participant, "one", "two")
    assert REVIEWS.list_unreviewed(session.access) == [UnreviewedSession(thread.pk, 0, 2, 2)]
    REVIEWS.mark_reviewed(session, 2)
    assert REVIEWS.list_unreviewed(session.access) == []
    told(thread, ana.participant, "three")
    assert REVIEWS.list_unreviewed(session.access) == [UnreviewedSession(thread.pk, 2, 3, 1)]


def test_messages_of_one_instant_are_told_apart(session: Session, thread: Thread, ana: Member) -> None:
    told(thread, ana.participant, *"abcd", created_at="2026-03-01T12:00Z")
    REVIEWS.mark_reviewed(session, 3)
    assert [entry.text for entry in REVIEWS.build_review_context(session, 3, 4)] == ["d"]


def test_a_mark_never_goes_back_nor_past_the_end(session: Session, thread: Thread, ana: Member) -> None:
    told(thread, ana.participant, *"abcde")
    REVIEWS.mark_reviewed(session, 4)
    REVIEWS.mark_reviewed(session, 2)
    assert ReviewMark.objects.get().reviewed_seq == 4
    REVIEWS.mark_reviewed(session, 10**6)
    assert ReviewMark.objects.get().reviewed_seq == 5


def test_a_reply_being_written_is_reviewed_when_it_is_done(
    session: Session, thread: Thread, ana: Member, vibe: Agent
) -> None:
    told(thread, ana.participant, "question")
    told(thread, vibe.participant, "ans", state="writing")
    told(thread, ana.participant, "meanwhile")
    assert REVIEWS.list_unreviewed(session.access) == [UnreviewedSession(thread.pk, 0, 1, 1)]
    REVIEWS.mark_reviewed(session, 1)
    assert REVIEWS.list_unreviewed(session.access) == []
    Message.objects.filter(thread=thread, seq=2).update(state="complete", body="answer")
    assert REVIEWS.list_unreviewed(session.access) == [UnreviewedSession(thread.pk, 1, 3, 2)]


def test_nothing_to_show_is_nothing_to_review(thread: Thread, ana: Member, vibe: Agent) -> None:
    told(thread, ana.participant, "joined", kind="system")
    told(thread, vibe.participant, "found", kind="dive_result")
    assert REVIEWS.list_unreviewed(session_of(thread, vibe.participant, dives=False).access) == []
    assert REVIEWS.list_unreviewed(session_of(thread, vibe.participant).access) == [
        UnreviewedSession(thread.pk, 0, 2, 1)
    ]


def test_only_threads_the_agent_sees(session: Session, thread: Thread, ana: Member, cleo: Member) -> None:
    private = make_thread(make_channel(ana, "private", private=True), ana)
    people = make_thread(thread.channel, ana, "People")
    Thread.objects.filter(pk=people.pk).update(access="human_only")
    hers = make_thread(make_channel(cleo), cleo)
    for there, who in ((private, ana), (people, ana), (hers, cleo), (thread, ana)):
        there.refresh_from_db()
        told(there, who.participant, "word")
    assert [each.thread_id for each in REVIEWS.list_unreviewed(session.access)] == [thread.pk]


def test_marks_are_each_agents_own(session: Session, thread: Thread, ana: Member, dora: Member) -> None:
    told(thread, ana.participant, "word")
    REVIEWS.mark_reviewed(session_of(thread, dora.participant), 1)
    assert REVIEWS.list_unreviewed(session.access) == [UnreviewedSession(thread.pk, 0, 1, 1)]


def test_summaries_tell_what_came_before(session: Session, thread: Thread, ana: Member) -> None:
    told(thread, ana.participant, *map(str, range(1, 41)))
    conversation = taken_in(thread)
    leaf(conversation, 1, 10, "First.")
    leaf(conversation, 11, 20, "Second.")
    context = REVIEWS.build_review_context(session, since=15, upto=30)
    assert [(entry.kind, entry.text) for entry in context[:2]] == [("summary", "First."), ("text", "16")]
    assert [entry.text for entry in context[1:]] == list(map(str, range(16, 31)))


def test_at_most_two_hundred_new_messages_the_first_ones(session: Session, thread: Thread, ana: Member) -> None:
    told(thread, ana.participant, *map(str, range(1, 301)))
    context = REVIEWS.build_review_context(session, since=0, upto=300)
    assert [entry.ordinal for entry in context] == list(range(1, MAX_REVIEW_MESSAGES + 1))
    REVIEWS.mark_reviewed(session, context[-1].last)
    assert REVIEWS.list_unreviewed(session.access) == [UnreviewedSession(thread.pk, 200, 300, 100)]


def test_the_list_takes_one_query(
    session: Session, thread: Thread, ana: Member, django_assert_num_queries: pytest.FixtureRequest
) -> None:
    for there in (thread, make_thread(thread.channel, ana, "B"), make_thread(thread.channel, ana, "C")):
        told(there, ana.participant, "word")
    visibility_of(session.access)
    with django_assert_num_queries(1):  # type: ignore[operator]  # pytest-django types it so
        assert len(REVIEWS.list_unreviewed(session.access)) == 3
