"""People go on talking while an agent elsewhere works: it hears them, and they see that it did."""

import re
from typing import Any

from playwright.sync_api import Page, expect

from tests.journeys.conftest import People
from tests.journeys.installation import Installation
from tests.journeys.test_conversation import say, start_thread
from tests.journeys.test_run_recovery import API_PAUSE
from tests.operations.processes import wait_until

MAKE_AGENT = """
from agents.models import Agent
from agents.agent.services import create_agent
from openvibe.chat.models import Channel
from openvibe.chat.services import add_to_channel
from openvibe.workspaces.models import Member
from openvibe.workspaces.queries import member_access
owner = Member.objects.get(role="owner", workspace__slug="willow")
agent = create_agent(by=member_access(owner), workspace=owner.workspace, handle="sedge", name="Sedge",
                     soul="identity: {name: Sedge, role: Plans the beds}")
Agent.objects.filter(pk=agent.pk).update(answers_itself=True, level=2)
add_to_channel(channel=Channel.objects.get(workspace=owner.workspace, name="general"), participant=agent.participant,
               by=member_access(owner))
"""


class Sedge:
    """An agent elsewhere, in the words of a script."""

    def __init__(self, installation: Installation) -> None:
        installation.shell(MAKE_AGENT)
        self.installation, self.token = installation, installation.token("sedge", "read,write")
        self.run, self.length = 0, 0

    def call(self, method: str, path: str, body: object = None) -> Any:
        return self.installation.api(method, path, self.token, body)

    def begin(self) -> None:
        """Takes up what waits, and reads its context."""

        def waiting() -> list[dict[str, Any]]:
            rows: list[dict[str, Any]] = self.call("GET", "runs/?state=queued")["results"]
            return rows

        wait_until(lambda: bool(waiting()), "the question waits", pause=API_PAUSE)
        self.run = self.call("POST", "runs/", {"message": waiting()[0]["trigger"]})["id"]
        self.call("POST", f"runs/{self.run}/context/", {"attempt": 1})

    def write(self, words: str) -> dict[str, Any]:
        piece = {"attempt": 1, "offset": self.length, "body": words}
        state: dict[str, Any] = self.call("PATCH", f"runs/{self.run}/reply/", piece)
        self.length = state["length"]
        return state

    def hear(self) -> dict[str, Any]:
        told: dict[str, Any] = self.call("POST", f"runs/{self.run}/heard/", {"attempt": 1})
        return told

    def finish(self) -> None:
        self.call("POST", f"runs/{self.run}/finish/", {"attempt": 1, "model": "scripted"})


def test_what_others_say_meanwhile_is_heard_and_the_reply_says_so(people: People, installation: Installation) -> None:
    sedge, ana = Sedge(installation), people.ana()
    start_thread(ana, "Beds in spring", "@sedge which beds come first?")
    sedge.begin()
    sedge.write("The south beds come first, ")
    reply = ana.locator('#messages > li[data-handle="sedge"]')
    expect(reply).to_contain_text("The south beds come first")

    nils = people.member("Nils")
    nils.goto(re.sub(r"^https?://[^/]+", "", ana.url))
    expect(nils.get_by_role("heading", name="Beds in spring", level=1)).to_be_visible()
    interrupt = reply.get_by_role("button", name="Interrupt Sedge")
    interrupt.click()
    expect(ana.get_by_text("There is nothing new for Sedge")).to_be_visible()
    say(nils, "The south beds are flooded since Monday.")
    expect(ana.get_by_text("The south beds are flooded since Monday.")).to_be_visible()
    say(ana, "@sedge then without them, please.")
    wait_until(lambda: sedge.write("")["unheard"] == 2, "both were said", pause=API_PAUSE)
    interrupt.click()
    wait_until(lambda: bool(sedge.write("")["interrupt"]), "the program is told", pause=API_PAUSE)

    told = sedge.hear()
    assert (told["interrupt"], len(told["heard"])) == (True, 2)
    assert "flooded since Monday" in told["messages"][0]["content"]
    expect(reply.get_by_text("Heard Nils and Ana meanwhile")).to_be_visible()
    sedge.write("or rather the east beds, as the south is under water.")
    sedge.finish()
    expect(reply).to_have_attribute("data-state", "complete")
    expect(reply.get_by_text("Heard Nils and Ana meanwhile")).to_be_visible()
    expect(reply.get_by_role("button", name="Interrupt Sedge")).to_be_hidden()
    expect(ana.locator('#messages > li[data-handle="sedge"]')).to_have_count(1)
    _see_what_it_read(ana)


def _see_what_it_read(ana: Page) -> None:
    """What it was told meanwhile stands in what it saw."""
    reply = ana.locator('#messages > li[data-handle="sedge"]')
    reply.get_by_role("link", name=re.compile("Why this answer")).first.click()
    expect(ana.get_by_text("2 messages posted after the request").first).to_be_visible()
