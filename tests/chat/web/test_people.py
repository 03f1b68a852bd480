"""The card of a person or an agent: who it is, and nothing that its reader may not know."""

import re
from collections.abc import Callable

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from agents.models import Agent
from openvibe.chat.models import Thread
from openvibe.chat.services import add_reaction, add_to_channel
from openvibe.workspaces.models import Member, Participant, User
from openvibe.workspaces.services import remove_member
from openvibe.workspaces.web.names import initial
from tests.chat.web.visible_words import visible_words
from tests.factories import ParticipantFactory, access, make_channel, make_entry, make_member, make_thread, say

SignedIn = Callable[[Member], Client]
HTMX = {"HX-Request": "true"}


def card(browser: Client, home: str, handle: str) -> str:
    return visible_words(browser.get(f"{home}people/{handle}/", headers=HTMX).content.decode())


def test_a_person_is_shown_with_role_time_and_what_they_pinned(
    ana: Member, dora: Member, home: str, signed_in: SignedIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    User.objects.filter(pk=ana.user_id).update(time_zone="Asia/Tokyo")
    make_entry(ana, "Pricing")
    make_entry(ana, "Salaries", visibility="restricted")
    at = timezone.now().replace(year=2026, month=3, day=2, hour=20, minute=5)
    monkeypatch.setattr("openvibe.chat.queries.people.timezone.now", lambda: at)
    words = card(signed_in(dora), home, "ana")
    assert "Ana @ana Owner" in words
    assert "Local time Tuesday, 05:05" in words
    assert "Runs the workspace" in words
    assert "Pricing" in words
    assert "Salaries" not in words
    assert "Message Ana" in words
    assert ana.user.email not in words
    own = card(signed_in(ana), home, "ana")
    assert ["Message" in own, "Your profile" in own, "Salaries" in own] == [False, True, True]


def test_without_scripts_it_is_a_page(ana: Member, dora: Member, home: str, signed_in: SignedIn) -> None:
    page = signed_in(dora).get(f"{home}people/ana/").content.decode()
    assert page.count("<h1") == 1
    assert '<h1 id="card-title" dir="auto">Ana</h1>' in page
    assert f'href="{home}direct/?to={ana.participant_id}"' in page


def test_an_agent_is_shown_with_level_what_for_and_its_page(
    ana: Member, dora: Member, vibe: Agent, home: str, signed_in: SignedIn
) -> None:
    words = card(signed_in(dora), home, "vibe")
    assert f"Agent · L{vibe.level}" in words
    assert "Answers when mentioned" in words
    assert "Now Idle" in words
    assert ["Its page" in words, "Trust level" in words] == [True, False]
    assert "Trust level" in card(signed_in(ana), home, "vibe")


def test_a_guest_gets_cards_of_whom_she_knows_or_reads(
    ana: Member, ben: Member, dora: Member, home: str, signed_in: SignedIn
) -> None:
    browser = signed_in(ben)
    statuses = [browser.get(f"{home}people/{handle}/").status_code for handle in ("ana", "dora", "nobody", "ben")]
    assert statuses == [404, 404, 404, 200]
    channel = make_channel(ana)
    add_to_channel(channel=channel, participant=ben.participant, by=access(ana))
    assert browser.get(f"{home}people/ana/").status_code == 200
    say(make_thread(channel, dora), dora, "I only looked in.")
    words = card(browser, home, "dora")
    assert ["Dora @dora Member" in words, "Message" in words] == [True, False]


def test_who_left_and_who_came_with_an_import_are_said_to_be_so(
    ana: Member, dora: Member, home: str, signed_in: SignedIn
) -> None:
    remove_member(member=dora, by=access(ana))
    assert "Has left" in card(signed_in(ana), home, "dora")
    ParticipantFactory.create(workspace=ana.workspace, kind="imported", handle="old-tom", name="Tom")
    words = card(signed_in(ana), home, "old-tom")
    assert "Known only from conversations that were imported" in words
    assert "Message" not in words


def test_strangers_have_no_cards(ana: Member, cleo: Member, home: str, signed_in: SignedIn) -> None:
    assert signed_in(cleo).get(f"{home}people/ana/").status_code == 404
    assert Client().get(f"{home}people/ana/").status_code == 302


def test_a_card_takes_as_many_statements_whatever_they_pinned(
    ana: Member, dora: Member, home: str, signed_in: SignedIn
) -> None:
    browser = signed_in(dora)
    counts: list[int] = []
    for _ in range(2):
        make_entry(ana, f"Topic {len(counts)}")
        browser.get(f"{home}people/ana/", headers=HTMX)
        with CaptureQueriesContext(connection) as statements:
            browser.get(f"{home}people/ana/", headers=HTMX)
        counts.append(len(statements))
    assert counts == [5, 5]  # session, member, what she reads, the person, what they pinned


def test_names_lead_to_cards_everywhere(
    ana: Member, dora: Member, vibe: Agent, thread: Thread, home: str, signed_in: SignedIn
) -> None:
    message = say(thread, dora, "Look, @ana")
    add_reaction(message=message, by=access(ana), emoji="👍")
    entry, browser = make_entry(dora), signed_in(ana)
    for path, handle in {
        f"t/{thread.pk}/": "dora",
        "sidebar/": "vibe",
        "members/": "dora",
        f"c/{thread.channel_id}/members/": "dora",
        f"knowledge/{entry.pk}/": "dora",
        f"m/{message.pk}/reactions/": "ana",
    }.items():
        page = browser.get(home + path).content.decode()
        page = page if path == "sidebar/" else page.partition("<main")[2]
        assert re.search(rf'<a[^>]*/people/{handle}/"[^>]*>', page), path
    page = browser.get(f"{home}t/{thread.pk}/").content.decode()
    assert f'<a class="mention" href="{home}people/ana/" data-card>@ana</a>' in page


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("ana", "A"),
        ("👩‍👩‍👧‍👦🌱", "👩‍👩‍👧‍👦"),
        ("🇩🇪🇫🇷", "🇩🇪"),
        ("ß", "SS"),
        ("نور", "ن"),
        ("", ""),
        ("e" + "\u0301" * 60, "E"),
    ],
)
def test_the_sign_of_a_name_is_its_first_as_people_see_it(name: str, first: str) -> None:
    assert initial(name) == first


def test_a_name_of_emoji_and_one_from_right_to_left_stand_in_every_list(
    ana: Member, home: str, signed_in: SignedIn
) -> None:
    emoji, rtl = make_member("Emil", ana.workspace), make_member("Nur", ana.workspace)
    Participant.objects.filter(pk=emoji.participant_id).update(name="🌱🌻" * 40)
    Participant.objects.filter(pk=rtl.participant_id).update(name="نور الهدى")
    say(make_thread(make_channel(ana), emoji), emoji, "Hello")
    for path in ("sidebar/", "members/", "people/nur/", "people/emil/", ""):
        assert signed_in(ana).get(home + path).status_code == 200
    assert '<span class="clip" dir="auto">نور الهدى' in signed_in(ana).get(f"{home}sidebar/").content.decode()
    too_long = signed_in(ana).post(f"{home}profile/", {"name": "🌱" * 100, "theme": "system"})
    assert too_long.status_code == 400
