"""The page Connect an agent in a real browser: a form, one line, a program that joins, and its first words."""

import json
import re
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

import httpx2
from playwright.sync_api import expect

from tests.journeys.conftest import People
from tests.journeys.installation import Installation

PATIENCE = 120.0


def answer_once(url: str, line: str, *, may_listen: Event, may_end: Event) -> str:
    """A program that joins with the line's code, hears one question, says a word, and ends once it may. Its handle."""
    code = line.split(" join ")[1].split()[0]
    with httpx2.Client(base_url=f"{url}/api/v1/", timeout=PATIENCE) as api:

        def call(method: str, path: str, **body: Any) -> Any:
            answer = api.request(method, path, json=body or None)
            answer.raise_for_status()
            return answer.json()

        joined = call("POST", "join/", code=code, host="reed-laptop", command="goose", client="a script")
        assert api.post("join/", json={"code": code}).status_code == 400
        api.headers["Authorization"] = f"Bearer {joined['token']}"
        may_listen.wait(PATIENCE)
        with api.stream("GET", "events/?include=data&kind=message_posted&kind=mention") as events:
            data = (json.loads(text[6:]) for text in events.iter_lines() if text.startswith("data: {"))
            message = next(each["message"] for each in data if each.get("message"))
        number = message if isinstance(message, int) else message["id"]
        run = call("POST", "runs/", message=number)
        call("POST", f"runs/{run['id']}/context/", attempt=run["attempt"])
        call("PATCH", f"runs/{run['id']}/reply/", attempt=run["attempt"], offset=0, body="In late winter")
        may_end.wait(PATIENCE)
        call("POST", f"runs/{run['id']}/finish/", attempt=run["attempt"], body="In late winter, in dry weather.")
        handle: str = joined["handle"]
        return handle


def test_a_program_joins_with_one_line_and_answers(people: People, installation: Installation) -> None:
    may_listen, may_end = Event(), Event()
    page = people.ana()
    page.goto("/w/willow/settings/agents/")
    page.get_by_role("link", name="Connect an agent").click()
    page.get_by_label("Name", exact=True).fill("Reed")
    page.get_by_label("Handle").fill("joined-reed")
    page.get_by_label("What is it for?").fill("Reviews what we change in the shop")
    other = page.get_by_label("Another command")
    expect(other).to_be_hidden()
    page.get_by_label("Which command").select_option("Another command")
    other.fill("goose --quiet")
    page.get_by_role("checkbox", name="#general").check()
    page.get_by_label(re.compile("L2 Advisor")).check()
    page.get_by_role("button", name="Show me the line").click()
    expect(page.get_by_text("Waiting for Reed.")).to_be_visible()
    line = page.get_by_label("The line to paste", exact=True).input_value()
    assert line.startswith(f"uvx --from {installation.url}/client/openvibe_client-")
    assert line.endswith(f"--url {installation.url} -- goose --quiet")
    assert httpx2.get(line.split()[2]).content.startswith(b"PK")

    with ThreadPoolExecutor(1) as program:
        joining = program.submit(answer_once, installation.url, line, may_listen=may_listen, may_end=may_end)
        try:
            expect(page.get_by_text("goose on reed-laptop has joined")).to_be_visible()
            may_listen.set()
            expect(page.get_by_role("heading", name="Reed is here")).to_be_visible()
            page.get_by_role("link", name="Talk to Reed").click()
            page.get_by_label("Message to Reed").fill("When do we prune?")
            page.get_by_role("button", name="Send").click()
            expect(page.locator("#messages")).to_contain_text("In late winter")
            at_work = page.locator("#at-work")
            expect(at_work).to_contain_text("Reed")
            may_end.set()
            expect(page.locator("#messages")).to_contain_text("In late winter, in dry weather.")
            expect(at_work).not_to_contain_text("Reed")
        finally:
            may_listen.set()
            may_end.set()
        assert joining.result(PATIENCE) == "joined-reed"
    page.goto("/w/willow/tokens/")
    expect(page.get_by_role("strong").filter(has_text="goose on reed-laptop")).to_be_visible()
