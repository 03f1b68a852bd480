"""Notifications in a real browser: one for all pages of a person, none of what she has in sight."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, Playwright, expect

from tests.journeys.conftest import People, launched
from tests.journeys.test_conversation import say, start_thread
from tests.operations.processes import wait_until

RECORD_NOTES = """
window.notes = [];
const Real = window.Notification;
window.Notification = class extends Real {
  constructor(title, options) { super(title, options); window.notes.push(this); }
};
"""
TELLS_NOBODY = """
const set = Storage.prototype.setItem;
Storage.prototype.setItem = function (key, value) { if (key !== "openvibe:notified") set.call(this, key, value); };
"""
"""A script that makes a page so busy that what it has to say of a message comes too late."""


@pytest.fixture(scope="package")
def chromium(playwright: Playwright) -> Iterator[Browser]:
    """The whole browser: its headless shell shows no notification, whatever a page is allowed."""
    with launched(playwright) as browser:
        yield browser


def notes(*pages: Page) -> set[str]:
    """What was shown: notifications with one tag are one."""
    texts = "notes.map((note) => [note.tag, note.title, note.body].join('|'))"
    return {text.partition("|")[2] for page in pages for text in page.evaluate(texts)}


def test_a_mention_is_shown_once_and_leads_to_the_message(people: People) -> None:
    ana = people.ana()
    first = people.member("Nadia")
    first.context.add_init_script(RECORD_NOTES)
    first.goto("/w/willow/notifications/")
    first.context.grant_permissions(["notifications"])
    first.reload()
    expect(first.get_by_text("This browser shows them while a page of OpenVibe is open.")).to_be_visible()
    second = first.context.new_page()
    second.add_init_script(TELLS_NOBODY)
    start_thread(ana, "Bulbs", "Hello.")
    second.goto(ana.url)
    for page in (first, second):
        expect(page.locator('body[data-live="on"]')).to_be_attached()

    say(ana, "@nadia you see this one")
    expect(second.get_by_text("you see this one")).to_be_visible()
    start_thread(ana, "Tulips", "@nadia **when** do they bloom?")
    wait_until(lambda: bool(notes(first, second)), "a notification")
    assert notes(first, second) == {"Ana · Tulips|@nadia when do they bloom?"}

    shows = first if notes(first) else second
    shows.evaluate("notes[0].dispatchEvent(new Event('click'))")
    expect(shows.get_by_role("heading", name="Tulips", level=1)).to_be_visible()
    expect(shows.locator("#messages").get_by_text("do they bloom?")).to_be_visible()
