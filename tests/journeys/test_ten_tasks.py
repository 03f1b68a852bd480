"""Ten things a stranger comes to do. Each begins on the inbox, and is done by what can be read on the page, in at most
four clicks; typing is not counted. The clicks of each stand in docs/interface.md, which this test compares."""

import json
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.journeys.conftest import People
from tests.journeys.installation import Installation

PAGE = Path(__file__).parents[2] / "docs" / "interface.md"
MAX_CLICKS = 4
BEGIN = """
from datetime import datetime, timedelta, UTC
from django.utils import timezone
from agents.models import Agent
from agents.agent.services import set_trust_level
from knowledge.models import Entry
from knowledge.services import create_entry, pin_result
from openvibe.chat.models import Channel, Message
from openvibe.chat.services import create_thread, post_message
from openvibe.workspaces.models import Member
from openvibe.workspaces.queries import member_access
import json
ana = member_access(Member.objects.get(workspace__slug="willow", participant__handle="ana"))
vibe = Agent.objects.get(workspace__slug="willow", participant__handle="vibe")
general = Channel.objects.get(workspace__slug="willow", name="general")
"""
SCENE = """
tomorrow = timezone.now() + timedelta(days=1)
over = create_entry(by=ana, topic="Winter tariff", content="A visit costs 4 euros.", expires_at=tomorrow)
Entry.objects.filter(pk=over.pk).update(expires_at=timezone.now() - timedelta(hours=1), status="active")
print({"level": vibe.level, "daily_token_budget": vibe.daily_token_budget})
set_trust_level(agent=vibe, by=ana, level=3, note="Good answers")
decided = create_thread(channel=general, by=ana, title="Meeting of the board")
said = post_message(thread=decided, by=ana, body="Decided: the pergola is built of larch wood.")
Message.objects.filter(pk=said.pk).update(created_at=datetime(2026, 3, 12, 9, tzinfo=UTC))
pinned = create_thread(channel=general, by=ana, title="Opening times of the kiosk")
said = post_message(thread=pinned, by=ana, body="The kiosk opens at eleven.")
pin_result(message=said, by=ana, topic="Kiosk hours", content=said.body)
why = create_thread(channel=general, by=ana, title="When the quince is cut")
post_message(thread=why, by=ana, body="The quince is cut back in the second week of November, after the harvest.")
post_message(thread=why, by=ana, body="@vibe when is the quince cut?")
"""
STATE = """
from agents.models import Agent
print(json.dumps({
    "level": Agent.objects.get(pk=vibe.pk).level,
    "budget": Agent.objects.get(pk=vibe.pk).daily_token_budget,
    "agents": list(Agent.objects.values_list("participant__handle", flat=True)),
    "kiosk": Entry.objects.get(topic="Kiosk hours").status,
    "tariff": Entry.objects.get(topic="Winter tariff").status,
}))
"""
AS_BEFORE = """
Agent.objects.filter(pk=vibe.pk).update(**{before})
"""


class Stranger:
    """Somebody who clicks on what she reads. `clicks` counts them."""

    def __init__(self, page: Page) -> None:
        self.page, self.clicks = page, 0

    def click(self, name: str, *, within: Locator | None = None) -> None:
        """The first visible link, button, choice or heading of a menu that begins with these words."""
        self.page.wait_for_load_state()  # whatever she read on the page before: its script runs by now
        where, words = within or self.page, re.compile(rf"^\s*{re.escape(name)}", re.IGNORECASE)
        target = where.get_by_role("link", name=words).or_(where.get_by_role("button", name=words))
        target = target.or_(where.get_by_role("radio", name=words))
        target = target.or_(where.locator(f'summary[aria-label^="{name}"]'))
        target.or_(where.locator("summary").filter(has_text=words)).filter(visible=True).first.click()
        self.clicks += 1

    def fill(self, label: str, text: str) -> None:
        self.page.get_by_label(re.compile(rf"^\s*{re.escape(label)}\s*$")).first.fill(text)


def find_why(one: Stranger) -> None:
    one.click("When the quince is cut")
    reply = one.page.locator('#messages > li[data-handle="vibe"]').last
    reply.hover()
    one.click("Why this answer?", within=reply)
    sources = one.page.locator(".answer-sources")
    expect(sources.locator("mark").first).to_have_text("The quince is cut back in the second week of November")
    one.click("message", within=sources)
    expect(sources).to_contain_text("after the harvest.")


def make_an_agent(one: Stranger) -> None:
    one.click("New agent")
    one.fill("Name", "Quill")
    one.fill("What is it for?", "Keeps the minutes")
    one.click("Create agent")
    expect(one.page.get_by_role("heading", name="Quill")).to_be_visible()


def stop_an_expired_entry(one: Stranger) -> None:
    one.click("Knowledge")
    one.click("Review")
    item = one.page.get_by_role("region", name="Winter tariff")
    one.click("Archive", within=item)
    expect(item).to_have_count(0)


def undo_a_trust_level(one: Stranger) -> None:
    one.click("Vibe", within=one.page.get_by_role("navigation", name="Workspace"))
    one.click("Trust level", within=one.page.get_by_role("dialog", name="Vibe"))
    one.click("L2")
    one.fill("Why?", "Too early")
    one.click("Set the level")
    expect(one.page.get_by_text("It is at L2")).to_be_visible()


def read_what_was_decided_in_march(one: Stranger) -> None:
    one.click("Search")
    one.page.locator("#q").fill("decided")
    one.fill("From", "2026-03-01")
    one.fill("To", "2026-03-31")
    one.click("Search", within=one.page.get_by_role("main"))
    one.click("Meeting of the board", within=one.page.get_by_role("main"))
    expect(one.page.get_by_text("the pergola is built of larch wood")).to_be_visible()


def find_what_ana_said(one: Stranger) -> None:
    one.click("Search")
    one.page.locator("#q").fill("pergola")
    one.fill("Author", "@ana")
    one.click("Search", within=one.page.get_by_role("main"))
    expect(one.page.get_by_role("main")).to_contain_text("larch wood")


def see_what_an_agent_may_do(one: Stranger) -> None:
    one.click("Vibe", within=one.page.get_by_role("navigation", name="Workspace"))
    expect(one.page.get_by_role("dialog", name="Vibe")).to_contain_text("Answers when mentioned")


def give_an_agent_less_budget(one: Stranger) -> None:
    one.click("Vibe", within=one.page.get_by_role("navigation", name="Workspace"))
    one.click("Settings", within=one.page.get_by_role("dialog", name="Vibe"))
    one.fill("Tokens a day", "123456")
    one.click("Save", within=one.page.get_by_role("main"))
    expect(one.page.get_by_text("of 123,456 tokens used today").first).to_be_visible()


def export_a_thread(one: Stranger) -> None:
    one.click("Meeting of the board")
    one.click("About this thread")
    with one.page.expect_download() as download:
        one.click("Markdown")
    assert "larch wood" in download.value.path().read_text()


def take_back_a_pinned_entry(one: Stranger) -> None:
    one.click("Opening times of the kiosk")
    one.click("Pinned as Kiosk hours")
    one.click("Archive", within=one.page.locator("#panel"))
    expect(one.page.locator("#panel")).to_contain_text("Archived")


TASKS: dict[str, Callable[[Stranger], None]] = {
    "Find why an agent said something": find_why,
    "Make an agent": make_an_agent,
    "Stop an expired entry being used": stop_an_expired_entry,
    "Undo a level of trust": undo_a_trust_level,
    "Read what was decided in March": read_what_was_decided_in_march,
    "Find what Ana said about something": find_what_ana_said,
    "See what an agent may do": see_what_an_agent_may_do,
    "Give an agent less budget": give_an_agent_less_budget,
    "Export a thread": export_a_thread,
    "Take back a pinned entry": take_back_a_pinned_entry,
}


@pytest.fixture
def asked(people: People, installation: Installation) -> Iterator[Page]:
    """Ana's page, once Vibe has answered. Afterwards Vibe is as it was: other journeys ask it."""
    installation.model.says("The quince is cut back in the second week of November.")
    before = installation.shell(BEGIN + SCENE).splitlines()[-1]
    page = people.ana()
    page.get_by_role("link", name=re.compile("When the quince is cut")).first.click()
    expect(page.locator('#messages > li[data-handle="vibe"]')).to_have_attribute("data-state", "complete")
    yield page
    installation.shell(BEGIN + AS_BEFORE.format(before=before))


def test_a_stranger_does_ten_things_in_four_clicks_each(asked: Page, installation: Installation) -> None:
    clicks: dict[str, int] = {}
    began = time.monotonic()
    for name, task in TASKS.items():
        asked.goto("/w/willow/")
        one, start = Stranger(asked), time.monotonic()
        task(one)
        clicks[name] = one.clicks
        print(f"{name}: {one.clicks} clicks, {time.monotonic() - start:.1f} s")
    print(f"together {time.monotonic() - began:.1f} s")
    assert max(clicks.values()) <= MAX_CLICKS, clicks
    state = json.loads(installation.shell(BEGIN + STATE).splitlines()[-1])
    assert (state["level"], state["budget"], "quill" in state["agents"]) == (2, 123_456, True)
    assert (state["kiosk"], state["tariff"]) == ("archived", "archived")
    rows = dict(re.findall(r"^\| ([^|]+?) \|.*\| (\d) \|$", PAGE.read_text(), re.MULTILINE))
    assert {name: int(rows[name]) for name in TASKS} == clicks
