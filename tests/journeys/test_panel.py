"""The right panel in haste and without a connection: nothing typed is lost, nothing in it stays old or empty."""

import re
from collections.abc import Callable
from urllib.parse import unquote

import pytest
from playwright.sync_api import Dialog, FilePayload, Locator, Page, Route, expect

from tests.journeys.conftest import People
from tests.journeys.installation import Installation
from tests.journeys.late_answers import Held, hear, wait_for_event
from tests.journeys.test_conversation import channel_link, replies, say, start_thread
from tests.journeys.test_dives import answered, dived
from tests.journeys.test_late_answers import TELL, WIDE, asked_thread, thread_of, tool
from tests.operations.processes import wait_until


def opened_dive(people: People, title: str) -> tuple[Page, Locator, Locator]:
    """Ana's page, the panel with a dive that was answered, and its composer."""
    ana = people.ana(viewport=WIDE)
    start_thread(ana, title, "How much water do lemons need?")
    panel = dived(ana, "How many litres?")
    answered(panel, 0, "All right.")
    return ana, panel, panel.get_by_label("Ask Vibe")


def dive_of(page: Page) -> str:
    return str(re.findall(r"panel=dive/(\d+)/", unquote(page.url))[0])


@pytest.mark.parametrize("leaves_by", ["close", "publish", "link"])
def test_what_is_typed_for_a_dive_that_is_left_at_once_comes_back(people: People, leaves_by: str) -> None:
    ana, panel, composer = opened_dive(people, f"Left by {leaves_by}")
    address, ways = (
        ana.url,
        {"close": panel.get_by_role("button", name="Close"), "publish": panel.get_by_role("link", name="Publish…")},
    )
    composer.fill("And in winter?")
    if leaves_by == "link":
        composer.evaluate("() => document.querySelector('#sidebar .nav-item').click()")  # the field keeps the focus
        ana.wait_for_url("/w/willow/")
    else:
        ways[leaves_by].click()

    def is_back() -> bool:
        ana.goto(address)
        expect(composer).to_be_visible()
        return composer.input_value() == "And in winter?"

    wait_until(is_back, "the draft is saved")


def test_a_draft_of_a_dive_that_is_saved_late_does_not_come_back(people: People) -> None:
    ana, panel, composer = opened_dive(people, "Slow drafts of a dive")
    draft = Held(ana, "**/draft/")
    ana.clock.install()
    composer.fill("And in winter?")
    ana.clock.run_for(1000)
    draft.wait()
    composer.press("Enter")
    ana.evaluate("() => fetch(location.href)")  # what was asked for before it is known of
    draft.routes[0].continue_()
    answered(panel, 1, "All right.")
    ana.goto(ana.url)
    expect(composer).to_be_visible()
    expect(composer).to_have_value("")


def test_what_was_sent_is_not_written_again(people: People, installation: Installation) -> None:
    """Neither by whoever typed on before it was stored, nor where the dive ended before the answer came."""
    ana, panel, composer = opened_dive(people, "Typed on")
    sent, token = Held(ana, f"**/dive/{dive_of(ana)}/", "POST"), installation.token("ana")
    composer.fill("And in winter?")
    composer.press("Enter")
    sent.wait()
    composer.press("End")
    ana.keyboard.type(" And in winter? And the figs?")
    sent.routes[0].continue_()
    answered(panel, 1, "All right.")
    expect(composer).to_have_value("And in winter? And the figs?")

    sent = Held(ana, f"**/dive/{dive_of(ana)}/", "POST")
    composer.press("Enter")
    route, answer = sent.wait_for_answer()
    answered(panel, 2, "All right.")
    installation.api("POST", f"dives/{dive_of(ana)}/discard/", token)
    unsent = panel.get_by_label("What you wrote and did not send")
    expect(unsent).to_be_attached()
    expect(unsent).to_be_hidden()  # the stream told of it
    with ana.expect_event("requestfinished", lambda request: request.method == "POST"):
        route.fulfill(response=answer)
    expect(unsent).to_be_hidden()


def test_whoever_writes_on_waits_for_no_answer_of_a_message_that_stands_already(people: People) -> None:
    ana, panel, composer = opened_dive(people, "Quick questions")
    sent = Held(ana, f"**/dive/{dive_of(ana)}/", "POST")
    composer.fill("And in winter?")
    composer.press("Enter")
    route, answer = sent.wait_for_answer()
    answered(panel, 1, "All right.")  # the stream told of it
    composer.fill("And the figs?")
    composer.press("Enter")
    answered(panel, 2, "All right.")
    with ana.expect_event("requestfinished", lambda request: request.url == route.request.url):
        route.fulfill(response=answer)
    expect(panel.locator('#dive-messages [data-mine="yes"] .prose').last).to_have_text("And the figs?")
    expect(composer).to_have_value("")


def test_what_is_typed_for_a_dive_outlives_the_archive(people: People, installation: Installation) -> None:
    ana, panel, composer = opened_dive(people, "Archived and back")
    token, thread = installation.token("ana"), thread_of(ana)
    composer.fill("And in winter?")
    expect(panel.get_by_text("Draft saved")).to_be_visible()
    composer.press("End")
    ana.keyboard.type(" And the figs?")
    installation.api("PATCH", f"threads/{thread}/", token, {"archived": True})
    unsent = panel.get_by_label("What you wrote and did not send")
    expect(unsent).to_have_value("And in winter? And the figs?")
    expect(ana.locator(".composer-closed")).to_be_visible()  # the page of the archived thread
    installation.api("PATCH", f"threads/{thread}/", token, {"archived": False})
    expect(ana.locator("#composer-body")).to_be_visible()  # and of the thread brought back
    ana.wait_for_load_state()  # its script hears what is typed
    expect(composer).to_have_value("And in winter? And the figs?")
    with ana.expect_response("**/draft/"):
        composer.fill("And in winter? And the figs, too?")
    ana.reload()
    expect(composer).to_have_value("And in winter? And the figs, too?")


def memory_opened(page: Page) -> str:
    """Opens the memory in the panel; returns the address of the page, which says so a moment after it is shown."""
    tool(page, "Memory").press("Enter")
    expect(page.locator("#panel").get_by_role("heading", name="Memory", exact=True)).to_be_visible()
    expect(page).to_have_url(re.compile("panel=.*memory"))
    return page.url


def test_without_a_connection_the_panel_stays_as_it_is(people: People) -> None:
    ana = asked_thread(people, "Offline panel")
    panel, shell = ana.locator("#panel"), ana.locator(".shell")
    before = ana.url
    ana.route("**/work/", lambda route: route.abort())
    tool(ana, "Work").press("Enter")
    expect(ana.get_by_text("The server cannot be reached.")).to_be_visible()
    expect(shell).not_to_have_class(re.compile("has-panel"))
    expect(ana).to_have_url(before)
    expect(tool(ana, "Work")).to_be_focused()

    url = memory_opened(ana)
    with ana.expect_event("requestfailed", lambda request: request.url.endswith("/work/")):
        tool(ana, "Work").press("Enter")
    expect(ana.get_by_text("The server cannot be reached.")).to_have_count(2)
    expect(ana).to_have_url(url)
    expect(panel.get_by_role("heading", name="Memory", exact=True)).to_be_visible()
    panel.get_by_role("button", name="Close").click()
    expect(tool(ana, "Memory")).to_be_focused()


def test_two_panels_that_fail_leave_the_address_of_what_is_shown(people: People) -> None:
    ana = asked_thread(people, "Twice offline")
    panel, before = ana.locator("#panel"), ana.url
    dives, work = Held(ana, "**/dives/"), Held(ana, "**/work/")

    def fail() -> None:
        for held, name in ((dives, "Dives"), (work, "Work")):
            held.routes.clear()
            tool(ana, name).press("Enter")
            held.wait()
        with ana.expect_event("requestfailed", lambda request: request.url.endswith("/work/")):
            work.routes[0].abort()

    fail()
    expect(ana.locator(".shell")).not_to_have_class(re.compile("has-panel"))
    expect(ana).to_have_url(before)
    expect(tool(ana, "Work")).to_be_focused()

    url = memory_opened(ana)
    fail()
    expect(ana.get_by_text("The server cannot be reached.")).to_have_count(2)
    expect(ana).to_have_url(url)
    expect(panel.get_by_role("heading", name="Memory", exact=True)).to_be_visible()


def test_a_page_that_the_server_cannot_show_leaves_the_panel_as_it_is(people: People) -> None:
    ana = asked_thread(people, "Broken panel")
    panel = ana.locator("#panel")
    url = memory_opened(ana)
    people.server_breaks = True
    ana.route("**/work/", lambda route: route.fulfill(status=500, body="broken"))
    tool(ana, "Work").press("Enter")
    expect(ana.get_by_text("That did not work.")).to_be_visible()
    expect(panel.get_by_role("heading", name="Memory", exact=True)).to_be_visible()
    expect(ana).to_have_url(url)


def dialogs(page: Page) -> tuple[list[str], Callable[[str], None]]:
    """What the page asks in dialogs, each of which is refused until the second says `accept`."""
    said, answer = list[str](), ["dismiss"]

    def on_dialog(dialog: Dialog) -> None:
        said.append(dialog.message)
        getattr(dialog, answer[0])()

    page.on("dialog", on_dialog)
    return said, lambda word: answer.__setitem__(0, word)


@pytest.mark.parametrize("leaves_by", ["Close", "Escape", "another"])
def test_what_is_typed_in_the_panel_goes_only_when_its_writer_says_so(people: People, leaves_by: str) -> None:
    ana = asked_thread(people, f"Typed work, {leaves_by}")
    panel, (asked, say_now) = ana.locator("#panel"), dialogs(ana)
    tool(ana, "Memory").click()
    panel.get_by_label("Exact words").fill("soil")  # a search is no loss
    tool(ana, "Work").click()
    ways: dict[str, Callable[[], None]] = {
        "Close": panel.get_by_role("button", name="Close").click,
        "Escape": lambda: ana.keyboard.press("Escape"),
        "another": tool(ana, "Memory").click,
    }
    panel.locator("#work-add-progress > summary").click()
    checkpoint = panel.get_by_label("Checkpoint")
    checkpoint.fill("Soil mixed")
    for answer in ("dismiss", "accept"):
        expect(checkpoint).to_have_value("Soil mixed")
        panel.locator("#work").focus()
        say_now(answer)
        ways[leaves_by]()
    expect(checkpoint).to_have_count(0)
    assert asked == ["What you entered here is not saved. Leave it all the same?"] * 2


def test_what_is_typed_in_a_form_of_a_page_goes_only_when_its_writer_says_so(people: People) -> None:
    ana = people.ana(viewport={"width": 1280, "height": 640})
    start_thread(ana, "Typed edit", "One more line.\n\n" * 30)
    say(ana, "Soil mixd.")
    expect(ana.locator("#messages .message[data-seq]")).to_have_count(2)
    asked, say_now = dialogs(ana)
    ana.locator("#composer-body").press_sequentially("A draft is saved")
    ana.get_by_role("link", name="Inbox").click()
    expect(ana.get_by_role("heading", name="Inbox", level=1)).to_be_visible()
    ana.go_back()
    ana.locator("#messages > li").last.focus()
    ana.keyboard.press("e")
    edit = ana.locator("#messages").get_by_role("textbox")
    edit.press_sequentially("!")
    expect(ana.locator("#messages").get_by_role("button", name="Save", exact=True)).to_be_in_viewport()
    for answer in ("dismiss", "accept"):
        expect(edit).to_have_value("Soil mixd.!")
        say_now(answer)
        with ana.expect_event("dialog"):
            ana.get_by_role("link", name="Inbox").click(no_wait_after=True)
    expect(ana.get_by_role("heading", name="Inbox", level=1)).to_be_visible()
    assert len(asked) == 2


def test_a_page_asks_before_chosen_files_are_left_and_not_once_they_are_sent(people: People) -> None:
    ana = people.ana()
    start_thread(ana, "Chosen files", "Hello.")
    asked, _ = dialogs(ana)
    file: FilePayload = {"name": "a.txt", "mimeType": "text/plain", "buffer": b"Soil"}
    ana.locator('#composer input[type="file"]').set_input_files(file)
    with ana.expect_event("dialog"):
        ana.get_by_role("link", name="Inbox").click(no_wait_after=True)
    say(ana, "Here it is.")
    expect(ana.locator("#messages .message[data-seq]")).to_have_count(2)
    ana.get_by_role("link", name="Inbox").click()
    expect(ana.get_by_role("heading", name="Inbox", level=1)).to_be_visible()
    assert len(asked) == 1


def test_a_form_of_a_page_is_sent_without_a_question(people: People) -> None:
    ana = people.ana()
    asked, _ = dialogs(ana)
    ana.goto(channel_link(ana, "general").get_attribute("href") or "")
    form = ana.locator("#new-thread")
    ana.keyboard.press("c")
    form.get_by_label("Title").fill("Without a question")
    form.locator("textarea").fill("Hello.")
    form.get_by_role("button", name="Start thread").click()
    expect(ana.get_by_role("heading", name="Without a question", level=1)).to_be_visible()
    assert not asked


def test_a_draft_goes_without_a_question_and_what_was_refused_does_not(people: People) -> None:
    ana, panel, composer = opened_dive(people, "Refused")
    asked, _ = dialogs(ana)
    close = panel.get_by_role("button", name="Close")
    composer.fill("And in winter?")
    close.click()
    expect(panel).to_be_empty()
    tool(ana, "Dives").click()
    panel.locator(".dive-list a").click()
    panel.get_by_role("link", name="Publish…").click()
    assert not asked
    panel.get_by_label("Headline").fill("Two litres in winter")
    panel.get_by_role("button", name="Back").click()
    assert len(asked) == 1
    expect(panel.get_by_label("Headline")).to_have_value("Two litres in winter")
    panel.get_by_label("Headline").fill("")
    close.click()

    ana.locator("#m-1").focus()
    ana.keyboard.press("p")
    panel.get_by_role("radio", name="A date").check()
    panel.get_by_label("Date it expires").fill("2001-01-01")
    panel.get_by_role("button", name="Save", exact=True).click()
    expect(panel.get_by_role("alert")).to_be_visible()
    close.click()
    assert len(asked) == 2
    expect(panel.get_by_label("Content")).to_have_value("How much water do lemons need?")


def test_what_is_pressed_twice_is_gone_to_once(people: People) -> None:
    ana, panel, _ = opened_dive(people, "Twice")
    tool(ana, "Dives").click()
    link, back = panel.locator(".dive-list a").first, panel.get_by_role("button", name="Back")
    link.dblclick()
    expect(panel.locator("#dive")).to_be_visible()
    back.click()
    expect(panel.locator("#dives")).to_be_visible()
    expect(back).to_have_count(0)
    link.click()
    expect(panel.locator("#dive")).to_be_visible()
    dives = Held(ana, "**/dives/")
    back.dblclick()
    dives.wait().continue_()
    expect(panel.locator("#dives")).to_be_visible()
    expect(ana.locator(".toast")).to_have_count(0)


@pytest.mark.parametrize(("name", "inside"), [("Work", "#work"), ("Memory", ".map-state")])
def test_what_could_not_be_fetched_is_asked_for_again(
    people: People, installation: Installation, name: str, inside: str
) -> None:
    ana = asked_thread(people, f"{name} in a storm")
    tool(ana, name).press("Enter")
    ana.locator("#panel").locator(inside).wait_for()
    refused = list[str]()

    def refuse_once(route: Route) -> None:
        if refused:
            return route.continue_()
        refused.append(route.request.url)
        route.fulfill(status=503, body="busy")

    ana.route(re.compile(rf"/t/\d+/{name.lower()}/"), refuse_once)
    old = ana.locator("#panel").locator(inside).element_handle()
    installation.shell(TELL.format(thread=thread_of(ana), kind=f"{name.lower()}_changed"))
    wait_until(lambda: bool(ana.evaluate("1") and refused), "it is asked for")
    ana.wait_for_function("(old) => !old.isConnected", arg=old)
    expect(ana.locator("#panel").locator(inside)).to_be_visible()


def test_a_run_that_somebody_looked_into_is_shown_as_it_is_once_they_are_done(
    people: People, installation: Installation
) -> None:
    ana = people.ana(viewport=WIDE)
    start_thread(ana, "Looked into", "Hello.")
    installation.model.calls_first("search_thread", query="hello")
    go_on = installation.model.holds_back_after_first_words("Once upon a time.")
    say(ana, "@vibe tell me a story")
    expect(replies(ana).locator(".prose")).to_contain_text("Once")
    replies(ana).locator(".run-details").dispatch_event("click")
    panel = ana.locator("#panel")
    call = panel.get_by_text("Arguments and result")
    call.click()
    go_on.set()
    expect(replies(ana)).to_have_attribute("data-state", "complete")
    ana.clock.install()
    hear(ana)
    installation.shell(TELL.format(thread=thread_of(ana), kind="run_changed"))
    wait_for_event(ana, "run_changed")
    ana.clock.run_for(1000)
    expect(panel.get_by_role("button", name="Stop")).to_be_visible()  # what is read comes first
    call.click()
    expect(panel.get_by_role("button", name="Regenerate")).to_be_visible()
    expect(panel.get_by_role("button", name="Stop")).to_have_count(0)


def test_a_page_is_not_loaded_anew_over_words_that_are_no_draft(people: People) -> None:
    ana = asked_thread(people, "Edited meanwhile")
    ana.locator("#composer-body").press("ArrowUp")
    field = ana.locator('.message[data-mine="yes"] textarea')
    expect(field).to_be_focused()
    field.fill("Half a correction")
    ana.keyboard.press("Control+k")
    ana.keyboard.type("Mark all as read")
    ana.keyboard.press("Enter")
    expect(ana.locator(".toast")).to_contain_text("read")
    expect(field).to_have_value("Half a correction")
