"""An agent elsewhere asks before it acts: the card at its message and in *Work*, what people answer, what it did."""

from typing import Any

from playwright.sync_api import Locator, Page, expect

from tests.journeys.conftest import People
from tests.journeys.installation import Installation
from tests.journeys.test_accessibility import SIGHTS, look
from tests.journeys.test_conversation import start_thread
from tests.journeys.test_late_answers import WIDE, thread_of
from tests.operations.processes import wait_until

MAKE_WREN = """
from agents.models import Agent
from agents.agent.services import create_agent
from openvibe.chat.models import Channel
from openvibe.chat.services import add_to_channel
from openvibe.workspaces.models import Member
from openvibe.workspaces.queries import member_access
owner = Member.objects.get(role="owner", workspace__slug="willow")
wren = create_agent(by=member_access(owner), workspace=owner.workspace, handle="wren", name="Wren",
                    soul="identity: {name: Wren, role: Mends what is broken}")
Agent.objects.filter(pk=wren.pk).update(answers_itself=True, level=3)
general = Channel.objects.get(workspace=owner.workspace, name="general")
add_to_channel(channel=general, participant=wren.participant, by=member_access(owner))
"""

DIFF = "--- a/beds.py\n+++ b/beds.py\n@@ -1,3 +1,3 @@\n MULCH = True\n-LITRES = 40\n+LITRES = 60\n DAYS = 7\n"


class Wren:
    """A program that an agent runs elsewhere, as far as the API sees it."""

    def __init__(self, installation: Installation, message: int, handle: str = "wren") -> None:
        self.installation, self.token = installation, installation.token(handle)
        self.run = self._send("POST", "runs/", {"message": message})["id"]

    def _send(self, method: str, path: str, body: object = None) -> Any:
        return self.installation.api(method, path, self.token, body)

    def send(self, method: str, path: str, **body: object) -> Any:
        return self._send(method, f"runs/{self.run}/{path}/", {"attempt": 1, **body})

    def ask(self, key: str, **body: object) -> str:
        return str(self.send("POST", "permissions", key=key, **body)["state"])

    def answer(self, key: str) -> tuple[str, str, str]:
        """State, scope and note, once it is answered."""

        def read() -> dict[str, str]:
            answer: dict[str, str] = self._send("GET", f"runs/{self.run}/permissions/{key}/")
            return answer

        wait_until(lambda: read()["state"] != "waiting", f"the answer to {key}", pause=0.1)
        return read()["state"], read()["scope"], read()["note"]


def card(page: Page, words: str) -> Locator:
    return page.locator("#messages .run-permission").filter(has_text=words)


def test_an_agent_asks_and_people_answer(people: People, installation: Installation) -> None:
    installation.shell(MAKE_WREN)
    ana = people.ana(viewport=WIDE)
    start_thread(ana, "Mend the beds", "@wren mend the beds")
    expect(ana.locator('body[data-live="on"]')).to_be_attached()
    rows = installation.api("GET", f"threads/{thread_of(ana)}/messages/", installation.token("ana"))["results"]
    wren = Wren(installation, rows[0]["id"])
    wren.send("PUT", "plan", entries=[{"content": "Look", "status": "completed"}, {"content": "Mend the beds"}])

    assert wren.ask("look", kind="read", title="Read beds.py", paths=["beds.py"]) == "allowed"
    assert wren.ask("run", kind="execute", title="Run the tests", command="pytest -q \u202etset") == "waiting"
    asked = card(ana, "Run the tests")
    expect(asked).to_contain_text("pytest -q \\u202etset")
    expect(ana.locator(".run-words")).to_contain_text("Wren is waiting for")
    expect(ana.locator(".run-plan")).to_have_text("Plan: 1 of 2 done")
    look_over(ana, "asks")
    asked.get_by_role("button", name="Allow once").click()
    assert wren.answer("run") == ("allowed", "once", "")
    expect(asked).to_have_count(0)

    outside = {"paths": ["/home/me/beds/beds.py", "/etc/hosts"], "folder": "/home/me/beds", "diff": DIFF}
    assert wren.ask("edit", kind="edit", title="More mulch", **outside) == "waiting"
    asked = card(ana, "More mulch")
    expect(asked).to_contain_text("outside its folder")
    expect(asked.locator(".diff-add")).to_have_text("+LITRES = 60")
    asked.get_by_label("Note").first.fill("Sixty is too")
    wren.send("POST", "steps", key="note", kind="note", text="It waits")
    expect(ana.locator(".run-now")).to_contain_text("It waits")
    expect(asked.get_by_label("Note").first).to_have_value("Sixty is too")
    asked.get_by_label("Note").first.fill("Sixty is too much")
    look_over(ana, "change")
    asked.get_by_role("button", name="Deny").click()
    assert wren.answer("edit") == ("denied", "", "Sixty is too much")
    assert wren.ask("edit-2", kind="edit", title="More mulch", **outside) == "denied", (
        "the same call is not asked again"
    )

    assert wren.ask("always", kind="execute", title="Run them again", command="pytest -q") == "waiting"
    ana.locator(".feed-tools").get_by_role("link", name="Work").click()
    panel = ana.locator("#panel #work")
    expect(panel.locator(".agent-plan")).to_contain_text("1 of 2 done")
    in_work = panel.locator(".approval")
    expect(in_work).to_contain_text("Run them again")
    in_work.get_by_text("Always for Wren here").click()
    in_work.get_by_label("Commands").fill("pytest *")
    look_over(ana, "always")
    in_work.get_by_role("button", name="Always allow").click()
    assert wren.answer("always") == ("allowed", "always", "")
    assert wren.ask("always-2", kind="execute", title="And again", command="pytest -x") == "allowed"
    assert wren.ask("chained", kind="execute", title="And more", command="pytest -x; rm -rf beds") == "waiting"
    wren.send("PATCH", "reply", offset=0, body="The beds are mended.")
    files = [{"path": "beds.py", "diff": DIFF}, {"path": "notes.md", "diff": "+Mended\n"}]
    wren.send("POST", "steps", key="edit", kind="tool", tool="Edit", tool_kind="edit", text="Changed beds", files=files)
    wren.send("POST", "finish", body="The beds are mended.")

    assert wren.answer("chained")[0] == "denied"
    expect(card(ana, "And more")).to_have_count(0)
    changed = ana.locator("#messages .run-files")
    expect(changed.locator("summary").first).to_have_text("2 files changed")
    changed.locator("summary").first.click()
    changed.locator(".changed-file summary").first.click()
    expect(changed.locator(".diff-del")).to_have_text("-LITRES = 40")
    look_over(ana, "files")
    steps = ana.locator("#messages .run-steps")
    steps.locator("summary").click()
    expect(steps).to_contain_text("Was denied: More mulch")
    expect(steps).to_contain_text("Ana denied this. Note: Sixty is too much")
    look_over(ana, "steps")
    ana.goto("/w/willow/agents/wren/tools/")
    expect(ana.locator(".work-row")).to_contain_text("pytest *")
    look_over(ana, "rules")
    ana.locator(".work-row").get_by_role("button", name="Delete").click()
    expect(ana.locator(".work-row")).to_have_count(0)


def look_over(page: Page, state: str) -> None:
    for sight in SIGHTS:
        look(page, sight, state)
    page.set_viewport_size(WIDE)
