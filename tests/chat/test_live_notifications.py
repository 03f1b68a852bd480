"""The people who are notified of what: decided on the server, with the live event, for each viewer."""

import json
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from agents.models import Agent
from openvibe.base.models import Event
from openvibe.chat.live.batch import EventBatch, EventRow, LiveEvent, make_batch
from openvibe.chat.live.viewers import Viewer, is_notified, refresh_viewers
from openvibe.chat.models import Message, Thread
from openvibe.chat.services import (
    create_reply,
    finish_reply,
    set_default_notification_level,
    set_notification_level,
    start_dive,
    update_message,
)
from openvibe.chat.web.live import PageFrames
from openvibe.workspaces.models import Member
from openvibe.workspaces.services import pause_notifications
from tests.factories import access, make_agent, say

pytestmark = pytest.mark.django_db


def viewers_of(*members: Member) -> list[Viewer]:
    viewers = [Viewer(member.workspace_id, member.participant_id) for member in members]
    refresh_viewers(viewers)
    return viewers


def batch_of(*rows: Event) -> EventBatch:
    return make_batch(
        rows[0].workspace_id, [EventRow(*(getattr(row, name) for name in EventRow._fields)) for row in rows]
    )


def last_batch() -> EventBatch:
    return batch_of(Event.objects.latest("pk"))


def notified(*members: Member, batch: EventBatch | None = None) -> list[bool]:
    batch = batch or last_batch()
    event: LiveEvent = batch.events[0]
    return [viewer.sees(event) and is_notified(viewer, event, batch) for viewer in viewers_of(*members)]


def test_each_is_notified_as_she_chose_and_nobody_of_her_own(ana: Member, dora: Member, thread: Thread) -> None:
    say(thread, ana, "Good morning, @ana")
    assert notified(ana, dora) == [False, False]
    set_default_notification_level(by=access(ana), level="all")
    set_default_notification_level(by=access(dora), level="all")
    say(thread, ana, "Good morning")
    assert notified(ana, dora) == [False, True]
    set_notification_level(scope=thread.channel, by=access(dora), level="mentions")
    say(thread, ana, "Good morning")
    assert notified(dora) == [False]
    say(thread, ana, "Good morning, @dora")
    assert notified(dora) == [True]
    set_notification_level(scope=thread, by=access(dora), level="nothing")
    say(thread, ana, "Good morning, @dora")
    assert notified(dora) == [False]


def test_nobody_is_disturbed_who_does_not_want_to_be(ana: Member, dora: Member, thread: Thread) -> None:
    pause_notifications(user=dora.user, until=timezone.now() + timedelta(minutes=5))
    say(thread, ana, "Good morning, @dora")
    assert notified(dora) == [False]
    pause_notifications(user=dora.user, until=timezone.now() - timedelta(minutes=5))
    assert notified(dora) == [True]


def test_an_answer_is_told_when_it_is_finished_and_never_again(
    ana: Member, dora: Member, vibe: Agent, thread: Thread
) -> None:
    set_notification_level(scope=thread, by=access(dora), level="all")
    reply = create_reply(thread=thread, author=vibe.participant, client_id="1")
    assert notified(dora) == [False]
    Message.objects.filter(pk=reply.pk).update(body="In")
    assert notified(dora) == [False]
    finish_reply(reply=reply, body="In March.", state="complete")
    assert notified(dora) == [True]
    message = say(thread, ana, "Thanks")
    update_message(message=message, by=access(ana), body="Thank you, @dora")
    assert notified(dora) == [False]


def test_nobody_is_notified_of_what_is_old_or_said_in_dives_or_not_seen(
    ana: Member, ben: Member, dora: Member, thread: Thread
) -> None:
    for member in (ana, ben, dora):
        set_default_notification_level(by=access(member), level="all")
    source = say(thread, ana, "Good morning")
    assert notified(ben, dora) == [False, True]
    row = Event.objects.latest("pk")
    row.created_at = timezone.now() - timedelta(minutes=5)
    assert notified(dora, batch=batch_of(row)) == [False]
    agent = make_agent(ana, "fern", level=4, channel=thread.channel).participant
    start_dive(source=source, agent=agent, by=access(ana), body="Hm, @dora?")
    posted = Event.objects.filter(kind="message_posted").latest("pk")
    assert notified(dora, batch=batch_of(posted)) == [False]


def test_a_frame_tells_the_place_and_the_first_words_for_one_statement_each(
    ana: Member, dora: Member, thread: Thread
) -> None:
    set_notification_level(scope=thread, by=access(dora), level="all")
    message = say(thread, ana, "**Prune** in\n\nMarch. " + "Roses " * 100)
    frames, batch = PageFrames("anas-garden", "UTC", frozenset()), last_batch()
    batch.cache.clear()
    viewers = viewers_of(ana, dora)
    with CaptureQueriesContext(connection) as statements:
        frame_list = [frames.frame(batch.events[0], viewer, batch) for viewer in viewers * 20]
    assert len(statements) == 2  # what people chose, and the words
    own, other = (json.loads(frame.decode().partition("data: ")[2]) for frame in frame_list[:2])
    assert "notify" not in own
    assert other["notify"]["title"] == "Ana · Pruning"
    assert other["notify"]["body"].startswith("Prune in March. Roses")
    assert len(other["notify"]["body"]) <= 160
    assert (other["message"], other.get("muted")) == (message.pk, None)

    set_notification_level(scope=thread, by=access(dora), level="nothing")
    say(thread, ana, "Roses")
    batch = last_batch()
    muted = json.loads(frames.frame(batch.events[0], viewers_of(dora)[0], batch).decode().partition("data: ")[2])
    assert (muted["muted"], "notify" in muted) == (True, False)
