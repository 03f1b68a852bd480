"""One message is one statement: what holds when the same message comes twice, or several at once."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from agents.models import Agent
from openvibe.base.models import Event
from openvibe.chat.models import Message, ReadMarker, Thread
from openvibe.chat.services import post_message, save_draft
from openvibe.workspaces.models import Member
from tests.factories import access, say


def posted(thread: Thread, by: Member, client_id: str) -> int:
    try:
        return post_message(thread=thread, by=access(by), body="Once, @ana", client_id=client_id).pk
    finally:
        connection.close()


@pytest.mark.django_db(transaction=True)
def test_the_same_message_from_five_at_once_is_one_message(ana: Member, thread: Thread) -> None:
    before = thread.messages.count()
    with ThreadPoolExecutor(5) as callers:
        found = set(callers.map(lambda _: posted(thread, ana, "k"), range(5)))
    assert len(found) == 1
    assert thread.messages.count() == before + 1
    assert Event.objects.filter(kind="message_posted", message_id__in=found).count() == 1


@pytest.mark.django_db(transaction=True)
def test_messages_at_once_leave_no_gap(ana: Member, thread: Thread) -> None:
    first = say(thread, ana, "First").seq
    with ThreadPoolExecutor(4) as callers:
        list(callers.map(lambda n: posted(thread, ana, f"k{n // 2}"), range(8)))
    assert list(thread.messages.order_by("seq").values_list("seq", flat=True))[first - 1 :] == list(
        range(first, first + 5)
    )
    assert ReadMarker.objects.get(thread=thread, participant=ana.participant).last_read_seq == first + 4


def test_a_message_sent_again_touches_nothing(ana: Member, thread: Thread) -> None:
    first = post_message(thread=thread, by=access(ana), body="Once", client_id="k")
    save_draft(thread=thread, by=access(ana), body="The next thing")
    again = post_message(thread=thread, by=access(ana), body="Once more", client_id="k")
    assert (again.pk, again.body) == (first.pk, "Once")
    assert thread.drafts.get().body == "The next thing"


def test_the_message_that_comes_back_is_the_stored_one(ana: Member, thread: Thread) -> None:
    message = say(thread, ana, "Ask @ben and @nobody")
    stored = Message.objects.get(pk=message.pk)
    for field in ("seq", "author_id", "kind", "state", "body", "client_id", "token_count", "created_at"):
        assert getattr(message, field) == getattr(stored, field)
    message.save()
    assert thread.messages.filter(pk=message.pk).count() == 1


def test_a_message_is_one_statement_however_many_are_named(
    ana: Member, ben: Member, vibe: Agent, thread: Thread
) -> None:
    thread.channel  # noqa: B018  loaded by whoever found the thread
    for body in ("Nobody", "@ben", "@ben @ana"):
        with CaptureQueriesContext(connection) as asked:
            say(thread, ana, body)
        assert len(asked) == 1, [each["sql"] for each in asked.captured_queries]
