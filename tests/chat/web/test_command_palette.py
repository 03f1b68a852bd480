"""What the command palette finds by name, and what it does: only what somebody may see, in few statements."""

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from openvibe.chat.models import Thread
from openvibe.chat.queries import list_unread_threads
from openvibe.chat.services import add_to_channel, archive_channel, open_direct_messages
from openvibe.workspaces.models import Member
from tests import factories
from tests.factories import access, make_channel, make_entry, make_thread, say

SignedIn = Callable[[Member], Client]


def find(browser: Client, home: str, **asked: str) -> list[tuple[str, str]]:
    answer = browser.get(f"{home}places/", asked)
    assert answer.status_code == 200
    places: list[dict[str, Any]] = answer.json()["places"]
    assert all(browser.get(place["href"].partition("#")[0]).status_code == 200 for place in places)
    return [(place["name"], place["detail"]) for place in places]


def test_names_are_found_by_the_beginnings_of_their_words(
    ana: Member, dora: Member, thread: Thread, home: str, signed_in: SignedIn
) -> None:
    make_thread(thread.channel, ana, "Release v2.3 follow-up: Dora's list")
    make_entry(ana, topic="Release dates")
    browser = signed_in(ana)
    titled = ("Release v2.3 follow-up: Dora's list", "#general")
    assert find(browser, home, q="REL") == [titled, ("Release dates", "Knowledge")]
    for typed in ("v2", "v2.3", "follow-up rel", "follow up", "dora's", "up:"):
        assert titled in find(browser, home, q=typed), typed
    assert find(browser, home, q="dor")[-1] == ("Dora", "@dora")
    assert find(browser, home, q="elease") == []
    open_direct_messages(by=access(dora), recipient=ana.participant)
    assert find(browser, home, q="dora and") == [("Dora and Ana", "Direct message")]


def test_a_guest_comes_to_whom_she_chooses(ana: Member, ben: Member, home: str, signed_in: SignedIn) -> None:
    add_to_channel(channel=make_channel(ana, "beds"), participant=ben.participant, by=access(ana))
    browser, address = signed_in(ben), f"{home}people/ana/"
    (place,) = browser.get(f"{home}places/", {"q": "ana"}).json()["places"]
    assert place["href"] == address
    assert f'class="nav-item" href="{address}"' in browser.get(f"{home}sidebar/").content.decode()
    assert "Ana" in browser.get(address).content.decode().partition("<main")[2]


def test_channels_are_found_that_the_sidebar_has_no_room_for(
    ana: Member, ben: Member, home: str, signed_in: SignedIn
) -> None:
    beds, _, old = (
        make_channel(ana, "rose-beds"),
        make_channel(ana, "beds", private=True),
        make_channel(ana, "old-beds"),
    )
    archive_channel(channel=old, by=access(ana))
    browser = signed_in(ana)
    assert find(browser, home, q="bed") == [("beds", "Private channel"), ("rose-beds", "Channel")]
    assert find(browser, home, q="rose-b") == [("rose-beds", "Channel")]
    assert find(browser, home, recent=f"c{beds.pk},c{old.pk}") == [("rose-beds", "Channel")]
    assert find(signed_in(ben), home, q="bed") == []


def test_a_person_is_on_the_page_that_is_opened(ana: Member, home: str, signed_in: SignedIn) -> None:
    last = factories.write_members(ana.workspace, 120)[99]
    browser = signed_in(ana)
    (place,) = browser.get(f"{home}places/", {"q": last.participant.handle}).json()["places"]
    page = browser.get(place["href"]).content.decode()
    assert f"@{last.participant.handle}" in page.partition("<main")[2]
    address, _, anchor = f"{home}members/?person={last.participant_id}#p-{last.participant_id}".partition("#")
    assert f'href="{address}#{anchor}"' in page
    assert f'id="{anchor}"' in browser.get(address).content.decode()  # far from the first page of fifty


def test_recent_places_come_first_and_alone_without_words(
    ana: Member, thread: Thread, home: str, signed_in: SignedIn
) -> None:
    first, second = (make_thread(thread.channel, ana, f"Roses {name}") for name in ("red", "white"))
    entry = make_entry(ana, topic="Roses and lilies")
    browser, recent = signed_in(ana), f"t{first.pk},k{entry.pk},x1,t,t-1,t{9**16}"
    assert find(browser, home, q="roses", recent=recent)[0][0] == first.title
    assert find(browser, home, q="roses", recent=f"t{second.pk}")[0][0] == second.title
    assert [name for name, _ in find(browser, home, recent=recent)] == [first.title, entry.topic]
    assert find(browser, home) == []


def test_what_somebody_may_not_see_does_not_exist(
    ana: Member, ben: Member, cleo: Member, thread: Thread, home: str, signed_in: SignedIn
) -> None:
    secret = make_thread(make_channel(ana, "board", private=True), ana, "Board salaries")
    entry = make_entry(ana, topic="Salaries", visibility="restricted")
    recent = f"t{secret.pk},k{entry.pk}"
    assert len(find(signed_in(ana), home, q="salaries")) == 2
    for asked in ({"q": "salaries"}, {"recent": recent}, {"q": "s", "recent": recent}):
        assert find(signed_in(ben), home, **asked) == []
    assert find(signed_in(ben), home, q="ana") == []  # a guest without channels knows nobody
    assert signed_in(cleo).get(f"{home}places/?q=salaries").status_code == 404


@pytest.mark.parametrize("q", ["'", "\\", "%", "_", "a & | !b:*", "\x00", "🌹", "x" * 10_000, "玫瑰", "'\\' :* ''"])
def test_any_text_may_be_typed(ana: Member, thread: Thread, home: str, signed_in: SignedIn, q: str) -> None:
    assert find(signed_in(ana), home, q=q, recent=f"{q},t1") == []


def test_an_answer_takes_two_statements(ana: Member, thread: Thread, home: str, signed_in: SignedIn) -> None:
    make_entry(ana, topic=thread.title)
    browser = signed_in(ana)
    browser.get(f"{home}places/?q=a")
    with CaptureQueriesContext(connection) as statements:
        assert len(browser.get(f"{home}places/", {"q": thread.title}).json()["places"]) == 2
    assert len(statements) == 3 + 2  # session, member with her user, what she reaches


def test_all_is_marked_as_read_and_said_to_nobody_else(
    ana: Member, dora: Member, thread: Thread, home: str, signed_in: SignedIn
) -> None:
    say(thread, dora, "Seen")
    for each in (thread, make_thread(make_channel(ana, "board", private=True), ana, "Salaries")):
        say(each, ana, "Look")
    assert signed_in(dora).post(f"{home}read/", headers={"accept": "application/json"}).json() == {"read": 1}
    assert len(list_unread_threads(access(dora)).items) == 0
    say(thread, dora, "Again")
    assert len(list_unread_threads(access(ana)).items) == 1
    assert signed_in(dora).post(f"{home}read/").status_code == 302
