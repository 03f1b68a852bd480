"""Several pages in one browser: what one of them leaves the others have, and one that is out of sight costs nothing."""

import re

import pytest
from playwright.sync_api import BrowserContext, FilePayload, Page, expect

from tests.journeys.conftest import People, stop_clock
from tests.journeys.installation import Installation
from tests.journeys.test_accounts import TELL
from tests.journeys.test_conversation import say, start_thread
from tests.operations.processes import wait_until

SIGHT = """(state) => {
  Object.defineProperty(document, "visibilityState", { value: state, configurable: true });
  document.dispatchEvent(new Event("visibilitychange"));
}"""
"""Chromium without a screen says that all its pages are in sight."""
SOON = """{
  const later = window.setTimeout;
  window.setTimeout = (work, wait, ...more) => later(work, wait === 30_000 ? 0 : wait, ...more);
}"""
"""Half a minute out of sight is over at once."""
LIVE = 'body[data-live="on"]'
KEPT_LETTERS = "Object.keys(localStorage).filter((key) => key.startsWith('outbox-'))"

PLAN: FilePayload = {"name": "plan.txt", "mimeType": "text/plain", "buffer": b"Roses."}
LETTERS_AWAITED = """async () => {
  const { pending } = await navigator.locks.query();
  return pending.filter(({ name }) => name.startsWith("openvibe:letter-")).length;
}"""
MAKE_STALE = "(key) => localStorage.setItem(key, JSON.stringify({ ...JSON.parse(localStorage.getItem(key)), at: 0 }))"
"""A script that makes a draft old, as if it had been written long ago."""


def another(context: BrowserContext, address: str) -> Page:
    page = context.new_page()
    page.goto(address)
    expect(page.locator(LIVE)).to_be_attached()
    return page


def live(pages: list[Page]) -> list[Page]:
    return [page for page in pages if page.locator(LIVE).count()]


def test_of_the_pages_out_of_sight_one_keeps_its_stream(people: People) -> None:
    """A browser has six connections for all of them: a seventh page would not even load."""
    ana = people.ana()
    ana.context.add_init_script(SOON)
    start_thread(ana, "Many pages", "Hello.")
    hidden = [another(ana.context, ana.url) for _ in range(3)]
    for page in hidden:
        page.evaluate(SIGHT, "hidden")
    wait_until(lambda: len(live(hidden)) == 1, "two of them have none")
    [keeper], [second, third] = live(hidden), [page for page in hidden if page not in live(hidden)]
    say(ana, "While nobody looked.")
    expect(keeper.get_by_text("While nobody looked.")).to_be_visible()
    for page in (second, third):
        expect(page.get_by_text("While nobody looked.")).to_have_count(0)
        expect(page.locator(".connection")).to_have_count(0)

    third.evaluate(SIGHT, "visible")
    expect(third.get_by_text("While nobody looked.")).to_be_visible()
    expect(third.locator(LIVE)).to_be_attached()
    keeper.close()
    expect(second.get_by_text("While nobody looked.")).to_be_visible()  # it is the one now
    expect(second.locator(LIVE)).to_be_attached()


def test_pages_that_are_opened_out_of_sight_wait_for_their_turn(people: People) -> None:
    ana = people.ana()
    first, second = ana.context.new_page(), ana.context.new_page()
    for page in (first, second):
        page.add_init_script(f"({SIGHT})('hidden')")
        page.goto("/w/willow/")
    expect(first.locator(LIVE)).to_be_attached()
    waiting = "navigator.locks.query().then(({ pending }) => pending.length)"
    wait_until(lambda: second.evaluate(waiting) == 1, "the second one to wait")
    expect(second.locator(LIVE)).to_have_count(0)
    first.evaluate("document.dispatchEvent(new Event('openvibe:access-ended'))")  # it may see nothing any more
    expect(second.locator(LIVE)).to_be_attached()


@pytest.mark.parametrize("way_back", ["thread", "inbox"])
def test_a_message_that_waits_outlives_its_page(people: People, way_back: str) -> None:
    ana = people.ana()
    start_thread(ana, f"Closed too soon: {way_back}", "Hello.")
    address = ana.url
    ana.route(address, lambda route: route.abort() if route.request.method == "POST" else route.fallback())
    for words in ("First.", "Second."):
        say(ana, words)
        expect(ana.locator("#messages > li").last).to_contain_text("Not sent yet: there is no connection")
    ana.close()

    back = ana.context.new_page()
    back.goto(address if way_back == "thread" else "/w/willow/")
    wait_until(lambda: back.evaluate(KEPT_LETTERS) == [], "both to be sent")
    back.goto(address)
    expect(back.locator("#messages .message[data-seq] .prose")).to_have_text(["Hello.", "First.", "Second."])
    expect(back.locator("#composer-body")).to_have_value("")


def test_another_page_of_the_thread_takes_over_what_is_left(people: People) -> None:
    ana = people.ana()
    start_thread(ana, "Two pages, one letter", "Hello.")
    address = ana.url
    ana.route(address, lambda route: route.abort() if route.request.method == "POST" else route.fallback())
    say(ana, "Before the second page.")
    expect(ana.locator("#messages > li").last).to_contain_text("Not sent yet")
    second = ana.context.new_page()
    second.goto(address)
    expect(second.locator(LIVE)).to_be_attached()
    say(ana, "And after it.")
    expect(ana.locator("#messages > li").last).to_contain_text("Not sent yet")
    expect(second.locator("[data-pending]")).to_have_count(0)  # the first one has them in hand
    ana.close()
    rows = second.locator("#messages .message[data-seq] .prose")
    expect(rows).to_have_text(["Hello.", "Before the second page.", "And after it."])
    expect(second.locator("[data-pending]")).to_have_count(0)


@pytest.mark.parametrize("file", [[], [PLAN]], ids=["words", "file"])
def test_a_page_of_elsewhere_that_is_open_takes_over_what_is_left(people: People, file: list[FilePayload]) -> None:
    ana = people.ana()
    start_thread(ana, f"Closed beside the inbox, {len(file)} files", "Hello.")
    address = ana.url
    ana.route(address, lambda route: route.abort() if route.request.method == "POST" else route.fallback())
    ana.locator('#composer input[type="file"]').set_input_files(file)
    say(ana, "Left beside the inbox.")
    expect(ana.locator("#messages > li").last).to_contain_text("Not sent yet")
    elsewhere = ana.context.new_page()
    elsewhere.goto("/w/willow/")
    wait_until(lambda: elsewhere.evaluate(LETTERS_AWAITED) == 1, "the inbox to wait for the page that has the message")
    ana.close()
    if file:
        expect(elsewhere.locator(".toast")).to_contain_text("Left beside the inbox. plan.txt")
        elsewhere.get_by_role("button", name="Throw it away").click()
    wait_until(lambda: elsewhere.evaluate(KEPT_LETTERS) == [], "nothing to be left")
    elsewhere.goto(address)
    rows = elsewhere.locator("#messages .message[data-seq] .prose")
    expect(rows).to_have_text(["Hello."] if file else ["Hello.", "Left beside the inbox."])


def test_a_message_that_was_left_long_ago_or_with_files_asks_first(people: People) -> None:
    ana = people.ana()
    start_thread(ana, "Left with a file", "Hello.")
    address = ana.url
    ana.route(address, lambda route: route.abort() if route.request.method == "POST" else route.fallback())
    ana.locator('#composer input[type="file"]').set_input_files(PLAN)
    say(ana, "The plan.")
    expect(ana.locator("#messages > li").last).to_contain_text("Not sent yet")
    ana.close()
    back = ana.context.new_page()
    back.goto("/w/willow/")
    note = back.locator(".toast")
    expect(note).to_contain_text("A message of yours was not sent before its page was left.")
    expect(note).to_contain_text("The plan. plan.txt")
    note.get_by_role("link", name="Go to its thread").click()
    row = back.locator("[data-pending]")
    expect(row).to_contain_text("plan.txt")
    expect(row).to_contain_text("have to be chosen again")
    row.get_by_role("button", name="Back to the composer").click()
    expect(back.locator("#composer-body")).to_have_value("The plan.")
    assert back.evaluate(KEPT_LETTERS) == []
    back.locator("#composer-body").fill("")

    back.route(address, lambda route: route.abort() if route.request.method == "POST" else route.fallback())
    say(back, "Yesterday's words.")
    expect(back.locator("#messages > li").last).to_contain_text("Not sent yet")
    back.evaluate(MAKE_STALE, back.evaluate(KEPT_LETTERS)[0])
    back.close()
    later = ana.context.new_page()
    later.goto(address)
    expect(later.locator("[data-pending]")).to_contain_text("Not sent. The page was left before it was sent.")
    expect(later.get_by_role("button", name="Retry")).to_be_visible()
    later.goto("/w/willow/")
    later.locator(".toast").get_by_role("button", name="Throw it away").click()
    assert later.evaluate(KEPT_LETTERS) == []
    later.goto(address)
    expect(later.locator(LIVE)).to_be_attached()
    expect(later.locator("[data-pending]")).to_have_count(0)


def test_typing_without_a_pause_is_saved(people: People) -> None:
    ana = people.ana()
    start_thread(ana, "Fast fingers", "Hello.")
    stop_clock(ana)  # between two words there is half a second, however long it takes to type them
    ana.reload()
    expect(ana.locator(LIVE)).to_be_attached()  # a stream that opens saves, too
    composer = ana.locator("#composer-body")
    with ana.expect_response("**/draft/"):
        for number in range(12):
            composer.press_sequentially(f"{number} ")
            ana.clock.run_for(500)
    elsewhere = people.ana()
    elsewhere.goto(ana.url)
    expect(elsewhere.locator("#composer-body")).to_have_value(re.compile("^0 1 2 "))


STRANGER = """
from django.test import Client
from openvibe.workspaces.models import User
client = Client()
client.force_login(User.objects.create_user(email="stranger@example.org", name="Stranger"))
print(client.cookies["sessionid"].value)
"""


@pytest.mark.parametrize("reader", ["nobody", "somebody else", "a stranger"])
def test_what_is_typed_while_the_session_ends_is_there_after_signing_in(
    people: People, installation: Installation, reader: str
) -> None:
    page, other = people.member(f"Sina{len(reader)}"), people.member(f"Otto{len(reader)}")
    page.goto("/w/willow/")
    start_thread(page, f"Typed while {reader} is signed in", "Read it while you can.")
    address = page.url
    own = next(one for one in page.context.cookies() if one["name"] == "sessionid")
    expect(page.locator(LIVE)).to_be_attached()
    page.route("**/draft/", lambda route: route.abort())  # whoever types on when it ends is not asked again
    page.locator("#composer-body").fill("Half a thought")
    page.context.clear_cookies(name="sessionid")
    if reader != "nobody":
        theirs = next(one["value"] for one in other.context.cookies() if one["name"] == "sessionid")
        session = theirs if reader == "somebody else" else installation.shell(STRANGER)
        cookies = {"sessionid": session, "csrftoken": "a" * 32}  # whoever signs in gets a new one
        page.context.add_cookies(
            [{"name": name, "value": value, "url": installation.url} for name, value in cookies.items()]
        )
    installation.shell(TELL)
    heading = "You are signed out" if reader == "nobody" else "Somebody else is signed in here now"
    expect(page.get_by_role("heading", name=heading)).to_be_visible()
    expect(page.get_by_text("Read it while you can.")).to_have_count(0)

    page.context.add_cookies([{"name": "sessionid", "value": own["value"], "url": installation.url}])
    page.unroute("**/draft/")
    page.goto(address)
    expect(page.locator("#composer-body")).to_have_value("Half a thought")
