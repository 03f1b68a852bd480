"""docs/outside_agent.py, run as it stands: mentioned, it answers; told what was wrong, it carries the lesson."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.journeys.installation import Installation
from tests.journeys.test_run_recovery import API_PAUSE, ask, messages
from tests.operations.processes import PATIENCE, wait_until

MAKE_REED = """
from agents.models import Agent
from agents.agent.services import create_agent
from openvibe.chat.models import Channel
from openvibe.chat.services import add_to_channel
from openvibe.workspaces.models import Member
from openvibe.workspaces.queries import member_access
owner = Member.objects.get(role="owner", workspace__slug="willow")
reed = create_agent(by=member_access(owner), workspace=owner.workspace, handle="reed", name="Reed",
                    soul="identity: {name: Reed, role: Counts what it reads}")
Agent.objects.filter(pk=reed.pk).update(answers_itself=True, level=2)
general = Channel.objects.get(workspace=owner.workspace, name="general")
add_to_channel(channel=general, participant=reed.participant, by=member_access(owner))
"""


@pytest.fixture(scope="module")
def reed(installation: Installation) -> Iterator[None]:
    """The script, listening."""
    installation.shell(MAKE_REED)
    settings = {"OPENVIBE_URL": installation.url, "OPENVIBE_TOKEN": installation.token("reed", "read,write,memory")}
    command = [sys.executable, "docs/outside_agent.py"]
    with subprocess.Popen(command, env=settings, stdout=subprocess.PIPE, text=True) as script:
        assert script.stdout is not None
        assert script.stdout.readline() == "@reed listens.\n"
        yield
        assert script.poll() is None, "the script ended"
        script.kill()


def test_it_answers_once_and_learns(installation: Installation, reed: None) -> None:
    token = installation.token("ana")
    thread, _ = ask(installation, token, "@reed what do you read?")

    def answers() -> list[dict[str, Any]]:
        return [m for m in messages(installation, token, thread) if m["author"]["handle"] == "reed"]

    wait_until(lambda: len(answers()) == 1, "the answer", pause=API_PAUSE)
    assert answers()[0]["body"].endswith("carry 0 lessons.")
    installation.api(
        "POST", "feedback/", token, {"message": answers()[0]["id"], "verdict": "down", "text": "Name them."}
    )
    installation.api("POST", f"threads/{thread}/messages/", token, {"body": "@reed and now?"})
    wait_until(lambda: len(answers()) == 2, "the second answer", pause=API_PAUSE)
    assert answers()[1]["body"].endswith("carry 1 lessons.")


def test_it_answers_what_people_ask_for_besides(installation: Installation, reed: None) -> None:
    """Another answer, what is said in its dive without its name, and the draft of the dive's result."""
    token = installation.token("ana")
    thread, question = ask(installation, token, "@reed what do you count?")

    def api(method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        answer: dict[str, Any] = installation.api(method, path, token, body)
        return answer

    def wait_for_answers(thread_id: int, count: int) -> None:
        def answers() -> int:
            return sum(m["author"]["handle"] == "reed" for m in messages(installation, token, thread_id))

        wait_until(lambda: answers() == count, f"answer {count}", pause=API_PAUSE)

    wait_for_answers(thread, 1)
    (run,) = [run for run in api("GET", f"runs/?thread={thread}")["results"] if run["trigger"] == question]
    assert (run["state"], run["agent"]) == ("done", "reed"), "the answer is a run that people can look into"
    api("POST", f"runs/{run['id']}/regenerate/")
    wait_for_answers(thread, 2)

    dive = api("POST", "dives/", {"message": question, "agent": "reed", "body": "And in here?"})
    wait_for_answers(dive["thread"], 1)
    api("POST", f"dives/{dive['id']}/draft/")
    wait_for_answers(dive["thread"], 2)


def test_it_goes_on_when_its_stream_was_cut(installation: Installation, reed: None) -> None:
    token = installation.token("ana")
    thread, _ = ask(installation, token, "@reed are you there?")

    def answer_count() -> int:
        try:
            return sum(m["author"]["handle"] == "reed" for m in messages(installation, token, thread))
        except OSError:  # the server is away
            return -1

    wait_until(lambda: answer_count() == 1, "the answer", pause=API_PAUSE)
    installation.kill("web")
    wait_until(lambda: answer_count() == 1, "the server is back", pause=API_PAUSE)
    installation.api("POST", f"threads/{thread}/messages/", token, {"body": "@reed and now?"})
    wait_until(lambda: answer_count() == 2, "the second answer", pause=API_PAUSE)
    assert [m["author"]["handle"] for m in messages(installation, token, thread)] == ["ana", "reed", "ana", "reed"]


def test_the_official_mcp_client_reads_a_thread_and_answers_in_it(installation: Installation) -> None:
    """The client speaks over real HTTP, in the protocol of today and in that with a handshake; and it is told when a
    token is wrong."""
    vibe, ana = installation.token("vibe", "read,write"), installation.token("ana")
    thread, _ = ask(installation, ana, "What do you read?")

    async def visit(mode: str) -> tuple[str, str]:
        async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {vibe}"}, timeout=PATIENCE) as http:
            server = streamable_http_client(f"{installation.url}/mcp", http_client=http)
            async with Client(server, mode=mode) as client:
                result = await client.call_tool("messages_list", {"thread": thread})
                await client.call_tool("messages_create", {"thread": thread, "body": f"Read by {mode}."})
                return client.protocol_version, result.structured_content["results"][0]["body"]

    with ThreadPoolExecutor(1) as pool:  # in this thread a browser's event loop may run
        auto, legacy = (pool.submit(asyncio.run, visit(mode)).result() for mode in ("auto", "legacy"))
    assert auto == ("2026-07-28", "What do you read?")
    assert legacy == ("2025-11-25", "What do you read?")
    assert [m["body"] for m in messages(installation, ana, thread)][1:] == ["Read by auto.", "Read by legacy."]
    refused = httpx2.post(f"{installation.url}/mcp", json={}, timeout=PATIENCE)
    assert (refused.status_code, "resource_metadata=" in refused.headers["WWW-Authenticate"]) == (401, True)
