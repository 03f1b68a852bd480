"""Somebody reads the source of an answer: a look at the chip, a click into the prompt, and without a script a link."""

import re

from playwright.sync_api import expect

from tests.journeys.axe import violations
from tests.journeys.conftest import People
from tests.journeys.installation import Installation
from tests.journeys.test_conversation import say, start_thread


def test_the_source_of_an_answer_is_two_clicks_away(people: People, installation: Installation) -> None:
    installation.model.says("Row 3 needs mulch before the frost comes [message 1].")
    ana = people.ana()
    start_thread(ana, "Mulch for row 3", "Row 3 needs mulch before the frost comes. #general")
    expect(ana.locator(".message .place-chip", has_text="#general")).to_be_visible()
    say(ana, "@vibe what does row 3 need before the frost?")
    cited = ana.locator(".message.by-agent a.cite", has_text="message 1").first
    expect(cited).to_be_visible(timeout=30_000)
    cited.hover()
    card = ana.get_by_role("tooltip")
    expect(card).to_contain_text("Row 3 needs mulch before the frost comes.")
    expect(card).to_contain_text("Ana")
    assert violations(ana) == []
    ana.keyboard.press("Escape")
    expect(card).to_be_hidden()
    cited.focus()
    expect(card).to_be_visible()
    cited.click()
    panel = ana.locator("#panel")
    expect(panel).to_contain_text("Why this answer?")
    expect(ana).to_have_url(re.compile(r"panel=runs"))
    assert re.search(r"/runs/\d+/context/#item-message-\d+$", cited.get_attribute("href") or "")
