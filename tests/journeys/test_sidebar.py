"""The sidebar and the cards of people: by keyboard and by mouse, on a phone, live, and without scripts."""

import re

from playwright.sync_api import Locator, Page, expect

from tests.journeys.conftest import People, sign_in
from tests.journeys.installation import Installation
from tests.journeys.test_accessibility import look
from tests.journeys.test_conversation import say, start_thread


def nav(page: Page) -> Locator:
    return page.get_by_role("navigation", name="Workspace")


def test_a_section_is_folded_by_keyboard_and_stays_so(people: People) -> None:
    ana = people.ana()
    fold = nav(ana).get_by_role("button", name="People")
    fold.focus()
    fold.press("Enter")
    expect(fold).to_have_attribute("aria-expanded", "false")
    expect(fold).to_be_focused()
    expect(nav(ana).locator("a[data-card]", has_text="you")).to_have_count(0)
    ana.reload()
    expect(fold).to_have_attribute("aria-expanded", "false")
    fold.press("Space")
    expect(nav(ana).locator("a[data-card]", has_text="you")).to_have_count(1)


def test_a_card_opens_by_keyboard_from_a_name_and_gives_the_focus_back(people: People) -> None:
    ana = people.ana()
    people.member("Ingrid")
    start_thread(ana, "Who Ingrid is", "Ask @ingrid about the pond.")
    card = ana.get_by_role("dialog", name="Ingrid")
    for link in (ana.locator(".prose a.mention"), nav(ana).get_by_role("link", name="Ingrid", exact=True)):
        link.focus()
        link.press("Enter")
        expect(card).to_contain_text("@ingrid")
        look(ana, ("light", 1280), "card of a person")
        look(ana, ("dark", 360), "card of a person")
        look(ana, ("light", 1280), "card of a person")
        ana.keyboard.press("Escape")
        expect(card).to_be_hidden()
        expect(link).to_be_focused()
    ana.locator(".prose a.mention").click()
    card.get_by_role("link", name="Message").click()
    composer = ana.get_by_label("Message to Ingrid")
    expect(composer).to_be_focused()
    composer.press_sequentially("Hello!")
    composer.press("Shift+Enter")
    composer.press_sequentially("It is Ana.")
    composer.press("Enter")
    expect(ana.locator("#messages")).to_contain_text("It is Ana.")
    expect(ana.locator("#composer-body")).to_be_focused()


def test_a_favourite_is_on_top_and_a_muted_channel_says_so(people: People) -> None:
    ana = people.ana()
    row = nav(ana).locator(".nav-row", has=ana.locator("a[data-channel]", has_text="meetings"))
    more = row.get_by_role("link", name="#meetings: favourite, mute, leave")
    more.focus()
    more.press("Enter")
    card = ana.get_by_role("dialog", name="#meetings")
    look(ana, ("light", 1280), "card of a channel")
    card.get_by_role("button", name="Add to favourites").click()
    expect(card).to_be_hidden()
    expect(nav(ana).get_by_role("button", name="Favourites")).to_be_visible()
    more.click()
    card.get_by_role("button", name="Mute").click()
    expect(row.get_by_role("link", name=re.compile("meetings ?, muted"))).to_be_visible()
    for action in ("Remove from favourites", "Unmute"):
        more.click()
        card.get_by_role("button", name=action).click()
        expect(card).to_be_hidden()
    expect(nav(ana).get_by_role("button", name="Favourites")).to_have_count(0)


def test_a_direct_message_counts_live_in_its_own_number(people: People) -> None:
    ana, jo = people.ana(), people.member("Jolanda")
    ana.goto("/w/willow/")
    expect(ana.locator('body[data-live="on"]')).to_be_attached()
    mentions = nav(ana).get_by_role("link", name="Mentions").locator(".count")
    before = mentions.text_content()
    jo.goto("/w/willow/direct/")
    jo.get_by_label("Search people and agents").press_sequentially("ana")
    jo.keyboard.press("Enter")
    jo.get_by_role("link", name=re.compile("^Ana")).last.click()
    jo.get_by_label("Message to Ana").fill("Are you there?")
    jo.keyboard.press("Enter")
    row = nav(ana).locator("a[data-direct]", has_text="Jolanda")
    expect(row.locator(".count")).to_have_text("1 unread")
    say(jo, "It is urgent.")
    expect(row.locator(".count")).to_have_text("2 unread")
    expect(nav(ana).locator("[data-direct-count] .count")).to_contain_text(re.compile(r"^\d+ unread direct messages$"))
    assert mentions.text_content() == before
    row.click()
    expect(row.locator(".count")).to_be_hidden()


def test_without_scripts_and_on_a_phone(people: People, installation: Installation) -> None:
    plain = people.page(java_script_enabled=False)
    sign_in(plain, installation.email, installation.password)
    nav(plain).get_by_role("button", name="Agents").click()
    expect(nav(plain).get_by_role("button", name="Agents")).to_have_attribute("aria-expanded", "false")
    nav(plain).get_by_role("button", name="Agents").click()
    nav(plain).get_by_role("link", name="Ana you").click()
    expect(plain.get_by_role("heading", name="Ana", level=1)).to_be_visible()
    nav(plain).get_by_role("link", name="Browse channels").click()
    plain.get_by_role("link", name="#meetings: favourite, mute").last.click()
    plain.get_by_role("button", name="Add to favourites").click()
    expect(plain.get_by_text("#meetings is among your favourites.")).to_be_visible()
    plain.get_by_role("button", name="Remove from favourites").click()

    phone = people.ana(viewport={"width": 360, "height": 780})
    for address in ("channels/", "people/ana/", "people/vibe/", "direct/", "agents/vibe/picture/"):
        phone.goto(f"/w/willow/{address}")
        look(phone, ("light", 360), address)
        look(phone, ("dark", 1280), address)
    phone.set_viewport_size({"width": 360, "height": 780})
    phone.goto("/w/willow/channels/")
    phone.get_by_role("button", name="Menu").click()
    nav(phone).get_by_role("link", name="Vibe", exact=False).first.click()
    expect(phone.get_by_role("dialog", name="Vibe")).to_contain_text("What for")
