"""Whatever door a text comes through, its lexemes are there at once or soon; what is gone has none."""

import pytest
from django.db import connection
from django.utils import timezone

from knowledge.models import Entry
from openvibe.chat.models import Message, Thread
from openvibe.chat.queries import search_messages
from openvibe.chat.services import delete_message, finish_reply, update_message
from openvibe.chat.services.messages import create_reply
from openvibe.engines.search.lexeme_backfill import backfill_lexemes
from openvibe.workspaces.models import Member
from tests.factories import access, make_entry, say

pytestmark = pytest.mark.django_db


def found(ana: Member, words: str) -> list[str]:
    return [hit.body for hit in search_messages(access(ana), words)]


def test_what_is_posted_edited_or_deleted_is_found_as_it_is_now(ana: Member, thread: Thread) -> None:
    message = say(thread, ana, "The zinc can")
    assert found(ana, "zinc")
    update_message(message=message, by=access(ana), body="The copper can")
    assert not found(ana, "zinc")
    assert found(ana, "copper")
    delete_message(message=message, by=access(ana))
    assert not found(ana, "copper")
    assert Message.objects.values_list("search", flat=True).get(pk=message.pk) == ""
    assert backfill_lexemes() == 0


def test_an_edit_that_changes_signs_alone_stays_found(ana: Member, thread: Thread) -> None:
    message = say(thread, ana, "The zinc can")
    update_message(message=message, by=access(ana), body="The zinc can!")
    assert found(ana, "zinc")


def test_a_reply_is_found_when_it_is_done(ana: Member, thread: Thread) -> None:
    reply = create_reply(thread=thread, author=ana.participant, client_id="run:1")
    Message.objects.filter(pk=reply.pk).update(body="The zinc")
    assert backfill_lexemes() == 0
    finish_reply(reply=reply, body="The zinc can", state=Message.State.COMPLETE)
    assert found(ana, "zinc can")


def test_a_reply_that_ends_by_itself_is_found_a_moment_later(ana: Member, thread: Thread) -> None:
    reply = create_reply(thread=thread, author=ana.participant, client_id="run:1")
    Message.objects.filter(pk=reply.pk).update(body="The zinc")
    Message.objects.filter(pk=reply.pk).update(state=Message.State.STOPPED)
    assert backfill_lexemes() == 1
    assert found(ana, "zinc")


def test_what_is_written_past_the_services_is_filled_the_newest_first(ana: Member, thread: Thread) -> None:
    messages = [say(thread, ana, f"Number {number} of the zinc cans") for number in range(3)]
    Message.objects.update(body="A copper can")
    Thread.objects.update(title="Gießkannen")
    assert not Message.objects.filter(lexemes_version=1).exists()
    assert backfill_lexemes() >= 4
    assert len(found(ana, "copper")) == len(messages)
    assert not found(ana, "zinc")
    assert backfill_lexemes() == 0


def test_filling_tells_nobody_of_a_change(ana: Member, thread: Thread) -> None:
    say(thread, ana, "The zinc can")
    with connection.cursor() as cursor:
        cursor.execute("UPDATE chat_message SET search = '', lexemes_version = 0")
        cursor.execute("SELECT count(*) FROM base_event WHERE kind = 'message_changed'")
        before = cursor.fetchone()
        assert backfill_lexemes() == 1
        cursor.execute("SELECT count(*) FROM base_event WHERE kind = 'message_changed'")
        assert cursor.fetchone() == before
    assert found(ana, "zinc")


def test_a_turn_ends_in_time_and_the_next_goes_on(ana: Member, thread: Thread, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("openvibe.engines.search.lexeme_backfill.BATCH_SIZE", 1)
    for number in range(3):
        say(thread, ana, f"Number {number}")
    Message.objects.update(body="A copper can")
    assert [backfill_lexemes(seconds=0.0) for _ in range(4)] == [1, 1, 1, 0]


def test_an_entry_has_its_lexemes_whoever_changes_it(ana: Member) -> None:
    entry = make_entry(ana, "Zinc", "A can")
    assert "'zinc':1A" in Entry.objects.values_list("search", flat=True).get(pk=entry.pk)
    Entry.objects.filter(pk=entry.pk).update(content="A pipe", updated_at=timezone.now())
    assert backfill_lexemes() == 1
    assert "'pipe'" in Entry.objects.values_list("search", flat=True).get(pk=entry.pk)
