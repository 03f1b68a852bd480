"""What journeys about memory share: a long conversation from elsewhere, and the ways into its memory."""

import json
import re

from playwright.sync_api import Locator, Page, expect

from tests.journeys.installation import Installation
from tests.journeys.test_conversation import channel_link, replies, say

KEY = "The key to the seed vault hangs behind the third beehive."
CODE = "The code of the garden gate is hollyhock."


def import_conversation(installation: Installation, title: str, count: int = 80) -> None:
    """A thread of #general with `count` imported messages, of about 50 tokens each."""
    lines = []
    for number in range(1, count + 1):
        text = f"Bed {number}: the roses have come on since last week. " + "We watered them and tied up the canes. " * 4
        text = KEY if number == 3 else CODE if number == 5 else text
        at = f"2026-03-{number // 24 + 1:02d}T{number % 24:02d}:00:00Z"
        lines.append(json.dumps({"author": ("Rose", "Basil")[number % 2], "text": text, "time": at, "thread": title}))
    file = installation.var / f"{title}.jsonl"
    file.write_text("\n".join(lines), encoding="utf-8")
    installation.manage("conversation", "import", str(file), "--channel", "general", "--workspace", "willow")


def go_to(page: Page, title: str) -> None:
    """A thread of #general, by the list of its channel."""
    page.goto(channel_link(page, "general").get_attribute("href") or "")
    link = page.get_by_role("main").get_by_role("link", name=re.compile(title))
    while not link.count():  # other tests have written since
        with page.expect_navigation():
            page.get_by_role("link", name="Older").click()
    link.click()
    expect(page.get_by_role("heading", name=title, level=1)).to_be_visible()
    page.wait_for_load_state()


def gist(said: str) -> str:
    """What the steered model makes of messages or summaries."""
    flowers = [words for words in ("roses", "hollyhock") if words in said]
    return f"They spoke about {' and '.join(flowers)}."


def in_panel(page: Page, name: str) -> Locator:
    """The panel of a thread, opened from its head."""
    page.locator(".feed-tools").get_by_role("link", name=name).click()
    panel = page.locator("#panel")
    expect(panel.get_by_role("heading", name=name, level=1)).to_be_visible()
    return panel


def answer_to(page: Page, question: str) -> Locator:
    """Asks the agent and waits until it has answered; returns its reply."""
    before = replies(page).count()
    say(page, f"@vibe {question}")
    reply = replies(page).nth(before)
    expect(reply).to_have_attribute("data-state", "complete")
    return reply


def context_of(page: Page, reply: Locator) -> Locator:
    """The context viewer of a reply, in the panel."""
    reply.get_by_role("link", name=re.compile("Why this answer")).click()
    panel = page.locator("#panel")
    expect(panel.get_by_role("heading", name="Why this answer?")).to_be_visible()
    return panel
