"""Pages of notifications: the menu at the head of channels and threads, and the person's own page."""

import re
from collections.abc import Callable
from datetime import time
from zoneinfo import ZoneInfo

import pytest
from django.test import Client
from django.utils import timezone

from openvibe.chat.models import NotificationPreference, Thread
from openvibe.chat.services import start_dive
from openvibe.workspaces.models import Member
from tests.factories import access, make_agent, make_channel, make_thread, say

pytestmark = pytest.mark.django_db
SignedIn = Callable[[Member], Client]


def pressed(html: str) -> list[str]:
    return re.findall(r'id="notify-(\w+)"[^>]*aria-pressed="true"', html)


def test_the_menu_at_the_head_chooses_for_the_channel_and_the_thread(
    dora: Member, thread: Thread, home: str, signed_in: SignedIn
) -> None:
    browser = signed_in(dora)
    channel_page, thread_page = f"{home}c/{thread.channel_id}/", f"{home}t/{thread.pk}/"
    assert pressed(browser.get(channel_page).content.decode()) == ["default"]

    answer = browser.post(f"{channel_page}notify/", {"level": "nothing"})
    assert (answer.status_code, answer.headers["Location"]) == (302, channel_page)
    assert pressed(browser.get(channel_page).content.decode()) == ["nothing"]
    page = browser.get(thread_page).content.decode()
    assert pressed(page) == ["default"]
    assert "As #general: nothing" in page

    menu = browser.post(f"{thread_page}notify/", {"level": "all"}, headers={"HX-Request": "true"}).content.decode()
    assert pressed(menu) == pressed(browser.get(thread_page).content.decode()) == ["all"]
    assert 'aria-label="Notifications: All messages"' in menu

    html = browser.get(f"{home}notifications/").content.decode()
    assert "#general" in html
    back = browser.post(f"{thread_page}notify/", {"level": "", "listed": "1"})
    assert back.headers["Location"] == f"{home}notifications/#notify-places"
    assert NotificationPreference.objects.count() == 1


def test_every_choice_is_listed_and_taken_back_where_it_stands(
    dora: Member, thread: Thread, home: str, signed_in: SignedIn
) -> None:
    titles = [f"Bed {n:03}" for n in range(120)]
    threads = Thread.objects.bulk_create(
        Thread(workspace=dora.workspace, channel=thread.channel, title=title) for title in titles
    )
    NotificationPreference.objects.bulk_create(
        NotificationPreference(participant=dora.participant, thread=each, level="all") for each in threads
    )
    browser, address = signed_in(dora), f"{home}notifications/"
    pages = [browser.get(f"{address}?page={n}").content.decode() for n in (1, 2, 3)]
    assert [title for html in pages for title in re.findall(r">(Bed \d+)</a>", html)] == titles
    assert f'href="{address}?page=2#notify-places">Next</a>' in pages[0]
    assert '<input type="hidden" name="listed" value="2">' in pages[1]
    back = browser.post(f"{home}t/{threads[60].pk}/notify/", {"level": "", "listed": "2"})
    assert back.headers["Location"] == f"{address}?page=2#notify-places"


def test_the_default_is_chosen_on_her_own_page_and_bad_input_is_said(
    dora: Member, home: str, signed_in: SignedIn
) -> None:
    browser, address = signed_in(dora), f"{home}notifications/"
    assert browser.post(address, {"level": "all"}).status_code == 302
    dora.refresh_from_db()
    assert dora.notify_level == "all"
    for wrong in ({}, {"level": "loud"}):
        answer = browser.post(address, wrong)
        assert answer.status_code == 400
        assert b"form-problem" in answer.content
    dora.refresh_from_db()
    assert dora.notify_level == "all"


def test_what_she_does_not_see_does_not_exist_and_dives_have_no_menu(
    ana: Member, dora: Member, thread: Thread, home: str, signed_in: SignedIn
) -> None:
    browser = signed_in(dora)
    private_thread = make_thread(make_channel(ana, "closed", private=True), ana)
    dive = start_dive(
        source=say(thread, ana, "Why?"),
        agent=make_agent(ana, level=4, channel=thread.channel).participant,
        by=access(ana),
    )
    for path, status in (
        (f"t/{private_thread.pk}/", 404),
        (f"c/{private_thread.channel_id}/", 404),
        ("t/999999999999/", 404),
        (f"t/{dive.thread_id}/", 403),
    ):
        assert browser.post(f"{home}{path}notify/", {"level": "all"}).status_code == status
    assert not NotificationPreference.objects.exists()


def test_do_not_disturb_is_turned_on_in_her_menu_and_off_again(dora: Member, home: str, signed_in: SignedIn) -> None:
    browser = signed_in(dora)
    browser.cookies["zone"] = "Europe/Berlin"
    for chosen, least, most in (("30", 0.49, 0.51), ("120", 1.99, 2.01), ("tomorrow", 7, 33)):
        here = f"http://testserver{home}search/"
        answer = browser.post(f"{home}do-not-disturb/", {"for": chosen}, headers={"Referer": here})
        assert answer.headers["Location"] == here
        dora.user.refresh_from_db()
        assert dora.user.dnd_until
        hours = (dora.user.dnd_until - timezone.now()).total_seconds() / 3600
        assert least <= hours <= most
        assert "Do not disturb until" in browser.get(home).content.decode()
    assert timezone.localtime(dora.user.dnd_until, ZoneInfo("Europe/Berlin")).hour == 8
    answer = browser.post(f"{home}do-not-disturb/", {"for": "off"}, headers={"Referer": "https://elsewhere.example/"})
    assert answer.headers["Location"] == home
    assert "Do not disturb until" not in browser.get(home).content.decode()
    assert browser.post(f"{home}do-not-disturb/", {"for": "ever"}).status_code == 400


def test_daily_hours_keep_the_browsers_zone_and_come_whole(dora: Member, home: str, signed_in: SignedIn) -> None:
    browser, address = signed_in(dora), f"{home}notifications/"
    browser.cookies["zone"] = "Europe/Berlin"
    form = {"level": "mentions", "dnd_start": "22:00", "dnd_end": "07:00"}
    assert browser.post(address, form).status_code == 302
    dora.user.refresh_from_db()
    assert (dora.user.dnd_start, dora.user.dnd_end) == (time(22), time(7))
    assert dora.user.time_zone == "Europe/Berlin"
    for wrong in ({"dnd_end": ""}, {"dnd_start": "25:00"}, {"dnd_end": "22:00"}):
        answer = browser.post(address, {**form, **wrong})
        assert (answer.status_code, b"form-problem" in answer.content) == (400, True)
    assert browser.post(address, {"level": "mentions"}).status_code == 302
    dora.user.refresh_from_db()
    assert dora.user.dnd_start is None
