"""Answers that come late: what is newer stays, and nobody who went elsewhere meanwhile loses the keyboard."""

import re

import pytest
from playwright.sync_api import APIResponse, Locator, Page, Route, ViewportSize, expect

from tests.journeys.conftest import People, stop_clock
from tests.journeys.installation import Installation
from tests.journeys.late_answers import Held, hear, wait_for_event
from tests.journeys.test_conversation import replies, say, start_thread
from tests.journeys.test_run_recovery import API_PAUSE
from tests.operations.processes import wait_until

WIDE: ViewportSize = {"width": 1440, "height": 640}  # the panel beside the page
TELL = """
from django.db import transaction
from openvibe.base.events import emit
from openvibe.chat.models import Thread
thread = Thread.objects.get(pk={thread})
with transaction.atomic():
    emit({kind!r}, workspace_id=thread.workspace_id, channel_id=thread.channel_id, thread_id=thread.pk)
"""
FIRST_POST_WITHOUT_TEXT = """(() => {
  const Stream = window.EventSource;
  window.EventSource = class extends Stream {
    addEventListener(name, listener, ...more) {
      if (name !== "message") return super.addEventListener(name, listener, ...more);
      super.addEventListener(name, ({ data, lastEventId }) => {
        const event = JSON.parse(data);
        if (event.kind === "message_posted" && (window.first ??= event.message) === event.message) {
          delete event.html;
          event.fetch = true;
        }
        listener({ data: JSON.stringify(event), lastEventId });
      }, ...more);
    }
  };
})()"""
"""The first message that is told of is one that the page has to fetch, as if it were too large."""


HOLDS_POSTS = """(() => {
  const Stream = window.EventSource;
  const held = [];
  window.letGo = () => { window.holds = false; held.splice(0).forEach((tell) => tell()); };
  window.EventSource = class extends Stream {
    addEventListener(name, listener, ...more) {
      if (name !== "message") return super.addEventListener(name, listener, ...more);
      super.addEventListener(name, (event) => {
        if (!window.holds) listener(event);
        else if (JSON.parse(event.data).kind === "message_posted") held.push(() => listener(event));
      }, ...more);
    }
  };
})()"""
"""A script by which the page is told nothing while `window.holds`; `letGo` tells it of messages alone, as if it knew
the rest before."""
FETCH_ANEW = """(row) => {
  row.dataset.stale = "yes";
  document.dispatchEvent(new Event("htmx:afterRequest"));
}"""


def asked_thread(people: People, title: str) -> Page:
    """Ana's page of a thread with a reply, and its events."""
    ana = people.ana(viewport=WIDE)
    start_thread(ana, title, "@vibe hello")
    expect(replies(ana)).to_have_attribute("data-state", "complete")
    expect(ana.locator('body[data-live="on"]')).to_be_attached()
    return ana


def thread_of(page: Page) -> str:
    return str(re.findall(r"/t/(\d+)/", page.url)[0])


def tool(page: Page, name: str) -> Locator:
    return page.locator(".feed-tools").get_by_role("link", name=name)


def test_a_panel_that_comes_late_takes_the_keyboard_from_nobody(people: People, installation: Installation) -> None:
    ana = asked_thread(people, "Late panel")
    composer, own = ana.locator("#composer-body"), ana.locator('.message[data-mine="yes"]')
    context, edit = Held(ana, "**/context/"), Held(ana, "**/edit/")
    replies(ana).focus()
    ana.keyboard.press("x")
    context.wait()
    composer.focus()
    ana.keyboard.press("ArrowUp")
    edit.wait()
    with ana.expect_event("requestfinished", lambda request: request.url.endswith("/context/")):
        context.routes[0].continue_()
    expect(ana.locator("#panel [data-panel-close]")).to_be_visible()  # all that waited for the answer is done
    expect(composer).to_be_focused()
    edit.routes[0].continue_()
    expect(own.get_by_role("textbox")).to_be_focused()
    ana.keyboard.press("Escape")
    expect(composer).to_be_focused()


def test_the_keyboard_waits_for_the_answer_that_took_anothers_place(people: People, installation: Installation) -> None:
    ana, token = asked_thread(people, "Late answer"), installation.token("ana")
    ana.add_init_script(HOLDS_POSTS)
    ana.reload()
    expect(ana.locator('body[data-live="on"]')).to_be_attached()
    earlier, runs = replies(ana).first, f"runs/?thread={thread_of(ana)}"
    ana.evaluate("window.holds = true")
    installation.api("POST", f"runs/{installation.api('GET', runs, token)['results'][0]['id']}/regenerate/", token, {})

    def states() -> list[str]:
        return [run["state"] for run in installation.api("GET", runs, token)["results"]]

    wait_until(lambda: states() == ["done", "done"], "another answer", pause=API_PAUSE)
    earlier.focus()
    earlier.evaluate(FETCH_ANEW)
    expect(earlier).to_have_class(re.compile("is-replaced"))  # by one that the page has not been told of
    ana.evaluate("window.letGo()")
    expect(replies(ana).nth(1)).to_be_focused()


def test_a_panel_waits_for_no_other(people: People, installation: Installation) -> None:
    ana = asked_thread(people, "Two panels")
    context = Held(ana, "**/context/")
    replies(ana).get_by_role("link", name="Why this answer?").press("Enter")
    context.wait()
    tool(ana, "Work").press("Enter")
    expect(ana.locator("#panel #work")).to_be_visible()  # while the first is still out
    expect(ana.locator("#panel")).to_be_focused()
    expect(ana).to_have_url(re.compile("panel=.*work"))
    ana.keyboard.press("Escape")
    expect(tool(ana, "Work")).to_be_focused()


def test_a_draft_that_is_saved_late_does_not_come_back(people: People, installation: Installation) -> None:
    ana = people.ana()
    start_thread(ana, "Slow drafts", "Hello.")
    composer, rows = ana.locator("#composer-body"), ana.locator("#messages .message[data-seq]")
    draft = Held(ana, "**/draft/")
    ana.clock.install()
    composer.fill("One")
    ana.clock.run_for(1000)
    draft.wait()
    composer.fill("One two")
    ana.clock.run_for(1000)
    composer.press("Enter")
    expect(ana.locator("[data-pending]")).to_contain_text("One two")
    ana.evaluate("() => fetch(location.href)")  # what was asked for before it is known of
    assert len(draft.routes) == 1
    draft.routes[0].continue_()
    expect(rows).to_have_count(2)
    ana.goto(ana.url)
    expect(composer).to_have_value("")


def test_what_is_typed_on_while_a_message_is_sent_stays_a_draft(people: People) -> None:
    """Storing a message removes the draft it came from, also one that was saved meanwhile."""
    ana = people.ana()
    start_thread(ana, "Typed on meanwhile", "Hello.")
    expect(ana.locator('body[data-live="on"]')).to_be_attached()  # a stream that opens sends again what takes long
    composer = ana.locator("#composer-body")
    sent = Held(ana, f"**/t/{thread_of(ana)}/", "POST")
    composer.fill("One")
    composer.press("Enter")
    sent.wait()
    composer.fill("Two")
    expect(ana.get_by_text("Draft saved")).to_be_visible()
    with ana.expect_response("**/draft/"):
        sent.routes[0].continue_()
    ana.goto(ana.url)
    expect(ana.locator("#messages .prose")).to_have_text(["Hello.", "One"])
    expect(composer).to_have_value("Two")


@pytest.mark.parametrize(("name", "kept"), [("mine", "Desk"), ("other", "Phone"), ("both", "Phone\n\nDesk")])
def test_two_tabs_write_and_neither_text_is_lost(people: People, name: str, kept: str) -> None:
    desk, phone = people.ana(), people.ana()
    start_thread(desk, f"Two tabs, {name}", "Hello.")
    phone.goto(desk.url)
    write(phone, "Phone")
    composer, choice = desk.locator("#composer-body"), desk.get_by_role("group", name="Two texts for this message")
    composer.press_sequentially("Desk")
    expect(choice.locator(".draft-other")).to_have_text("Phone")
    expect(composer).to_have_value("Desk")
    expect(composer).to_be_focused()
    button = choice.get_by_role("button", name=name)
    with desk.expect_response("**/draft/"):
        button.press("Enter")
    expect(composer).to_have_value(kept)
    expect(composer).to_be_focused()
    expect(choice).to_have_count(0)
    expect(desk.get_by_text("Draft saved")).to_be_visible()
    desk.reload()
    expect(composer).to_have_value(kept)


def write(page: Page, text: str) -> None:
    page.locator("#composer-body").fill(text)
    expect(page.get_by_text("Draft saved")).to_be_visible()


def write_on_both(people: People, title: str) -> tuple[Page, Page]:
    """A desk and a phone at one thread: the draft of the phone is saved, that of the desk once its page is left."""
    desk, phone = people.ana(), people.ana()
    start_thread(desk, title, "Hello.")
    stop_clock(desk)
    desk.reload()
    expect(desk.locator('body[data-live="on"]')).to_be_attached()  # a stream that opens saves, too
    phone.goto(desk.url)
    write(phone, "Phone")
    desk.locator("#composer-body").fill("Desk")
    return desk, phone


def test_whoever_leaves_before_choosing_finds_both_texts(people: People) -> None:
    desk, phone = write_on_both(people, "Two tabs, left")
    address = desk.url
    desk.goto("/w/willow/")  # before it was saved

    def is_back() -> bool:
        desk.goto(address)
        return desk.locator("#composer-body").input_value() == "Phone\n\nDesk"

    wait_until(is_back, "both are saved")
    phone.locator("#composer-body").press_sequentially("!")
    expect(phone.locator(".draft-other")).to_contain_text("Desk")
    phone.locator("#composer-body").press("Enter")
    expect(phone.locator("#messages .prose")).to_have_text(["Hello.", "Phone!"])
    desk.goto(address)
    expect(desk.locator("#composer-body")).to_have_value("Phone\n\nDesk")  # it was not sent, so it stays


def test_two_texts_that_were_joined_are_not_asked_about_when_nobody_heard_of_it(people: People) -> None:
    desk, phone = write_on_both(people, "Two tabs, joined")
    address = desk.url
    desk.route("**/draft/", lambda route: route.abort())  # not what is sent while a page is left
    desk.goto("/w/willow/")

    def are_joined() -> bool:
        phone.goto(address)
        return phone.locator("#composer-body").input_value() == "Phone\n\nDesk"

    wait_until(are_joined, "both are saved")
    desk.goto(address)
    expect(desk.locator("#composer-body")).to_have_value("Phone\n\nDesk")
    expect(desk.get_by_role("group", name="Two texts for this message")).to_have_count(0)


def test_a_draft_whose_answer_was_lost_is_written_on(people: People) -> None:
    ana = people.ana()
    start_thread(ana, "Lost answers", "Hello.")
    stop_clock(ana)  # nothing is saved, or tried again, but when the test says so
    ana.reload()
    expect(ana.locator('body[data-live="on"]')).to_be_attached()  # a stream that opens saves, too
    composer = ana.locator("#composer-body")
    lost = list[str]()

    def lose(route: Route) -> None:
        if len(lost) < 2:  # the first is stored and its answer lost, the second never comes
            if not lost:
                route.fetch()
            lost.append(route.request.url)
            return route.abort()
        route.continue_()

    ana.route("**/draft/", lose)
    for number, text in enumerate(("One", "One two"), start=1):
        with ana.expect_event("requestfailed"):
            composer.fill(text)
            ana.clock.run_for(1000)
        assert len(lost) == number
    composer.fill("Three")
    ana.clock.run_for(1000)
    expect(ana.get_by_text("Draft saved")).to_be_visible()
    expect(ana.locator(".draft-choice")).to_have_count(0)
    ana.reload()
    expect(composer).to_have_value("Three")


def test_a_form_whose_button_is_pressed_again_is_sent_once(people: People) -> None:
    """A form sent twice would make two tokens, and of one of them nobody would see the secret."""
    ana = people.ana()
    ana.goto("/w/willow/tokens/")
    post_urls = list[str]()
    ana.on("request", lambda request: post_urls.append(request.url) if request.method == "POST" else None)
    ana.locator("main input[name=name]").fill("Nightly script")
    button = ana.get_by_role("button", name="Make token")
    button.evaluate("(button) => { button.click(); setTimeout(() => button.click(), 1); }")
    expect(ana.get_by_text("Copy it now")).to_be_visible()
    assert len(post_urls) == 1


def test_a_change_of_a_message_that_is_being_fetched_is_shown(people: People, installation: Installation) -> None:
    ana, token = people.ana(), installation.token("ana")
    start_thread(ana, "Gap", "First.")
    other, messages = people.ana(), f"threads/{thread_of(ana)}/messages/"
    other.add_init_script(FIRST_POST_WITHOUT_TEXT)
    page = Held(other, "**/*after_seq=1*")
    other.goto(ana.url)
    expect(other.locator('body[data-live="on"]')).to_be_attached()
    hear(other)
    installation.api("POST", messages, token, {"body": "Second."})
    page.wait()
    third = installation.api("POST", messages, token, {"body": "Third."})
    route, answer = page.wait_for_answer()
    installation.api("PATCH", f"messages/{third['id']}/", token, {"body": "Third, mended."})
    wait_for_event(other, "message_changed")
    route.fulfill(response=answer)
    expect(other.locator("#messages .prose")).to_have_text(["First.", "Second.", "Third, mended."])


def test_a_form_that_was_closed_shows_what_came_meanwhile(people: People, installation: Installation) -> None:
    ana = asked_thread(people, "Closed form")
    reply, token = replies(ana), installation.token("ana")
    hear(ana)
    reply.focus()
    ana.keyboard.press("-")
    expect(reply.get_by_label("What should it do differently?")).to_be_focused()
    message = reply.get_attribute("data-id")
    installation.api("POST", f"messages/{message}/reactions/", token, {"emoji": "🎉"})
    wait_for_event(ana, "reactions_changed")
    expect(reply.get_by_role("button", name="🎉")).to_have_count(0)  # the form comes first
    ana.keyboard.press("Escape")
    expect(reply.get_by_role("button", name="🎉")).to_be_visible()
    expect(reply.get_by_text("Say why")).to_be_focused()


def test_what_is_typed_for_a_compaction_outlives_a_change_of_the_memory(
    people: People, installation: Installation
) -> None:
    ana = asked_thread(people, "Typed focus")
    tool(ana, "Memory").press("Enter")
    field = ana.locator('#panel input[name="focus"]')
    field.focus()
    ana.keyboard.type("the pri")
    state = ana.locator("#panel .map-state").element_handle()
    installation.shell(TELL.format(thread=thread_of(ana), kind="memory_changed"))
    ana.wait_for_function("(old) => !old.isConnected", arg=state)
    expect(field).to_be_focused()
    ana.keyboard.type("ces")
    expect(field).to_have_value("the prices")


def test_the_keyboard_stays_in_what_is_shown_anew(people: People, installation: Installation) -> None:
    """The heads of a thread and of its dive, the list of its dives, and the page of a run."""
    ana = people.ana(viewport=WIDE)
    start_thread(ana, "Shown anew", "Hello.")
    token, thread, panel = installation.token("ana"), thread_of(ana), ana.locator("#panel")
    ana.locator("#messages > li").focus()
    ana.keyboard.press("d")
    ana.locator("[data-start-body]").fill("Look deeper")
    ana.keyboard.press("Enter")
    expect(panel.locator("#dive-messages > li").last).to_have_attribute("data-state", "complete")

    def stays(place: Locator, kind: str, inside: str) -> None:
        place.focus()
        element = ana.locator(inside).element_handle()
        installation.shell(TELL.format(thread=thread, kind=kind))
        ana.wait_for_function("(old) => !old.isConnected", arg=element)
        expect(place).to_be_focused()

    stays(panel.get_by_role("link", name="Publish"), "thread_changed", "#dive-head h1")
    tool(ana, "Dives").press("Enter")
    stays(panel.locator(".dive-list a"), "dive_changed", "#dives")
    about = ana.locator(".feed-head summary").last
    about.focus()
    installation.api("PATCH", f"threads/{thread}/", token, {"title": "Shown once more"})
    expect(ana.get_by_role("heading", name="Shown once more", level=1)).to_be_visible()
    expect(about).to_be_focused()

    go_on = installation.model.holds_back_after_first_words("Once upon a time.")
    say(ana, "@vibe tell me a story")
    expect(replies(ana).locator(".prose")).to_contain_text("Once")
    replies(ana).locator(".run-details").dispatch_event("click")
    panel.get_by_role("button", name="Stop").focus()
    go_on.set()
    expect(panel.get_by_role("button", name="Regenerate")).to_be_visible()
    expect(panel.locator("#run-page")).to_be_focused()  # not on a button that does something else


LONG = "Тюльпаны и розы. " * 1_500  # 25,500 characters, 130 kB as a form sends them


def wait_until_no_draft_is_kept(page: Page) -> None:
    """Waits until the browser keeps no draft, which the server has."""
    is_none_kept = "() => ![localStorage, sessionStorage].flatMap(Object.keys).some((key) => key.startsWith('draft-'))"
    page.wait_for_function(is_none_kept)


def test_a_long_draft_outlives_a_page_that_is_left_at_once(people: People) -> None:
    """Browsers send 64 KiB of a page that is left; the rest is saved by the next page, here or wherever one goes."""
    ana = people.ana()
    start_thread(ana, "Long drafts", "Hello.")
    address, composer = ana.url, ana.locator("#composer-body")
    composer.fill(LONG + "One")
    ana.reload()
    expect(composer).to_have_value(LONG + "One")
    wait_until_no_draft_is_kept(ana)

    with ana.expect_response("**/draft/"):
        composer.fill(LONG + "Two")
        ana.goto("/w/willow/")
    elsewhere = people.ana()
    elsewhere.goto(address)
    expect(elsewhere.locator("#composer-body")).to_have_value(LONG + "Two")
    wait_until_no_draft_is_kept(ana)


LOSE_WHAT_IS_SENT_LAST = """() => {
  const send = window.fetch;
  window.fetch = (url, options) => (options?.keepalive ? new Promise(() => {}) : send(url, options));
}"""
TYPE_WHILE_IT_LOADS = """() => {
  addEventListener("beforeunload", () => {
    const composer = document.querySelector("#composer-body");
    composer.value = "Typed while it loads";
    composer.dispatchEvent(new Event("input", { bubbles: true }));
  });
  setTimeout(() => location.reload(), 0);
}"""


def test_a_page_that_was_asked_for_before_a_draft_was_stored_shows_it(people: People) -> None:
    """The page that is left goes on until the next one comes, which the server made of an older draft."""
    ana = people.ana()
    start_thread(ana, "Overtaken drafts", "Hello.")
    drafts, pages = list[Route](), list[tuple[Route, APIResponse]]()

    def answer_page(route: Route) -> None:
        pages.append((route, route.fetch()))
        for draft in drafts:
            draft.continue_()

    ana.route("**/draft/", lambda route: route.continue_() if pages else drafts.append(route))
    ana.route(ana.url, answer_page)
    with ana.expect_response("**/draft/"):
        ana.evaluate(TYPE_WHILE_IT_LOADS)
    route, answer = pages[0]
    with ana.expect_event("load"):
        route.fulfill(response=answer)
    expect(ana.locator("#composer-body")).to_have_value("Typed while it loads")
    expect(ana.get_by_text("Draft saved")).to_be_visible()
    expect(ana.locator(".draft-choice")).to_have_count(0)


def test_what_is_typed_before_the_script_of_a_page_runs_is_saved(people: People) -> None:
    ana = people.ana()
    start_thread(ana, "Slow scripts", "Hello.")
    script = Held(ana, "**/app*.js")
    ana.reload(wait_until="commit")
    ana.locator("#composer-body").fill("Typed at once")
    script.wait().continue_()
    expect(ana.get_by_text("Draft saved")).to_be_visible()
    elsewhere = people.ana()
    elsewhere.goto(ana.url)
    expect(elsewhere.locator("#composer-body")).to_have_value("Typed at once")


def test_a_draft_that_nobody_heard_was_not_stored_outlives_its_page(people: People) -> None:
    """What is sent when a page is left may fail: the next page of the tab saves it, whichever it is."""
    ana = people.ana()
    start_thread(ana, "Left at once", "Hello.")
    address, composer = ana.url, ana.locator("#composer-body")
    ana.evaluate(LOSE_WHAT_IS_SENT_LAST)
    with ana.expect_response("**/draft/"):
        composer.fill("Typed and left")
        ana.goto("/w/willow/")
    ana.goto(address)
    expect(composer).to_have_value("Typed and left")
    composer.fill("")
    ana.reload()
    expect(composer).to_have_value("")
    wait_until_no_draft_is_kept(ana)


@pytest.mark.parametrize("answer", ["none", "503"])
def test_a_draft_outlives_a_page_that_is_left_while_nothing_can_be_saved(people: People, answer: str) -> None:
    """The pages on the way cannot save it either."""
    ana = people.ana()
    start_thread(ana, f"Drafts without a server: {answer}", "Hello.")
    address, composer = ana.url, ana.locator("#composer-body")
    no_server = {"none": lambda route: route.abort(), "503": lambda route: route.fulfill(status=503)}[answer]
    ana.route("**/draft/", no_server)
    composer.fill("Typed in a tunnel")
    expect(ana.locator("[data-saved]")).to_contain_text({"none": "offline", "503": "again"}[answer])
    for _ in range(2):
        ana.goto("/w/willow/")
    ana.goto(address)
    expect(composer).to_have_value("Typed in a tunnel")
    composer.fill("Typed in a train")
    ana.goto("/w/willow/")
    ana.goto(address)
    expect(composer).to_have_value("Typed in a train")
    ana.unroute("**/draft/")
    with ana.expect_response(lambda answer: "body=Typed&" in (answer.request.post_data or "")):
        composer.fill("Typed")
    expect(ana.get_by_text("Draft saved")).to_be_visible()
    wait_until_no_draft_is_kept(ana)
    elsewhere = people.ana()
    elsewhere.goto(address)
    expect(elsewhere.locator("#composer-body")).to_have_value("Typed")


def test_a_long_draft_that_was_kept_stands_beside_what_another_device_saved(people: People) -> None:
    desk, phone = people.ana(), people.ana()
    start_thread(desk, "Long drafts on two devices", "Hello.")
    address, composer = desk.url, desk.locator("#composer-body")
    desk.route("**/draft/", lambda route: route.abort())  # however long it stands there, no server has it
    composer.fill(LONG)
    desk.goto("about:blank")
    phone.goto(address)
    write(phone, "Phone")
    desk.unroute("**/draft/")
    desk.goto(address)
    expect(composer).to_have_value(LONG)
    expect(desk.locator(".draft-other")).to_have_text("Phone")
    with desk.expect_response("**/draft/"):
        desk.get_by_role("group", name="Two texts for this message").get_by_role("button", name="both").click()
    expect(composer).to_have_value(f"Phone\n\n{LONG}")
    expect(desk.get_by_text("Draft saved")).to_be_visible()
    wait_until_no_draft_is_kept(desk)


@pytest.mark.parametrize("status", [502, 503])
def test_what_a_proxy_could_not_pass_on_is_sent_in_order_once_it_can(people: People, status: int) -> None:
    """The page stays connected: nothing but trying again tells that the server is back."""
    ana = people.ana()
    start_thread(ana, f"Behind a proxy: {status}", "Hello.")
    expect(ana.locator('body[data-live="on"]')).to_be_attached()
    address = ana.url

    def refuse(route: Route) -> None:
        if route.request.method == "POST":
            route.fulfill(status=status, body="<h1>Bad Gateway</h1>")
        else:
            route.fallback()

    ana.route(address, refuse)
    for words in ("First.", "Second."):
        say(ana, words)
        expect(ana.locator("#messages > li").last).to_contain_text("Not sent yet: the server is")
    with ana.expect_response(lambda answer: answer.status == status):
        pass  # it tries by itself
    expect(ana.locator("#messages .is-failed .prose")).to_have_text(["First.", "Second."])
    ana.unroute(address)
    expect(ana.locator("#messages [data-pending]")).to_have_count(0)
    expect(ana.locator("#messages .message[data-seq] .prose")).to_have_text(["Hello.", "First.", "Second."])


ASK_OFTEN = """async () => {
  const { isAnswered } = await import("/static/js/page.js");
  const tries = [];
  const again = () => tries.push("again");
  for (let failure = 0; failure < 5; failure += 1) isAnswered(null, again);
  for (let failure = 0; failure < 5; failure += 1) isAnswered({ status: 502 }, () => tries.push("one row"), "m/1/");
  await new Promise((last) => { isAnswered(null, last); });
  return tries;
}"""


def test_however_often_something_fails_it_is_tried_once_at_a_time(people: People) -> None:
    ana = people.ana()
    expect(ana.locator('body[data-live="on"]')).to_be_attached()
    assert ana.evaluate(ASK_OFTEN) == ["again", "one row"]


def test_what_is_pressed_is_not_replaced_before_it_is_released(people: People, installation: Installation) -> None:
    ana = people.ana()
    start_thread(ana, "Pressed", "Old words.")
    token, row = installation.token("ana"), ana.locator("#messages > li")
    hear(ana)
    row.hover()
    menu = row.locator(".message-more")
    menu.locator("summary").hover()
    ana.mouse.down()
    installation.api("PATCH", f"messages/{row.get_attribute('data-id')}/", token, {"body": "New words."})
    wait_for_event(ana, "message_changed")
    expect(row).to_have_attribute("data-stale", "yes")
    ana.mouse.up()
    expect(menu).to_have_attribute("open", "")
    ana.keyboard.press("Escape")
    expect(row).to_contain_text("New words.")
