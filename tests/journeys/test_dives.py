"""Dives in a real browser: one person dives, another watches, and what comes of it stands in the thread."""

import re
from urllib.parse import unquote

import pytest
from playwright.sync_api import Dialog, Locator, Page, expect

from tests.journeys.axe import scrolls_sideways, violations
from tests.journeys.conftest import People
from tests.journeys.installation import Installation, Steered
from tests.journeys.late_answers import Held, hear, wait_for_event
from tests.journeys.test_conversation import start_thread

DRAFT = """## Headline
Water twice a week
## Key points
- Twelve litres a visit
- The lemon tree last
- Nothing below 4 degrees
## Full text
Ana asked, Vibe counted.
## Open questions
- Who waters over the holidays?
"""
ANA = """
from openvibe.chat.models import Message
from openvibe.chat.services import start_dive, update_message
from openvibe.workspaces.models import Member
from openvibe.workspaces.queries import member_access
from tests.factories import say_all
ana = Member.objects.get(workspace__slug="willow", participant__handle="ana")
"""
LONG_DIVE = f"""{ANA}
source = Message.objects.filter(thread={{thread}}).earliest("seq")
vibe = ana.workspace.participants.get(handle="vibe")
dive = start_dive(source=source, by=member_access(ana), agent=vibe)
say_all(dive.thread, ana, [f"Litre {{{{number}}}}." for number in range(1, 61)])
print(dive.pk, Message.objects.get(thread=dive.thread, body="Litre 2.").pk)
"""
FIVE = f"""{ANA}
source = Message.objects.filter(thread={{thread}}).earliest("seq")
vibe = ana.workspace.participants.get(handle="vibe")
for number in range(5):
    start_dive(source=source, by=member_access(ana), agent=vibe)
"""
EDIT = f"""{ANA}
update_message(message=Message.objects.get(pk={{message}}), by=member_access(ana), body="Litre 2, mended.")
"""


def thread_of(page: Page) -> str:
    place = re.search(r"/t/(\d+)/", page.url)
    assert place
    return place[1]


def dived(page: Page, question: str, message: int = 0) -> Locator:
    """Starts a dive from a message by the keyboard; returns its panel."""
    page.locator("#messages > li").nth(message).focus()
    page.keyboard.press("d")
    panel = page.locator("#panel")
    asked = panel.get_by_label("What do you want to find out?")
    expect(asked).to_be_focused()
    panel.get_by_role("radio", name=re.compile("Vibe")).check()
    asked.focus()
    page.keyboard.type(question)
    page.keyboard.press("Enter")
    expect(panel.get_by_role("heading", name=re.compile(r"Dive\s+with"))).to_be_visible()
    expect(page).to_have_url(re.compile("panel=dive"))  # a moment after it is shown
    return panel


def answers(panel: Locator) -> Locator:
    return panel.locator('#dive-messages > li[data-handle="vibe"]')


def answered(panel: Locator, number: int, text: str) -> None:
    reply = answers(panel).nth(number)
    expect(reply).to_contain_text(text)
    expect(reply).to_have_attribute("data-state", "complete")


def headline(place: Page | Locator) -> Locator:
    return place.get_by_role("textbox", name=re.compile(r"^\s*Headline"))


def point(place: Page | Locator, number: int) -> Locator:
    return place.get_by_role("textbox", name=f"Key point {number}")


def drafted_and_published(ana: Page, panel: Locator, model: Steered) -> None:
    """The draft: her own words are kept beside the agent's; what is wrong is said, and then it is a result."""
    model.says(DRAFT)
    panel.get_by_role("link", name="Publish…").click()
    point(panel, 1).fill("My own point")
    panel.get_by_role("button", name="Draft with Vibe").click()
    expect(headline(panel)).to_have_value("Water twice a week")
    expect(point(panel, 1)).to_have_value("My own point")
    expect(point(panel, 2)).to_have_value("The lemon tree last")
    expect(panel).to_contain_text("What you typed was kept")
    panel.get_by_role("button", name="Add a point").click()
    ana.keyboard.type("With **rain** water")
    expect(panel.locator("#publish-preview strong")).to_have_text("rain")
    headline(panel).fill("")
    panel.get_by_role("button", name="Publish", exact=True).click()
    expect(panel).to_contain_text("A result needs a headline.")
    expect(point(panel, 4)).to_have_value("With **rain** water")
    headline(panel).fill("Water on Mondays and Thursdays")
    panel.get_by_role("button", name="Publish", exact=True).click()


def test_a_dive_is_watched_drafted_published_and_dived_deeper(people: People, installation: Installation) -> None:
    model = installation.model
    ana = people.ana()
    dora = people.member("Delia")
    start_thread(ana, "Watering", "How much water does the greenhouse need?")
    dora.goto(ana.url)

    go_on = model.holds_back_after_first_words("Twelve litres, twice a week.")
    panel = dived(ana, "How many litres a week?")
    chip = dora.get_by_role("link", name="Dive with Vibe · active")
    expect(chip).to_be_visible()
    chip.click()
    watched = dora.locator("#panel")
    expect(watched).to_contain_text("Ana is diving with Vibe. You can watch.")
    for seen in (panel, watched):
        expect(answers(seen).locator('.prose[aria-busy="true"]')).to_contain_text("Twelve")
        assert "twice" not in answers(seen).inner_text()
    expect(panel.get_by_role("button", name="Stop Vibe")).to_be_visible()
    go_on.set()
    for seen in (panel, watched):
        answered(seen, 0, "Twelve litres, twice a week.")
    expect(panel.locator("#dive-budget")).to_contain_text(re.compile(r"[\d.]+k?\s+of\s+30k\s+tokens"))
    assert "Watering" in model.last_prompt or "greenhouse" in model.last_prompt

    ana.reload()
    answered(panel, 0, "Twelve litres, twice a week.")
    model.says("Thirty seconds with a hose.")
    panel.get_by_role("textbox", name="Ask Vibe").fill("And by hose?")
    panel.get_by_role("textbox", name="Ask Vibe").press("Enter")
    answered(watched, 1, "Thirty seconds with a hose.")

    drafted_and_published(ana, panel, model)
    for page in (ana, dora):
        card = page.locator("#messages .result")
        expect(card).to_contain_text("Water on Mondays and Thursdays")
        expect(card).to_contain_text("Who waters over the holidays?")
        expect(page.locator("#panel")).to_contain_text("Published by Ana")
        expect(page.locator("#messages")).to_contain_text("Dive with Vibe · published")
    expect(panel.locator("#dive-composer")).to_have_count(0)
    card = dora.locator("#messages .result")
    card.locator("summary").click()
    expect(card).to_contain_text("Ana asked, Vibe counted.")

    model.says("Rain water is softer.")
    card.get_by_role("link", name="Dive deeper").click()
    expect(watched.get_by_role("heading", name="Dive deeper")).to_be_visible()
    expect(watched.get_by_role("radio", name=re.compile("Vibe"))).to_be_checked()
    watched.get_by_label("What do you want to find out?").fill("Why rain water?")
    watched.get_by_role("button", name="Start the dive").click()
    answered(watched, 0, "Rain water is softer.")
    assert "Ana asked, Vibe counted." in model.last_prompt
    expect(ana.get_by_role("link", name="Dives 1 active")).to_be_visible()


def test_what_is_said_while_a_dive_is_on_its_way_to_the_page_is_shown(
    people: People, installation: Installation
) -> None:
    model = installation.model
    ana = people.ana()
    start_thread(ana, "Slow lines", "How much water do lemons need?")
    watcher = ana.context.new_page()
    watcher.goto(ana.url)
    go_on = model.holds_back("Four litres a week.")
    panel = dived(ana, "How many litres?")
    expect(answers(panel).locator('.prose[aria-busy="true"]')).to_be_visible()

    dive = Held(watcher, "**/dive/*/")
    watcher.get_by_role("link", name="Dive with Vibe · active").click()
    route, fragment = dive.wait_for_answer()
    go_on.set()
    answered(panel, 0, "Four litres a week.")  # told to this page, too, which shows no dive yet
    route.fulfill(response=fragment)
    answered(watcher.locator("#panel"), 0, "Four litres a week.")


def test_a_change_while_earlier_messages_load_is_shown(people: People, installation: Installation) -> None:
    ana = people.ana()
    start_thread(ana, "A long dive", "How much water do lemons need?")
    dive, seen = installation.shell(LONG_DIVE.format(thread=thread_of(ana))).split()
    changed = ana.context.new_page()
    changed.goto(f"{ana.url.partition('?')[0]}?panel=dive/{dive}/")
    panel = changed.locator("#panel")
    expect(panel.locator(".message[data-seq]").last).to_contain_text("Litre 60")

    hear(changed)
    earlier = Held(changed, re.compile(r"before_seq"))
    panel.get_by_role("link", name="Earlier messages").click()
    route, page = earlier.wait_for_answer()
    installation.shell(EDIT.format(message=seen))
    wait_for_event(changed, "message_changed")
    route.fulfill(response=page)
    expect(panel.get_by_text("Litre 2, mended")).to_be_visible()
    expect(panel.locator(".message[data-seq]")).to_have_count(60)


def test_what_is_typed_for_a_dive_that_ends_meanwhile_can_be_read(people: People, installation: Installation) -> None:
    ana = people.ana()
    start_thread(ana, "Ended meanwhile", "How much water do lemons need?")
    panel = dived(ana, "How many litres?")
    answered(panel, 0, "All right.")
    composer, unsent = panel.get_by_label("Ask Vibe"), panel.get_by_label("What you wrote and did not send")
    composer.fill("And in winter, when they stand in the hall?")
    expect(panel.get_by_text("Draft saved")).to_be_visible()
    composer.press("End")
    ana.keyboard.type(" And the figs?")
    dive = re.search(r"panel=dive/(\d+)/", unquote(ana.url))
    assert dive
    installation.api("POST", f"dives/{dive[1]}/discard/", installation.token("ana"))
    expect(panel).to_contain_text("Discarded by Ana")
    expect(unsent).to_have_value("And in winter, when they stand in the hall? And the figs?")
    expect(unsent).to_be_focused()
    expect(composer).to_have_count(0)
    ana.reload()
    expect(unsent).to_have_value(re.compile("in the hall"))


def test_seven_at_a_time_and_a_discarded_one_makes_room(people: People, installation: Installation) -> None:
    page = people.ana()
    start_thread(page, "Seven", "Where do we begin?")
    installation.shell(FIVE.format(thread=thread_of(page)))
    for number in (6, 7):
        panel = dived(page, f"Question {number}?")
        answered(panel, 0, "All right.")
    page.locator("#messages > li").first.focus()
    page.keyboard.press("d")
    panel.get_by_label("What do you want to find out?").fill("The eighth?")
    panel.get_by_role("button", name="Start the dive").click()
    expect(panel.get_by_role("alert")).to_contain_text("7 active dives")
    expect(panel.get_by_label("What do you want to find out?")).to_have_value("The eighth?")

    page.once("dialog", lambda dialog: dialog.accept())  # what was typed is not saved anywhere
    page.get_by_role("link", name="Dives 7 active").click()
    panel.locator(".dive-list a").first.click()
    page.once("dialog", Dialog.accept)
    panel.get_by_role("link", name="Discard").click()
    expect(panel).to_contain_text("It can be read, not written to.")
    expect(page.get_by_role("link", name="Dives 6 active")).to_be_visible()
    panel.get_by_role("button", name="Back").click()
    expect(panel.locator(".dive-list .badge", has_text="Discarded")).to_have_count(1)
    answered(dived(page, "Now the eighth?"), 0, "All right.")


def test_a_draft_that_cannot_be_written_leaves_the_form_to_its_writer(
    people: People, installation: Installation
) -> None:
    page = people.ana()
    start_thread(page, "By hand", "What do we keep?")
    panel = dived(page, "What matters?")
    answered(panel, 0, "All right.")
    panel.get_by_role("link", name="Publish…").click()
    go_on = installation.model.holds_back_after_first_words("## Headline and nothing else is said here.")
    panel.get_by_role("button", name="Draft with Vibe").click()
    writing = answers(panel).nth(1)  # a stop may stand at what asked for it too, for a moment
    writing.get_by_role("button", name="Stop Vibe").click()
    go_on.set()
    expect(panel.locator("[data-draft-state]")).to_contain_text(
        re.compile(r"sentences\s+were\s+picked|could\s+not\s+write\s+the\s+draft")
    )
    headline(panel).fill("Kept by hand")
    for number, text in enumerate(("One", "Two", "Three"), start=1):
        point(panel, number).fill(text)
    panel.get_by_role("button", name="Publish", exact=True).click()
    expect(page.locator("#messages .result")).to_contain_text("Kept by hand")


def test_a_draft_fills_the_form_also_when_the_page_hears_late_or_never_that_it_was_asked_for(
    people: People, installation: Installation
) -> None:
    ana = people.ana()
    start_thread(ana, "Quick draft", "How much water do lemons need?")
    panel = dived(ana, "How many litres?")
    answered(panel, 0, "All right.")
    installation.model.says(DRAFT)
    panel.get_by_role("link", name="Publish…").click()
    asked = Held(ana, "**/dive/*/draft/")
    panel.get_by_role("button", name="Draft with Vibe").click()
    route, answer = asked.wait_for_answer()
    answered(panel, 1, "Water twice a week")  # the stream told of it
    route.fulfill(response=answer)
    expect(headline(panel)).to_have_value("Water twice a week")
    installation.model.says(DRAFT.replace("twice", "once"))
    asked = Held(ana, "**/dive/*/draft/")
    panel.get_by_role("button", name="Draft with Vibe").click()
    route, _ = asked.wait_for_answer()
    route.abort()
    expect(headline(panel)).to_have_value("Water once a week")


def test_whoever_writes_at_once_is_not_led_elsewhere(people: People, installation: Installation) -> None:
    """The form leads to its headline when it settles, a moment after it can be typed in."""
    installation.model.says("Twelve litres.")
    ana = people.ana()
    start_thread(ana, "Hurry", "How much water does the greenhouse need?")
    panel = dived(ana, "How many litres a week?")
    answered(panel, 0, "Twelve litres.")
    write = "() => document.querySelector('#publish:not([data-written]) textarea')?.focus()"
    once = "() => document.querySelector('#publish')?.setAttribute('data-written', '')"
    for listener in (write, once):
        ana.evaluate(f"document.addEventListener('htmx:afterSwap', {listener})")
    panel.get_by_role("link", name="Publish…").click()
    expect(panel.locator("#publish [data-count]")).to_have_text("0 of 120")  # it has settled
    expect(point(panel, 1)).to_be_focused()


def test_without_javascript_a_dive_is_started_and_published(people: People, installation: Installation) -> None:
    ana = people.ana()
    start_thread(ana, "Without scripts", "What is needed?")
    context = people.browser.new_context(
        base_url=installation.url, java_script_enabled=False, storage_state=ana.context.storage_state()
    )
    people.contexts.append(context)
    plain = context.new_page()
    plain.goto(ana.url)
    plain.locator("#messages > li").first.hover()
    plain.get_by_role("link", name=re.compile("^Dive:")).click()
    plain.get_by_role("radio", name=re.compile("Vibe")).check()
    plain.get_by_label("What do you want to find out?").fill("Soap?")
    plain.get_by_role("button", name="Start the dive").click()
    expect(plain.get_by_role("heading", name="Dive with Vibe")).to_be_visible()
    plain.get_by_role("textbox", name="Ask Vibe").fill("And a brush?")
    plain.get_by_role("button", name="Send to Vibe").click()
    expect(plain.locator("#dive-messages")).to_contain_text("And a brush?")
    ana.locator(".dive-chip").click()
    expect(answers(ana.locator("#panel"))).to_have_count(2)
    expect(ana.locator('#dive-messages > li[data-state="writing"]')).to_have_count(0)
    plain.get_by_role("link", name="Publish…").click()
    headline(plain).fill("Plainly published")
    for number in range(1, 4):
        point(plain, number).fill(f"Point {number}")
    plain.get_by_role("button", name="Publish", exact=True).click()
    expect(plain.locator("#messages .result")).to_contain_text("Plainly published")
    expect(ana.locator("#messages .result")).to_contain_text("Plainly published")
    plain.locator("#messages .result").get_by_role("link", name="Pin to knowledge").click()
    plain.get_by_role("button", name="Save", exact=True).click()
    expect(plain.get_by_role("heading", name="Plainly published", level=1)).to_be_visible()
    expect(ana.locator("#messages .result")).to_contain_text("Pinned as Plainly published")


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 360)])
def test_a_dive_can_be_used_by_anybody(people: People, installation: Installation, scheme: str, width: int) -> None:
    page = people.ana(color_scheme=scheme, viewport={"width": width, "height": 800})
    installation.model.says(DRAFT)
    page.set_viewport_size({"width": 1280, "height": 800})
    start_thread(page, f"Used {scheme}", "How much water?")
    panel = dived(page, "How much?")
    answered(panel, 0, "Water twice a week")
    page.set_viewport_size({"width": width, "height": 800})
    thread = page.url
    dive = str(panel.locator("#dive").get_attribute("data-url"))
    for address in (thread, dive, f"{dive}publish/"):
        page.goto(address)
        expect(page.get_by_role("heading", name=re.compile(r"Dive\s+with"))).to_be_visible()
        assert violations(page) == [], address
        assert not scrolls_sideways(page), address
    page.goto(f"{dive}publish/")
    page.get_by_role("button", name="Draft with Vibe").click()
    expect(headline(page)).to_have_value("Water twice a week")
    assert violations(page) == []
    page.get_by_role("button", name="Publish", exact=True).click()
    page.get_by_role("link", name="Show the result").click()
    expect(page.locator("#messages .result")).to_be_visible()
    assert violations(page) == []
    assert not scrolls_sideways(page)
