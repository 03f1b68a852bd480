"""Batches of events: read once, told to each viewer as their access has it at that moment."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from openvibe.base.models import Event
from openvibe.chat.api.event_frames import ApiFrames
from openvibe.chat.live.batch import EventBatch, read_batch
from openvibe.chat.live.subscriber import FrameFormat
from openvibe.chat.live.viewers import Viewer, refresh_viewers
from openvibe.chat.models import Thread
from openvibe.chat.queries import read_channel_unread, read_sidebar
from openvibe.chat.services import delete_message, mark_read, set_thread_access, update_message
from openvibe.chat.web import live
from openvibe.chat.web.live import PageFrames
from openvibe.workspaces.models import Member
from tests.factories import access, make_agent, make_member, say


def last_position() -> int:
    settle()
    return Event.objects.latest("position").position or 0


def settle() -> None:
    """Number the events, as at the commit."""
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")


def viewers_of(*members: Member) -> list[Viewer]:
    viewers = [Viewer(member.workspace_id, member.participant_id) for member in members]
    refresh_viewers(viewers)
    return viewers


def page_of(thread: Thread) -> PageFrames:
    return PageFrames("anas-garden", "UTC", frozenset({thread.pk}))


def told(batch: EventBatch, viewer: Viewer, page: FrameFormat) -> str:
    batch.wanted_ids = frozenset(event.message_id for event in batch.events if event.message_id and page.shows(event))
    return b"".join(page.frame(event, viewer, batch) for event in batch.events if viewer.sees(event)).decode()


@contextmanager
def counted() -> Iterator[list[int]]:
    counts: list[int] = []
    with CaptureQueriesContext(connection) as queries:
        yield counts
    counts.append(len(queries))


def test_a_change_is_read_and_rendered_once_for_all_who_see_the_same(
    ana: Member, thread: Thread, monkeypatch: pytest.MonkeyPatch
) -> None:
    people = [make_member(f"Reader{number}", ana.workspace) for number in range(8)]
    numbers = []
    for viewers in (viewers_of(people[0]), viewers_of(*people)):
        before = last_position()
        say(thread, ana, "Prune in March")
        settle()
        with counted() as counter:
            batch = read_batch(ana.workspace_id, after=before)
            frames = {told(batch, viewer, page_of(thread)) for viewer in viewers}
        numbers += counter
        assert len(frames) == 1
    assert numbers[0] == numbers[1]
    with counted() as counter:
        refresh_viewers(viewers)
    assert counter[0] <= 4


def test_what_followed_before_anything_was_sent_is_told_once(ana: Member, dora: Member, thread: Thread) -> None:
    before = last_position()
    message = say(thread, ana, "A slip of the tongue")
    delete_message(message=message, by=access(ana))
    settle()

    frames = told(read_batch(ana.workspace_id, after=before), viewers_of(dora)[0], page_of(thread))

    assert frames.count("data: ") == 1
    assert "This message was deleted." in frames
    assert "slip" not in frames


def test_a_filter_hears_of_a_change_behind_what_it_leaves_out(ana: Member, dora: Member, thread: Thread) -> None:
    before = last_position()
    message = say(thread, ana, "A slip of the tongue")
    for body in ("Another slip", "Well said"):
        update_message(message=message, by=access(ana), body=body)
    settle()
    changes = ApiFrames(kinds=frozenset({"message_changed"}), with_data=True)

    frames = told(read_batch(ana.workspace_id, after=before), viewers_of(dora)[0], changes)

    assert frames.count("data: ") == 1
    assert "Well said" in frames


def test_what_is_too_large_is_left_to_the_page_to_fetch(
    ana: Member, dora: Member, thread: Thread, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "MAX_FRAME_BYTES", 500)
    before = last_position()
    say(thread, ana, "Much")
    settle()

    frames = told(read_batch(ana.workspace_id, after=before), viewers_of(dora)[0], page_of(thread))

    assert '"fetch": true' in frames
    assert "Much" not in frames


def test_a_thread_closed_to_agents_is_closed_in_the_very_batch(ana: Member, thread: Thread) -> None:
    vibe = make_agent(ana, "vibe", channel=thread.channel)
    agent = Viewer(ana.workspace_id, vibe.participant_id)
    refresh_viewers([agent])
    before = last_position()
    say(thread, ana, "open")
    settle()
    assert any(agent.sees(event) for event in read_batch(ana.workspace_id, after=before).events)
    set_thread_access(thread=thread, by=access(ana), access="agent_restricted", allowed_agents=[vibe.participant])
    assert any(agent.sees(event) for event in read_batch(ana.workspace_id, after=before).events)
    set_thread_access(thread=thread, by=access(ana), access="human_only")
    say(thread, ana, "closed")
    settle()
    assert not any(agent.sees(event) for event in read_batch(ana.workspace_id, after=before).events)


def test_what_streams_tell_of_a_channel_is_what_the_sidebar_shows(ana: Member, thread: Thread) -> None:
    dora, emil = (make_member(name, ana.workspace) for name in ("Dora", "Emil"))
    for body in ("@dora roses?", "@dora and @emil?", "@emil!"):
        say(thread, ana, body)
    thread.refresh_from_db()
    mark_read(thread=thread, by=access(dora), seq=1)
    mark_read(thread=thread, by=access(emil), seq=3)
    readers = (ana, dora, emil)
    sidebar_state = {
        (reader.participant_id, channel.pk): (channel.unread, channel.mention_count)
        for reader in readers
        for channel in read_sidebar(access(reader), reader.user_id).channels
    }
    assert read_channel_unread(sidebar_state) == sidebar_state
    assert sidebar_state[dora.participant_id, thread.channel_id] == (True, 1)
    assert sidebar_state[emil.participant_id, thread.channel_id] == (False, 0)
