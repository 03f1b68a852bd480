"""Away from the page and back: what is unread in title and icon, pushes to a browser in which no page is open, who is
typing, and "Back" to where one was, until one signs out."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress

import pytest
from playwright.sync_api import Browser, BrowserContext, Error, Page, Playwright, expect

from openvibe.runner.bootstrap_venv import find_browser
from tests.chat.push_service import PushService, TestBrowser, serving_pushes
from tests.journeys.conftest import CHROMIUM, People
from tests.journeys.installation import Installation
from tests.journeys.test_conversation import say, start_thread
from tests.operations.processes import wait_until

LIVE = 'body[data-live="on"]'
PUSH_SERVICE = """(() => {
  const bytes = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)).buffer;
  const made = () => {
    const stored = localStorage.getItem("test:push");
    return stored && {
      endpoint: %(endpoint)s,
      options: { applicationServerKey: bytes(stored) },
      toJSON: () => ({ endpoint: %(endpoint)s, keys: { p256dh: %(p256dh)s, auth: %(auth)s } }),
      unsubscribe: async () => { localStorage.removeItem("test:push"); return true; },
    };
  };
  PushManager.prototype.getSubscription = async () => made();
  PushManager.prototype.subscribe = async ({ applicationServerKey }) => {
    localStorage.setItem("test:push", btoa(String.fromCharCode(...applicationServerKey)));
    return made();
  };
})();"""
"""Subscriptions at the push service of the tests: a browser would make them with its maker's."""
NOTES = """async () => {
  const registration = await navigator.serviceWorker.getRegistration("/");
  return (await registration.getNotifications()).map((note) => [note.title, note.body, note.tag]);
}"""
OPENED = """async () => {
  clients.openWindow = async (url) => { self.opened = url; };
  const [notification] = await registration.getNotifications();
  dispatchEvent(new NotificationEvent("notificationclick", { notification }));
}"""


@pytest.fixture(scope="package")
def chromium(playwright: Playwright) -> Iterator[Browser]:
    """The whole browser, which shows notifications, and keeps pages as people's do."""
    options = {"args": CHROMIUM, "ignore_default_args": ["--disable-back-forward-cache"]}
    with playwright.chromium.launch(executable_path=find_browser(), **options) as browser:  # type: ignore[arg-type]
        yield browser


def back(page: Page) -> None:
    page.go_back(wait_until="commit")


def live(page: Page, address: str) -> None:
    page.goto(address)
    expect(page.locator(LIVE)).to_be_attached()


def test_what_is_unread_stands_in_title_and_icon(people: People) -> None:
    ana, nadia = people.ana(), people.member("Orla")
    live(nadia, "/w/willow/saved/")
    icon = nadia.locator('link[rel="icon"]')
    expect(nadia).to_have_title(re.compile("^(• )?Saved"))
    start_thread(ana, "Shears", "Who has them, @orla?")
    expect(nadia).to_have_title(re.compile(r"^\(1\) Saved"))
    expect(icon).to_have_attribute("href", re.compile("^data:image/svg.*%3E1%3C"))
    say(ana, "@orla?")
    expect(nadia).to_have_title(re.compile(r"^\(2\) Saved"))
    live(nadia, ana.url)
    expect(nadia).to_have_title(re.compile("^Shears"))
    expect(icon).to_have_attribute("href", re.compile("mark"))


def test_who_is_typing_is_shown_to_the_others_and_ends_by_itself(people: People) -> None:
    ana, piet = people.ana(), people.member("Piet")
    start_thread(ana, "Compost", "Turn it in April.")
    live(piet, ana.url)
    expect(ana.locator(LIVE)).to_be_attached()
    piet.locator("#composer-body").press_sequentially("In May")
    line = ana.get_by_role("status").filter(has_text="Piet is typing")
    expect(line).to_be_visible()
    expect(piet.locator("[data-typing]")).to_be_empty()
    piet.locator("#composer-body").press("Enter")
    expect(ana.get_by_text("In May")).to_be_visible()
    expect(ana.locator("[data-typing]")).to_be_empty()
    piet.locator("#composer-body").press_sequentially("or")
    expect(line).to_be_visible()
    expect(ana.locator("[data-typing]")).to_be_empty()


def test_back_leads_to_where_one_was_until_one_signs_out(people: People, installation: Installation) -> None:
    page = people.member("Quin")
    live(page, "/w/willow/")
    start_thread(page, "Seeds", "The secret of the seeds.")
    for number in range(12):
        say(page, f"Bed {number}\n\n" + "Line.\n\n" * 6)
    expect(page.locator("[data-pending]")).to_have_count(0)
    thread, scroller = page.url, page.locator("#scroller")
    page.evaluate("window.isKept = true")
    scroller.evaluate("(part) => { part.scrollTop = 400; }")
    with page.expect_navigation():
        page.get_by_role("link", name="Inbox").first.click()
    expect(page.locator(LIVE)).to_be_attached()
    back(page)
    expect(page).to_have_url(thread)
    wait_until(lambda: page.evaluate("window.isKept"), "the page as it was")
    assert scroller.evaluate("(part) => part.scrollTop") == 400
    expect(page.locator(LIVE)).to_be_attached()

    ana = people.ana()
    live(ana, thread)
    say(ana, "While the page is shown again.")
    expect(page.get_by_text("While the page is shown again.")).to_be_attached()

    page.reload()
    wait_until(lambda: abs(scroller.evaluate("(part) => part.scrollTop") - 400) < 5, "the place after a reload")

    page.locator(".switcher summary").click()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_label("Email")).to_be_focused()
    for _ in range(4):
        with suppress(Error):  # there is nothing further back
            back(page)
        expect(page.locator("body")).to_contain_text(re.compile("Sign in|You are signed out|^$"))
        assert "seeds" not in page.content().lower()


def test_without_scripts_nothing_is_shown_after_a_sign_out_either(
    chromium: Browser, installation: Installation, people: People
) -> None:
    session = next(one for one in people.member("Rosa").context.cookies() if one["name"] == "sessionid")
    with chromium.new_context(base_url=installation.url, java_script_enabled=False) as context:
        context.add_cookies([{"name": "sessionid", "value": session["value"], "url": installation.url}])
        page = context.new_page()
        page.goto("/w/willow/")
        page.goto("/w/willow/mentions/")
        page.locator(".switcher summary").click()
        page.get_by_role("button", name="Sign out").click()
        expect(page.get_by_label("Email")).to_be_visible()
        for _ in range(2):
            back(page)
            expect(page.get_by_label("Email")).to_be_visible()
            assert "Willow" not in page.content()


@pytest.fixture
def service() -> Iterator[PushService]:
    with serving_pushes() as service:
        yield service


def deliver(context: BrowserContext, page: Page, origin: str, text: str) -> None:
    """Hands the browser what its push service would."""
    session = context.new_cdp_session(page)
    registrations: list[str] = []
    session.on(
        "ServiceWorker.workerRegistrationUpdated",
        lambda event: registrations.extend(one["registrationId"] for one in event["registrations"]),
    )
    session.send("ServiceWorker.enable")
    wait_until(lambda: page.evaluate("1") and bool(registrations), "the registration of the worker")
    session.send(
        "ServiceWorker.deliverPushMessage", {"origin": origin, "registrationId": registrations[0], "data": text}
    )


def test_a_browser_without_an_open_page_shows_a_mention_once_and_leads_to_it(
    people: People, installation: Installation, service: PushService
) -> None:
    ana, page, keys = people.ana(), people.member("Sven"), TestBrowser.new()
    script = {"endpoint": service.address("sven"), "p256dh": keys.p256dh, "auth": keys.auth_text}
    context = page.context
    context.add_init_script(PUSH_SERVICE % {name: json.dumps(value) for name, value in script.items()})
    context.grant_permissions(["notifications"], origin=installation.url)
    live(page, "/w/willow/notifications/")
    page.get_by_role("button", name="Also notify me when no page is open").click()
    expect(page.locator("[data-push-state]")).to_contain_text("until you sign out here")
    page.reload()
    expect(page.get_by_text("Browsers that are notified while no page is open")).to_be_visible()
    expect(page.get_by_text("Chrome on Linux", exact=True)).to_be_visible()
    page.goto("/help/")

    start_thread(ana, "Wasps", "@sven **mind** the nest.")
    wait_until(lambda: bool(service.received), "a push")
    said = service.received[0].read_by(keys)
    assert (said["title"], said["body"]) == ("Ana · Wasps", "@sven mind the nest.")
    for _ in range(2):
        deliver(context, page, installation.url, json.dumps(said))
    wait_until(lambda: page.evaluate(NOTES) == [[said["title"], said["body"], said["tag"]]], "one notification")
    (worker,) = context.service_workers
    worker.evaluate(OPENED)
    wait_until(lambda: worker.evaluate("self.opened") == said["url"], "the message to be opened")
    page.goto(said["url"])
    expect(page.get_by_text("mind the nest")).to_be_visible()

    page.locator(".switcher summary").click()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_label("Email")).to_be_visible()
    wait_until(lambda: page.evaluate("localStorage.getItem('openvibe:push')") is None, "the browser to forget it")
    assert page.evaluate("localStorage.getItem('test:push')") is None
    left = "from openvibe.chat.models import PushSubscription\nprint(PushSubscription.objects.count())"
    wait_until(lambda: installation.shell(left).strip() == "0", "the server to forget it")
