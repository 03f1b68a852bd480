"""The context viewer in the panel: nothing in it collides, its links lead to items, and stay where one looks."""

import re

from playwright.sync_api import Page, expect

from tests.journeys.conftest import People
from tests.journeys.installation import Installation
from tests.journeys.memory_steps import answer_to, context_of
from tests.journeys.test_conversation import start_thread

COLLISIONS = """
() => [...document.querySelectorAll('#panel .context-row')].filter((row) => {
  const boxes = [...row.children].map((part) => part.getBoundingClientRect());
  const frame = row.getBoundingClientRect();
  const isOut = boxes.some((box) => box.right > frame.right + 1 || box.left < frame.left - 1);
  return isOut || boxes.some((one, at) => boxes.slice(at + 1).some((other) =>
    one.left < other.right - 1 && other.left < one.right - 1 &&
    one.top < other.bottom - 1 && other.top < one.bottom - 1));
}).map((row) => row.textContent)
"""


def test_the_viewer_in_the_panel(people: People, installation: Installation) -> None:
    installation.model.says("As you said, the greenhouse needs twelve litres a day.")
    ana = people.ana()
    start_thread(ana, "Watering", "The greenhouse needs **twelve litres** a day.")
    panel = context_of(ana, answer_to(ana, "how much water?"))

    for width in (1440, 900, 360):
        ana.set_viewport_size({"width": width, "height": 900})
        expect(panel.locator(".context-row").first).to_be_visible()
        assert ana.evaluate(COLLISIONS) == [], width
        assert not ana.evaluate("document.documentElement.scrollWidth > innerWidth"), width
    ana.set_viewport_size({"width": 1440, "height": 900})

    expect(panel.locator(".answer-words mark")).to_have_text("the greenhouse needs twelve litres a day")
    panel.get_by_role("link", name="Source 1").click()
    source = panel.locator("#source-1")
    expect(source.locator("strong")).to_have_text("twelve litres")
    source.get_by_text("Where it stands in the prompt").click()
    item = panel.locator("#context-history .context-item").first
    expect(item).to_be_focused()
    expect(item.locator("strong")).to_have_text("twelve litres")
    address = item.get_attribute("id")
    stays_in_the_panel(ana)
    leads_to_an_item(ana, f"#{address}")


def stays_in_the_panel(page: Page) -> None:
    panel, thread = page.locator("#panel"), page.url.partition("?")[0]
    panel.get_by_role("link", name="All prompts here over time").click()
    expect(panel.get_by_role("heading", name="Prompts over time")).to_be_visible()
    expect(panel.locator("#prompts-vibe")).to_be_focused()
    assert page.url.startswith(thread)
    panel.get_by_role("button", name="Back").click()
    expect(panel.get_by_role("heading", name="Why this answer?")).to_be_visible()


def leads_to_an_item(page: Page, anchor: str) -> None:
    """An address with an item opens it, in the panel and on the page of its own."""
    reply = page.locator('#messages > li[data-handle="vibe"]').last
    link = reply.get_by_role("link", name=re.compile("Why this answer"))
    link.evaluate("(link, anchor) => { link.href += anchor; }", anchor)
    link.click()
    expect(page.locator(f"#panel {anchor}")).to_be_focused()
    expect(page.locator(f"#panel {anchor}")).to_be_visible()
    page.goto(str(link.get_attribute("href")))
    expect(page.locator(f"#main {anchor}")).to_be_focused()
    expect(page.locator(f"#main {anchor}")).to_be_visible()
