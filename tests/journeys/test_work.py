"""The work of a thread, and what an agent carries: people and the agent write it, prompts hold it."""

import json
import re

from playwright.sync_api import Locator, Page, expect

from tests.journeys.conftest import People
from tests.journeys.installation import Installation
from tests.journeys.memory_steps import answer_to, go_to, in_panel
from tests.journeys.test_conversation import replies, say, start_thread

LIMIT = "Never spend more than 200 euros."
ORDER = "Order 500 tulip bulbs for 180 euros"
LOOK_BACK = """
from agents.agent.access import visible_to
from agents.models import Agent
from agents.wiring import agent_client
from memory.episodes.session_review import review_session
from openvibe.chat.models import Thread
vibe = Agent.objects.get(workspace__slug="willow", participant__handle="vibe")
thread = Thread.objects.get(title="What it learned")
review_session(agent=vibe.participant, access=visible_to(vibe), thread_id=thread.pk,
               client=agent_client(vibe.participant))
"""


def test_a_constraint_holds_and_a_person_decides(people: People, installation: Installation) -> None:
    model = installation.model
    ana = people.ana()
    ben = people.member("Ben", role="guest")
    start_thread(ana, "Tulips for spring", LIMIT)
    ana.locator("#m-1").hover()
    ana.locator("#m-1").hover()
    ana.locator("#m-1 summary[data-label=More]").click()
    ana.locator("#m-1").get_by_role("link", name="Keep as constraint").click()
    panel = ana.locator("#panel")
    panel.get_by_role("button", name="Keep").click()
    expect(panel.locator(".work-row")).to_contain_text(LIMIT)
    expect(panel.locator(".work-row")).to_contain_text("where it was said")

    model.calls_first("request_approval", what=ORDER, reason="They are gone by May.")
    model.says("I ordered them.")
    say(ana, "@vibe order the bulbs")
    expect(replies(ana)).to_contain_text(f"Vibe is waiting for Ana or another member to decide: {ORDER}")
    assert re.search(rf'source="constraint"[^>]*>\s*{LIMIT}', model.last_prompt)
    expect(panel.get_by_role("heading", name=ORDER)).to_be_visible()

    ben.goto("/w/willow/")
    go_to(ben, "Tulips for spring")
    asked = in_panel(ben, "Work").locator(".approval")
    expect(asked).to_contain_text("A member of the workspace decides this.")
    expect(asked.get_by_role("button")).to_have_count(0)
    assert decided_by_hand(ben, str(asked.get_attribute("id")).removeprefix("approval-")) == 403

    panel.get_by_role("button", name="Grant").click()
    expect(replies(ana)).to_contain_text("I ordered them.")
    expect(replies(ana)).to_have_attribute("data-state", "complete")
    expect(panel).to_contain_text(f"Granted {ORDER}")
    expect(ben.locator("#panel")).to_contain_text("Granted")
    assert re.search(r'state="granted"[^>]*decided_by="Ana"', model.last_prompt)

    constraints = panel.get_by_role("region", name="Constraints")
    constraints.get_by_role("button", name="Drop").press("Enter")
    expect(constraints).to_be_focused()
    todo = ben.locator("#panel").get_by_role("region", name="To do")
    todo.locator("summary").press("Enter")
    todo.get_by_role("textbox").fill("Dig a bed")
    todo.get_by_role("textbox").press("Control+Enter")
    expect(panel).to_contain_text("Dig a bed")  # all of it was shown anew
    expect(constraints).to_be_focused()


def test_what_an_agent_carries_is_written_by_people_and_by_itself(people: People, installation: Installation) -> None:
    model = installation.model
    ana = people.ana()
    ana.goto("/w/willow/agents/vibe/")
    blocks = ana.locator("#agent-blocks")
    blocks.get_by_text("New block", exact=True).click()
    blocks.get_by_label("Label").fill("customers")
    blocks.get_by_label("Content").last.fill("The baker buys roses.")
    blocks.get_by_role("button", name="Create block").click()
    block = blocks.locator("#block-customers")
    expect(block.locator(".soul-text")).to_have_text("The baker buys roses.")
    block.get_by_text("Edit", exact=True).click()
    block.get_by_label("Content").fill("The baker buys roses on Fridays.")
    block.get_by_role("button", name="Save", exact=True).click()
    expect(block).to_contain_text("Version 2")

    start_thread(ana, "What it learned", "Our best customer is the town hall.")
    model.calls_first("update_context_block", label="customers", content="The town hall comes first.", action="append")
    model.says("I will remember that.")
    answer_to(ana, "remember our best customer")
    assert "The baker buys roses on Fridays." in model.last_prompt

    model.says(json.dumps({"proposals": [{"kind": "learning", "text": "The town hall pays late.", "messages": [1]}]}))
    installation.shell(LOOK_BACK)
    model.says("All right.")
    thread = ana.url
    ana.goto("/w/willow/agents/vibe/")
    block.get_by_role("link", name=re.compile("^Version . of customers")).click()
    newest = ana.locator("#panel li").first
    expect(newest).to_contain_text(re.compile(r"Version\s+3\s+current\s+Vibe"))
    expect(newest).to_contain_text("The town hall comes first.")
    expect(ana.locator("#panel li").nth(1)).to_contain_text(re.compile(r"Version\s+2\s+Ana"))

    proposal = ana.get_by_role("listitem").filter(has_text="The town hall pays late.")
    proposal.get_by_role("button", name="Accept").click()
    expect(in_use(ana)).to_have_count(1)
    ana.get_by_text(re.compile(r"^\s*\d+\s+decided\s*$")).click()
    proposal.filter(has_text="Accepted by Ana").get_by_role("button", name="Undo").click()
    expect(ana.get_by_text("The town hall pays late.")).not_to_have_count(0)
    expect(in_use(ana)).to_have_count(0)
    ana.goto(thread)
    answer_to(ana, "who pays late?")
    assert "The town hall comes first." in model.last_prompt
    assert "pays late." not in model.last_prompt


def in_use(page: Page) -> Locator:
    """The learning among the episodes that the agent remembers."""
    return page.locator("section[aria-labelledby=agent-memory] .episode", has_text="The town hall pays late.")


def decided_by_hand(page: Page, approval: str) -> int:
    """The status of a grant that no button offered."""
    return int(
        page.evaluate(
            """async (id) => (await fetch(`/w/willow/approvals/${id}/`, {
                method: "POST", body: new URLSearchParams({ granted: "yes" }),
                headers: JSON.parse(document.body.getAttribute("hx-headers")),
            })).status""",
            approval,
        )
    )
