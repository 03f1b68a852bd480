"""Signs of who is typing: told to the open pages of the others who see the thread, at once, and kept nowhere."""

import json
from collections.abc import Callable
from functools import partial

import pytest
from django.test import Client

from openvibe.base.models import Event
from openvibe.chat.live import typing as live_typing
from openvibe.chat.live.typing import MIN_SECONDS, TypingNote, read_typing_note
from openvibe.chat.models import Thread
from openvibe.chat.services import start_dive
from openvibe.workspaces.models import Member
from openvibe.workspaces.services import update_profile
from tests.chat.web.event_stream_reader import Reader
from tests.factories import access, make_agent, make_channel, make_thread, say

SignedIn = Callable[[Member], Client]


@pytest.fixture(autouse=True)
def nobody_typed_before() -> None:
    live_typing.typing_signs = live_typing._TypingSigns()


def typing(browser: Client, home: str, thread: Thread) -> int:
    return browser.post(f"{home}t/{thread.pk}/typing/").status_code


@pytest.mark.django_db(transaction=True)
def test_the_others_who_see_the_thread_are_told_at_once_and_nothing_is_kept(
    ana: Member, dora: Member, ben: Member, thread: Thread, home: str, signed_in: SignedIn
) -> None:
    say(thread, ana, "Pruned!")
    private = make_thread(make_channel(ana, "board", private=True), ana)
    say(private, ana, "Numbers")
    events = Event.objects.count()
    start, path = f"after={Event.objects.latest('position').position}", f"{home}events/"
    anas, doras, bens = signed_in(ana), signed_in(dora), signed_in(ben)
    with (
        Reader(anas, path, query=f"{start}&thread={thread.pk}") as own,
        Reader(doras, path, query=f"{start}&thread={thread.pk}&thread={private.pk}") as other,
        Reader(doras, path, query=start) as elsewhere,
        Reader(bens, path, query=f"{start}&thread={thread.pk}") as stranger,
    ):
        for reader in (own, other, elsewhere, stranger):
            assert reader.is_alive()
        assert typing(anas, home, private) == 204
        live_typing.typing_signs = live_typing._TypingSigns()
        assert typing(anas, home, thread) == 204
        frame = other.next()
        assert (frame.id, frame.event) == ("", "typing")
        assert json.loads(frame.data) == {"thread": thread.pk, "handle": "ana", "name": "Ana"}
        assert Event.objects.count() == events
        update_profile(member=ana, name="Ana", theme="dark", enter_sends=True, shortcuts=True)
        for reader in (own, elsewhere, stranger):  # the first that they hear of is something else
            assert reader.next().event == ""


@pytest.mark.django_db
def test_a_person_gives_so_many_signs_and_no_more(
    ana: Member, dora: Member, thread: Thread, home: str, signed_in: SignedIn
) -> None:
    now = [100.0]
    signs = live_typing._TypingSigns(lambda: now[0])
    assert [signs.take(1), signs.take(1), signs.take(2)] == [True, False, True]
    now[0] += MIN_SECONDS
    assert signs.take(1)
    browser = signed_in(ana)
    assert [typing(browser, home, thread) for _ in range(5)] == [204] * 5


@pytest.mark.django_db
def test_nobody_types_where_nothing_is_seen_or_can_be_written(
    ana: Member, cleo: Member, ben: Member, thread: Thread, home: str, signed_in: SignedIn
) -> None:
    private = make_thread(make_channel(ana, "board", private=True), ana)
    assert typing(signed_in(ben), home, private) == 404
    assert typing(signed_in(cleo), home, thread) == 404
    assert typing(Client(), home, thread) == 401
    assert signed_in(ana).get(f"{home}t/{thread.pk}/typing/").status_code == 405
    Thread.objects.filter(pk=thread.pk).update(archived_at="2026-03-01T00:00Z")
    assert typing(signed_in(ana), home, thread) == 403


@pytest.mark.django_db
def test_in_dives_and_of_whom_is_invisible_nothing_is_told(
    ana: Member, thread: Thread, home: str, signed_in: SignedIn
) -> None:
    agent = make_agent(ana, "fern", level=4, channel=thread.channel).participant
    dive = start_dive(source=say(thread, ana, "Hm"), agent=agent, by=access(ana), body="Why?")
    told = partial(live_typing.note_typing, by=access(ana), handle="ana", name="Ana")
    assert not told(thread=dive.thread)
    assert told(thread=thread)
    live_typing.typing_signs = live_typing._TypingSigns()
    update_profile(member=ana, name="Ana", theme="dark", enter_sends=True, shortcuts=True, is_invisible=True)
    assert typing(signed_in(ana), home, thread) == 204
    assert live_typing.typing_signs.take(ana.participant_id)  # no sign was given


def test_a_name_of_a_hundred_emoji_fits_into_what_processes_tell_one_another() -> None:
    note = TypingNote(1, 2, 3, 4, "ana", "👩‍👩‍👧‍👦" * 20)
    payload = json.dumps(vars(note))
    assert len(payload.encode()) < 8_000
    assert read_typing_note(payload) == note
