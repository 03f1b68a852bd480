"""Pages anybody can use: no serious accessibility violation, in both themes and on a narrow screen."""

import re

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tests.journeys.conftest import People
from tests.journeys.installation import Installation
from tests.journeys.test_talking import replies, say, start_thread

pytestmark = pytest.mark.browser


def violations(page: Page) -> list[str]:
    found = Axe().run(page).response["violations"]
    return [f"{v['id']}: {v['nodes'][0]['html'][:160]}" for v in found if v["impact"] in ("serious", "critical")]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 360])
def test_no_serious_violation(people: People, installation: Installation, scheme: str, width: int) -> None:
    installation.model.says("Use **twelve** litres.\n\n```python\nprint('water')\n```")
    page = people.ana(color_scheme=scheme, viewport={"width": 1280, "height": 900})
    start_thread(page, f"Looks {scheme} {width}", "The greenhouse needs `12` litres a day.")
    say(page, "@vibe how much water?")
    expect(replies(page)).to_have_attribute("data-state", "complete")
    page.set_viewport_size({"width": width, "height": 800})
    assert violations(page) == []
    page.goto(str(replies(page).get_by_role("link", name=re.compile("context", re.I)).get_attribute("href")))
    assert violations(page) == []
    for address in ("/w/willow/", "/w/willow/search/?q=litres", "/w/willow/members/", "/w/willow/agents/vibe/"):
        page.goto(address)
        assert violations(page) == [], address
        scrolls = page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth + 1")
        assert not scrolls, f"{address} scrolls sideways at {width}px"


def test_by_keyboard_alone(people: People, installation: Installation) -> None:
    installation.model.says("By keyboard.")
    page = people.ana()
    start_thread(page, "Keyboard", "Hello.")
    page.locator("body").press("Escape")
    page.locator("#composer-body").focus()
    page.keyboard.type("@vi")
    expect(page.get_by_role("listbox")).to_be_visible()
    page.keyboard.press("Enter")
    page.keyboard.type("can you hear me?")
    page.keyboard.press("Enter")
    expect(replies(page)).to_contain_text("By keyboard.")
    page.locator("#main").focus()
    page.keyboard.press("?")
    expect(page.locator("#help")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("/")
    expect(page.get_by_role("searchbox")).to_be_focused()
