"""Live updates through the ASGI application, on committed rows of a real PostgreSQL."""

import asyncio
import json
import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.test import Client
from django.utils import timezone

from openvibe.base.events import EVENT_RETENTION_HOURS
from openvibe.base.models import Event
from openvibe.base.tasks import delete_expired_events
from openvibe.chat.live import hub, subscriber
from openvibe.chat.live.subscriber import StreamSubscriber
from openvibe.chat.live.viewers import Viewer, refresh_viewers
from openvibe.chat.models import Channel, Message, Thread
from openvibe.chat.services import create_reply, finish_reply, mark_read, remove_from_channel, update_message
from openvibe.chat.web.live import PageFrames
from openvibe.engines.serving.streams import STREAMS_KEY
from openvibe.workspaces.models import Member
from openvibe.workspaces.services import remove_member, update_member_role
from tests.chat.web.event_stream_reader import Frame, Reader
from tests.chat.web.visible_words import visible_words
from tests.factories import access, make_agent, make_channel, make_thread, say

pytestmark = pytest.mark.django_db(transaction=True)
SignedIn = Callable[[Member], Client]


@pytest.fixture
def path(home: str) -> str:
    return f"{home}events/"


def last_position() -> int:
    return Event.objects.latest("position").position or 0


def told(frame: Frame) -> tuple[str, int | None]:
    data = json.loads(frame.data)
    return data["kind"], data["message"]


def test_what_is_said_is_told_to_a_page_of_lists_as_ids_facts_and_the_row_it_leaves(
    ana: Member, dora: Member, thread: Thread, path: str, signed_in: SignedIn
) -> None:
    with Reader(signed_in(dora), path, query=f"after={last_position()}") as reader:
        assert (reader.status, reader.content_type) == (200, "text/event-stream")
        message = say(thread, ana, "words for @dora")
        data = json.loads(reader.next().data)
        row = data.pop("row")
        assert data == {
            "kind": "message_posted",
            "channel": thread.channel_id,
            "thread": thread.pk,
            "message": message.pk,
            "mine": False,
            "named": True,
            "dive": False,
            "seq": message.seq,
            "notify": {"title": "Ana · Pruning", "body": "words for @dora"},
        }
        listed = signed_in(dora).get(path.removesuffix("events/")).content.decode()
        for part in ("<time.*?</time>", r"<span class=.thread-preview.*?</span></span>", "<span data-count>.*?</span>"):
            told_words, listed_words = (visible_words(re.findall(part, html, re.DOTALL)[0]) for html in (row, listed))
            assert told_words == listed_words
        assert "Pruning" not in row
        assert ("words for @dora" in row, "something new" in visible_words(row)) == (True, False)
        update_message(message=message, by=access(ana), body="other words")
        assert told(reader.next()) == ("message_changed", message.pk)
        thread.refresh_from_db()
        mark_read(thread=thread, by=access(dora), seq=message.seq)
        read = json.loads(reader.next().data)
        assert (read["kind"], read["unread"], read["mentions"]) == ("read_changed", False, 0)


def test_a_page_hears_at_once_that_nothing_holds_its_stream_back(ana: Member, path: str, signed_in: SignedIn) -> None:
    with Reader(signed_in(ana), path, query=f"participant={ana.participant_id}") as reader:
        assert reader.opened_at() == str(last_position())
        assert reader.is_alive()


@pytest.mark.parametrize("participant", ["", "x", "0", "99999999999999999999"])
def test_nobody_gets_the_stream_of_a_page_that_was_made_for_somebody_else(
    ana: Member, path: str, signed_in: SignedIn, participant: str
) -> None:
    answer = signed_in(ana).get(path, {"participant": participant}, headers={"Accept": "application/json"})
    assert (answer.status_code, answer.json()["code"]) == (409, "another_reader")


def test_what_was_missed_is_replayed_after_the_last_event_seen(
    ana: Member, thread: Thread, path: str, signed_in: SignedIn
) -> None:
    first = say(thread, ana, "one")
    position = last_position()
    missed = [say(thread, ana, text).pk for text in ("two", "three")]
    with Reader(signed_in(ana), path, query="after=0", last_event_id=str(position)) as reader:
        assert [told(reader.next())[1] for _ in missed] == missed
    assert first.pk not in missed


def test_older_than_kept_or_unknown_is_told_to_reload(
    ana: Member, thread: Thread, path: str, signed_in: SignedIn
) -> None:
    say(thread, ana, "one")
    old = last_position()
    Event.objects.all().delete()
    say(thread, ana, "two")
    for after in (old, last_position() + 1000):
        with Reader(signed_in(ana), path, query=f"after={after}") as reader:
            frame = reader.next()
            assert (frame.event, frame.id) == ("reload", str(last_position()))


def test_after_quiet_days_a_reader_goes_on_from_the_last_event(
    ana: Member, cleo: Member, thread: Thread, path: str, signed_in: SignedIn
) -> None:
    for text in ("one", "two"):
        say(thread, ana, text)
    position, old = last_position(), timezone.now() - timedelta(hours=EVENT_RETENTION_HOURS + 1)
    Event.objects.update(created_at=old)
    say(make_thread(make_channel(cleo), cleo), cleo, "elsewhere")
    missed = say(thread, ana, "three")
    delete_expired_events()
    with Reader(signed_in(ana), path, query=f"after={position}") as reader:
        assert told(reader.next()) == ("message_posted", missed.pk)
    with Reader(signed_in(ana), path, query=f"after={position - 1}") as reader:
        assert reader.next().event == "reload"


def test_threads_one_may_not_see_are_never_told(
    ana: Member, dora: Member, cleo: Member, thread: Thread, path: str, signed_in: SignedIn
) -> None:
    private = make_thread(make_channel(ana, "salaries", private=True), ana)
    foreign = make_thread(make_channel(cleo), cleo)
    with Reader(signed_in(dora), path, query=f"after={last_position()}") as reader:
        say(private, ana, "not for dora")
        say(foreign, cleo, "another workspace")
        mark_read(thread=thread, by=access(ana), seq=0)
        seen = say(thread, ana, "for everybody")
        assert told(reader.next()) == ("message_posted", seen.pk)


def test_a_removed_members_stream_ends(
    ana: Member, dora: Member, thread: Thread, path: str, signed_in: SignedIn
) -> None:
    with Reader(signed_in(dora), path, query=f"after={last_position()}") as reader:
        remove_member(member=dora, by=access(ana))
        say(thread, ana, "after")
        assert reader.next().event == "gone"
        assert reader.ended()
    with Reader(signed_in(dora), path) as late:
        assert late.status == 404


def test_a_role_that_falls_takes_effect_in_the_open_stream(
    ana: Member, dora: Member, thread: Thread, channel: Channel, path: str, signed_in: SignedIn
) -> None:
    with Reader(signed_in(dora), path, query=f"after={last_position()}") as reader:
        remove_from_channel(channel=channel, participant=dora.participant, by=access(ana))
        update_member_role(member=dora, role="guest", by=access(ana))
        say(thread, ana, "not for guests")
        remove_member(member=dora, by=access(ana))
        kinds = []
        while (frame := reader.next()).event != "gone":
            kinds.append(told(frame)[0])
        assert "message_posted" not in kinds


def test_a_broken_listening_connection_heals(
    ana: Member, thread: Thread, path: str, signed_in: SignedIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "RECONNECT_SECONDS", 0.02)
    with Reader(signed_in(ana), path, query=f"after={last_position()}") as reader:
        first = say(thread, ana, "before")
        assert told(reader.next())[1] == first.pk
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        second = say(thread, ana, "after")
        while (event := told(reader.next()))[0] != "message_posted":
            pass
        assert event[1] == second.pk


def test_signed_out_and_strangers_get_no_stream(cleo: Member, thread: Thread, path: str, signed_in: SignedIn) -> None:
    with Reader(Client(), path) as nobody:
        assert nobody.status == 401
    with Reader(signed_in(cleo), path) as stranger:
        assert stranger.status == 404


def test_a_server_without_streams_says_so(ana: Member, path: str, signed_in: SignedIn) -> None:
    assert signed_in(ana).get(path).status_code == 503


def test_one_reader_cannot_take_all_streams(
    ana: Member, dora: Member, thread: Thread, path: str, signed_in: SignedIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "MAX_STREAMS_PER_PARTICIPANT", 1)
    with Reader(signed_in(ana), path, query=f"after={last_position()}") as first:
        say(thread, ana, "one")
        first.next()
        with Reader(signed_in(ana), path) as second:
            assert second.next().event == "busy"
        with Reader(signed_in(dora), path, query="after=0") as other:
            assert other.next().event != "busy"


def shown(reader: Reader) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(reader.next().data)
    return data


def test_a_page_is_told_the_messages_of_its_thread_as_their_rows(
    ana: Member, dora: Member, thread: Thread, path: str, signed_in: SignedIn
) -> None:
    query = f"after={last_position()}&thread={thread.pk}"
    with Reader(signed_in(ana), path, query=query) as mine, Reader(signed_in(dora), path, query=query) as others:
        message = say(thread, ana, "**Prune** in March")
        own, other = shown(mine), shown(others)
        assert "<strong>Prune</strong>" in other["html"]
        assert ('data-mine="yes"' in own["html"], 'data-mine="yes"' in other["html"]) == (True, False)
        assert ("data-edit" in own["html"], "data-edit" in other["html"]) == (True, False)
        assert "csrfmiddlewaretoken" in own["html"]
        page = signed_in(dora).get(f"{path.removesuffix('events/')}m/{message.pk}/", headers={"HX-Request": "true"})
        assert without_form_keys(other["html"]) == without_form_keys(page.content.decode())


def without_form_keys(html: str) -> str:
    return re.sub(r'(name="csrfmiddlewaretoken" value=")[^"]*', r"\1", html).strip()


def test_a_reply_that_is_written_sends_its_blocks_as_they_come_and_what_differs_in_the_last(
    ana: Member, thread: Thread, path: str, signed_in: SignedIn
) -> None:
    vibe = make_agent(ana, "vibe", channel=thread.channel)
    with Reader(signed_in(ana), path, query=f"after={last_position()}&thread={thread.pk}") as reader:
        say(thread, ana, "when?")
        assert "when?" in shown(reader)["html"]  # it is live
        reply = create_reply(thread=thread, author=vibe.participant, client_id="run:1")
        assert 'data-length="0" data-rendered="0"' in shown(reader)["html"]
        frames = []
        for body in ("Prune **in", "Prune **in** March.\n\n- with", "Prune **in** March.\n\n- with care"):
            Message.objects.filter(pk=reply.pk).update(body=body)
            frames.append({name: value for name, value in shown(reader).items() if name not in ("channel", "thread")})
        with transaction.atomic():
            finish_reply(reply=reply, body=body, state=Message.State.COMPLETE)
        final = shown(reader)

    ids = {"kind": "message_changed", "message": reply.pk, "at": 2}
    assert frames == [
        {**ids, "from": 0, "to": 10, "base": 0, "html": "<p>Prune <strong>in</strong></p>\n"},
        {**ids, "from": 10, "to": 27, "base": 10, "was": 33, "kept": 28, "done": 40}
        | {"html": " March.</p>\n<ul>\n<li>with</li>\n</ul>\n"},
        {**ids, "from": 27, "to": 32, "base": 27, "was": 25, "kept": 13, "html": " care</li>\n</ul>\n"},
    ]
    assert "<li>with care</li>" in final["html"]


def test_a_page_that_joins_ahead_of_what_was_read_misses_no_change(ana: Member, thread: Thread) -> None:
    feed = hub.WorkspaceFeed(ana.workspace_id, last_position())
    message = say(thread, ana, "A slip of the tongue")
    viewer, loop = Viewer(ana.workspace_id, ana.participant_id), asyncio.new_event_loop()
    refresh_viewers([viewer])
    page = StreamSubscriber(
        viewer,
        PageFrames("anas-garden", "UTC", frozenset({thread.pk})),
        position=last_position(),
        is_joined=True,
        is_live=True,
        loop=loop,
        task=None,
    )
    update_message(message=message, by=access(ana), body="Well said")

    feed.subscribers.add(page)
    feed.read_news()

    chunks = page.chunks()
    html = [loop.run_until_complete(anext(chunks)) for _ in range(2)][1].decode()
    loop.run_until_complete(chunks.aclose())
    loop.close()
    assert html.count("data: ") == 1
    assert "Well said" in html


@pytest.mark.parametrize("of_pages", [True, False])
def test_a_password_changed_before_the_stream_began_ends_it(
    ana: Member, path: str, signed_in: SignedIn, of_pages: bool
) -> None:
    streams: list[Any] = []
    client = signed_in(ana)
    vars(client)["defaults"]["asgi.scope"] = {STREAMS_KEY: streams}
    client.get(path if of_pages else "/api/v1/events/")
    viewer: Viewer = streams[0].send.args[0]
    ana.user.set_password("another one, not known to the browser")
    ana.user.save()

    refresh_viewers([viewer])

    assert viewer.access is None


def test_a_stream_with_nothing_to_tell_opens_at_once(
    ana: Member, thread: Thread, path: str, signed_in: SignedIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscriber, "REPLAY_SECONDS", 1000.0)
    for query in ("", f"after={last_position()}"):
        with Reader(signed_in(ana), path, query=query) as reader:
            assert reader.status == 200


def test_a_stream_that_breaks_before_its_first_event_goes_on_from_where_it_opened(
    ana: Member, thread: Thread, path: str, signed_in: SignedIn
) -> None:
    say(thread, ana, "one")
    with Reader(signed_in(ana), path) as reader:
        position = reader.opened_at()
    missed = say(thread, ana, "two")
    with Reader(signed_in(ana), path, last_event_id=position) as reader:
        assert told(reader.next()) == ("message_posted", missed.pk)


def test_what_was_missed_is_replayed_however_large_it_is(
    ana: Member, thread: Thread, path: str, signed_in: SignedIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    say(thread, ana, "one")
    position = last_position()
    missed = [say(thread, ana, "word " * 100).pk for _ in range(4)]
    monkeypatch.setattr(subscriber, "MAX_QUEUED_BYTES", 6_000)
    monkeypatch.setattr(hub, "REPLAYED_BYTES", 6_000)
    query = f"after={position}&thread={thread.pk}"
    with Reader(signed_in(ana), path, query=query) as reader:
        assert [told(reader.next())[1] for _ in missed] == missed
