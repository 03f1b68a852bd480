"""The presence of people: told to open pages, shown beside names, gone two minutes after the last page."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from openvibe.base.models import Event
from openvibe.chat.models import Channel, Thread
from openvibe.workspaces.models import PRESENCE_SECONDS, Member, Presence
from openvibe.workspaces.queries import here_by_workspace
from openvibe.workspaces.services import NOTE_SECONDS, note_presence, remove_member, update_profile
from tests.chat.web.event_stream_reader import Reader
from tests.factories import access, say

SignedIn = Callable[[Member], Client]


def ago(seconds: float) -> None:
    Presence.objects.update(seen_at=timezone.now() - timedelta(seconds=seconds))


def here(member: Member) -> frozenset[int]:
    return here_by_workspace([member.workspace_id])[member.workspace_id]


def test_somebody_is_noted_once_a_minute_and_gone_after_two(ana: Member, dora: Member, cleo: Member) -> None:
    note_presence([ana.participant_id, dora.participant_id, cleo.participant_id])
    assert here(ana) == {ana.participant_id, dora.participant_id}
    assert here(cleo) == {cleo.participant_id}
    for seconds, is_noted in ((NOTE_SECONDS - 5, False), (NOTE_SECONDS + 5, True)):
        ago(seconds)
        before = Presence.objects.get(participant=ana.participant).seen_at
        note_presence([ana.participant_id])
        assert (Presence.objects.get(participant=ana.participant).seen_at > before) == is_noted
    ago(PRESENCE_SECONDS + 1)
    assert here(ana) == set()


def test_who_is_invisible_or_removed_is_here_for_nobody(ana: Member, dora: Member) -> None:
    note_presence([ana.participant_id, dora.participant_id])
    update_profile(member=dora, name="Dora", theme="system", enter_sends=True, shortcuts=True, is_invisible=True)
    note_presence([dora.participant_id])
    assert here(ana) == {ana.participant_id}
    update_profile(member=dora, name="Dora", theme="system", enter_sends=True, shortcuts=True)
    remove_member(member=dora, by=access(ana))
    note_presence([dora.participant_id])
    assert here(ana) == {ana.participant_id}


def test_a_dot_and_words_stand_beside_who_is_here(
    ana: Member, dora: Member, channel: Channel, home: str, signed_in: SignedIn
) -> None:
    note_presence([dora.participant_id])
    for path in ("sidebar/", "members/", f"c/{channel.pk}/members/"):
        page = signed_in(ana).get(home + path).content.decode()
        for member, dot in ((dora, 'title="Here now">'), (ana, 'title="Here now" hidden>')):
            assert f'data-here="{member.participant_id}" {dot}' in page, path
    people = signed_in(ana).get("/api/v1/people/").json()["results"]
    assert {person["handle"]: person["is_here"] for person in people} == {"ana": False, "dora": True}


@pytest.mark.django_db(transaction=True)
def test_an_open_page_is_told_who_comes(
    ana: Member, dora: Member, ben: Member, thread: Thread, home: str, signed_in: SignedIn
) -> None:
    say(thread, ana, "Pruned!")
    query, path = f"after={Event.objects.latest('position').position}", f"{home}events/"
    with (
        Reader(signed_in(ana), path, query=query) as anas,
        Reader(signed_in(ben), path, query=query) as bens,
        Reader(signed_in(dora), path, query=query) as doras,
    ):
        update_profile(member=ben, name="Ben", theme="dark", enter_sends=True, shortcuts=True)
        for reader in (anas, bens, doras):  # everybody hears of it, after who is here
            reader.next()
    assert Presence.objects.count() == 3
    assert anas.here[-1] == doras.here[-1] == sorted([ana.participant_id, ben.participant_id, dora.participant_id])
    assert bens.here == []
