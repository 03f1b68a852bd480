"""Pages of notifications: the menu at the head of channels and threads, and the person's own page."""

import re
from collections.abc import Callable

import pytest
from django.test import Client

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

    listed = browser.get(f"{home}notifications/").content.decode()
    assert "#general" in listed
    back = browser.post(f"{thread_page}notify/", {"level": "", "listed": "1"})
    assert back.headers["Location"] == f"{home}notifications/"
    assert NotificationPreference.objects.count() == 1


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
    hidden = make_thread(make_channel(ana, "closed", private=True), ana)
    dive = start_dive(
        source=say(thread, ana, "Why?"),
        agent=make_agent(ana, level=4, channel=thread.channel).participant,
        by=access(ana),
    )
    for path, status in (
        (f"t/{hidden.pk}/", 404),
        (f"c/{hidden.channel_id}/", 404),
        ("t/999999999999/", 404),
        (f"t/{dive.thread_id}/", 403),
    ):
        assert browser.post(f"{home}{path}notify/", {"level": "all"}).status_code == status
    assert not NotificationPreference.objects.exists()
