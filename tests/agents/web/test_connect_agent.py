"""The page Connect an agent: from a form to one line, and what it says until the program is there."""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from agents.agent.services import deactivate_agent
from agents.connect.join_codes import use_join_code
from agents.models import Agent, JoinCode
from openvibe.api.auth import authenticate_token
from openvibe.api.models import Token
from openvibe.workspaces.models import Member
from openvibe.workspaces.services import update_member_role
from tests.factories import access, make_channel, signed_in

FORM = {"name": "Reed", "purpose": "Reviews the shop", "known": "codex", "level": "2"}


def connect(member: Member, **change: Any) -> Any:
    return signed_in(member).post(f"/w/{member.workspace.slug}/connect-agent/", {**FORM, **change})


def page_of(member: Member, handle: str = "reed") -> str:
    answer = signed_in(member).get(f"/w/{member.workspace.slug}/agents/{handle}/connect/")
    assert answer.status_code == 200
    return " ".join(answer.content.decode().split())


def test_from_the_form_to_here(ana: Member) -> None:
    channel = make_channel(ana, "shop")
    answer = connect(ana, channels=[channel.pk])
    assert answer["Location"] == f"/w/{ana.workspace.slug}/agents/reed/connect/"
    reed = Agent.objects.get(participant__handle="reed")
    assert (reed.level, reed.answers_itself, list(reed.participant.channels.all())) == (2, True, [channel])

    page = page_of(ana)
    line = re.search(r'value="(uvx [^"]+)"', page)
    assert line is not None
    code = re.search(r"join (\S+) --url http://testserver -- codex$", line[1])
    assert code is not None
    assert "Waiting for Reed" in page

    joined = use_join_code(code=code[1], host="laptop", command="codex")
    page = page_of(ana)
    assert "codex on laptop has joined" in page
    assert code[1] not in page
    assert authenticate_token(joined.secret) is not None
    page = page_of(ana)
    assert "Reed is here" in page
    assert f"?to={reed.participant_id}" in page
    tokens = signed_in(ana).get(f"/w/{ana.workspace.slug}/tokens/").content.decode()
    assert "codex on laptop" in tokens

    Token.objects.update(last_used_at=timezone.now() - timedelta(hours=1))
    assert "is not connected, and was last heard" in page_of(ana)


def test_a_code_that_was_not_used_in_time_and_a_fresh_one(ana: Member) -> None:
    connect(ana)
    JoinCode.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    page = page_of(ana)
    assert "was not used within 10 minutes" in page
    assert "uvx" not in page
    address = f"/w/{ana.workspace.slug}/agents/reed/connect/"
    assert signed_in(ana).post(address, {"known": "other", "command": "my-agent --fast"}).status_code == 302
    assert "-- my-agent --fast" in page_of(ana)


def test_a_code_is_shown_to_its_maker_alone(ana: Member, dora: Member) -> None:
    update_member_role(member=dora, role="admin", by=access(ana))
    connect(ana)
    page = page_of(dora)
    assert "<bdi>Ana</bdi> made a code" in page
    assert JoinCode.objects.get().code not in page


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"name": ""}, "This field is required"),
        ({"name": "x" * 10_000}, "at most 80"),
        ({"name": "!?"}, "no letter a–z"),
        ({"handle": "vibe"}, "@vibe is taken"),
        ({"purpose": "x" * 10_000}, "at most 300"),
        ({"known": "other"}, "Write the command"),
        ({"known": "other", "command": "claude '"}, "quotation mark"),
        ({"known": "other", "command": "x" * 10_000}, "at most 200"),
        ({"known": "emacs"}, "Select a valid choice"),
        ({"level": "7"}, "Select a valid choice"),
        ({"channels": ["987654"]}, "Select a valid choice"),
        ({"channels": ["x"]}, "is not a valid value"),
    ],
)
def test_what_cannot_be_connected_says_why_and_keeps_what_was_typed(
    ana: Member, vibe: Agent, change: dict[str, object], words: str
) -> None:
    answer = connect(ana, **change)
    assert 400 <= answer.status_code < 500
    page = answer.content.decode()
    assert words in page
    assert change.keys() & {"purpose"} or "Reviews the shop" in page
    assert not Agent.objects.exclude(pk=vibe.pk).exists()


def test_only_owners_and_admins(ana: Member, dora: Member, vibe: Agent) -> None:
    for address in ("connect-agent/", "agents/vibe/connect/"):
        for ask in (signed_in(dora).get, signed_in(dora).post):
            assert ask(f"/w/{dora.workspace.slug}/{address}").status_code == 403
    assert "Connect its program" not in signed_in(dora).get(f"/w/{dora.workspace.slug}/agents/vibe/").content.decode()


def test_agents_that_no_program_can_join_as(ana: Member, vibe: Agent) -> None:
    address = f"/w/{ana.workspace.slug}/agents/vibe/connect/"
    assert "OpenVibe answers for <bdi>Vibe</bdi>" in page_of(ana, "vibe")
    assert signed_in(ana).post(address, {"known": "claude"}).status_code == 409
    Agent.objects.update(answers_itself=True)
    assert "A fresh code" in page_of(ana, "vibe")
    deactivate_agent(agent=vibe, by=access(ana))
    assert "Vibe is deactivated" in page_of(ana, "vibe")
    assert signed_in(ana).post(address, {"known": "claude"}).status_code == 409
    assert not JoinCode.objects.exists()


def test_pages_of_an_agent_that_runs_elsewhere_name_no_model_of_ours(ana: Member) -> None:
    connect(ana)
    for address in ("agents/reed/", "settings/agents/", "agents/reed/connect/"):
        page = signed_in(ana).get(f"/w/{ana.workspace.slug}/{address}").content.decode()
        assert "the workspace's default" not in page
        assert "Its program was never connected" in page or "Waiting for Reed" in page
