"""docs/outside_agent.py, run as it stands: mentioned, it answers; told what was wrong, it carries the lesson."""

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.journeys.installation import Installation
from tests.journeys.test_run_recovery import ask, messages
from tests.operations.processes import wait_until

MAKE_REED = """
from agents.models import Agent
from agents.services import create_agent
from openvibe.chat.models import Channel
from openvibe.chat.services import add_to_channel
from openvibe.workspaces.models import Member
from openvibe.workspaces.queries import member_access
owner = Member.objects.get(role="owner", workspace__slug="willow")
reed = create_agent(by=member_access(owner), workspace=owner.workspace, handle="reed", name="Reed",
                    soul="identity: {name: Reed, role: Counts what it reads}")
Agent.objects.filter(pk=reed.pk).update(answers_itself=True)
add_to_channel(channel=Channel.objects.get(name="general"), participant=reed.participant, by=member_access(owner))
"""


@pytest.fixture
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

    wait_until(lambda: len(answers()) == 1, "the answer")
    assert answers()[0]["body"].endswith("carry 0 lessons.")
    installation.api(
        "POST", "feedback/", token, {"message": answers()[0]["id"], "verdict": "down", "text": "Name them."}
    )
    installation.api("POST", f"threads/{thread}/messages/", token, {"body": "@reed and now?"})
    wait_until(lambda: len(answers()) == 2, "the second answer")
    assert answers()[1]["body"].endswith("carry 1 lessons.")
