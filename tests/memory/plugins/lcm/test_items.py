"""Taking messages in: every message once, whoever wrote it and however often it is asked."""

from __future__ import annotations

from threading import Barrier
from threading import Thread as Strand

import pytest
from django.db import connection, connections
from django.test.utils import CaptureQueriesContext

from agents.models import Agent
from memory.plugins.base import NewMessage
from memory.plugins.lcm.integrity import find_violations
from memory.plugins.lcm.items import ingest_messages
from memory.plugins.lcm.models import Conversation, Item
from memory.plugins.lcm.provider import LcmProvider
from openvibe.base.problems import Problem
from openvibe.chat.models import Message, Thread
from openvibe.chat.services import delete_message
from openvibe.workspaces.models import Member
from tests.factories import access, make_thread, say
from tests.memory.plugins.lcm.factories import session_of, told


def ordinals(thread: Thread) -> list[int]:
    return list(Item.objects.filter(conversation__thread=thread).order_by("ordinal").values_list("ordinal", flat=True))


def test_every_message_gets_an_item_whatever_it_is(thread: Thread, ana: Member) -> None:
    told(thread, ana.participant, "One.", "Two.")
    told(thread, ana.participant, "Three.", kind="dive_result")
    told(thread, ana.participant, "", state="writing")
    told(thread, ana.participant, "Hello.", kind="system")
    delete_message(message=Message.objects.get(thread=thread, seq=1), by=access(ana))
    assert ingest_messages(thread.pk) == 5
    assert ordinals(thread) == [1, 2, 3, 4, 5]
    assert find_violations(thread.pk) == []


def test_taking_in_again_changes_nothing(thread: Thread, ana: Member) -> None:
    told(thread, ana.participant, "One.", "Two.")
    ingest_messages(thread.pk)
    version = Conversation.objects.get(thread=thread).version
    with CaptureQueriesContext(connection) as queries:
        assert ingest_messages(thread.pk) == 0
    assert len(queries) == 1
    assert ordinals(thread) == [1, 2]
    assert Conversation.objects.get(thread=thread).version == version


def test_what_was_said_later_is_taken_in_later(thread: Thread, ana: Member) -> None:
    told(thread, ana.participant, "One.")
    ingest_messages(thread.pk)
    say(thread, ana, "Two.")
    assert ingest_messages(thread.pk) == 1
    assert ordinals(thread) == [1, 2]
    assert Conversation.objects.get(thread=thread).seen_seq == 2


def test_an_empty_thread_has_nothing_to_take_in(thread: Thread) -> None:
    assert ingest_messages(thread.pk) == 0


@pytest.mark.parametrize("many", [1, 3, 300])
def test_many_messages_need_no_more_statements_than_one(thread: Thread, ana: Member, many: int) -> None:
    told(thread, ana.participant, *["Word."] * many)
    with CaptureQueriesContext(connection) as queries:
        ingest_messages(thread.pk)
    assert len([query for query in queries if "SAVEPOINT" not in query["sql"]]) == 4


def test_appending_stores_and_takes_in_and_gives_the_numbers(vibe: Agent, thread: Thread) -> None:
    session = session_of(thread, vibe.participant)
    messages = [
        NewMessage("user", "When do I prune?", "x1"),
        NewMessage("tool_call", "{}", "x2", "c1"),
        NewMessage("tool_result", "March", "x3", "c1"),
        NewMessage("assistant", "In March.", "x4"),
    ]
    assert LcmProvider().append(session, messages) == [1, 2, 3, 4]
    assert ordinals(thread) == [1, 2, 3, 4]
    assert find_violations(thread.pk) == []


def test_the_same_message_is_not_stored_twice_on_a_retry(vibe: Agent, thread: Thread) -> None:
    session = session_of(thread, vibe.participant)
    said = [NewMessage("user", "When do I prune?", "x1"), NewMessage("assistant", "In March.", "x2")]
    assert LcmProvider().append(session, said) == LcmProvider().append(session, said) == [1, 2]
    assert ordinals(thread) == [1, 2]


def test_two_equal_short_messages_stay_two(vibe: Agent, thread: Thread) -> None:
    session = session_of(thread, vibe.participant)
    assert LcmProvider().append(session, [NewMessage("user", "ok"), NewMessage("user", "ok")]) == [1, 2]
    assert LcmProvider().append(session, [NewMessage("user", "ok")]) == [3]


def test_a_batch_with_a_bad_message_stores_none_of_it(vibe: Agent, thread: Thread) -> None:
    session = session_of(thread, vibe.participant)
    with pytest.raises(Problem):
        LcmProvider().append(session, [NewMessage("user", "Fine."), NewMessage("user", "  ")])
    assert not Message.objects.filter(thread=thread).exists()
    assert ordinals(thread) == []


@pytest.mark.django_db(transaction=True)
def test_two_who_take_in_at_once_give_each_message_one_item(thread: Thread, ana: Member) -> None:
    told(thread, ana.participant, *["Word."] * 50)
    together = Barrier(2)

    def taking() -> None:
        together.wait(10)
        ingest_messages(thread.pk)
        connections.close_all()

    strands = [Strand(target=taking) for _ in range(2)]
    for strand in strands:
        strand.start()
    for strand in strands:
        strand.join(30)
    assert ordinals(thread) == list(range(1, 51))
    assert find_violations(thread.pk) == []


def test_one_threads_messages_are_not_taken_into_another(thread: Thread, ana: Member) -> None:
    other = make_thread(thread.channel, ana, "Mulching")
    told(thread, ana.participant, "One.", "Two.")
    told(other, ana.participant, "Three.")
    ingest_messages(other.pk)
    assert ordinals(other) == [1]
    assert ordinals(thread) == []
