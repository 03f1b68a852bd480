"""Agents made by calls, codes for their programs, and joining without a sign-in."""

import pytest

from agents.agent.services import set_trust_level
from agents.models import Agent, JoinCode
from openvibe.api.throttles import AddressThrottle, network_of
from openvibe.chat.services import open_direct_messages
from openvibe.workspaces.models import Member
from tests.api.client import Api, is_problem
from tests.api.conftest import Enter
from tests.factories import access, make_channel, make_member

REED = {"name": "Reed", "purpose": "Reviews what we change in the shop"}


def test_from_nothing_to_a_program_that_is_in(ana: Member, by_token: Enter, nobody: Api) -> None:
    api, channel = by_token(ana.participant), make_channel(ana, "shop")
    made = api.post("agents/", {**REED, "level": 2, "channels": [channel.pk]})
    assert made.status_code == 201
    assert (made.json()["handle"], made.json()["level"], made.json()["answers_itself"]) == ("reed", 2, True)
    code = api.post("agents/reed/join-codes/", {"command": "codex"})
    assert code.status_code == 201
    assert code.json()["line"].endswith(f"openvibe join {code.json()['code']} --url http://testserver -- codex")

    joined = nobody.post("join/", {"code": code.json()["code"], "host": "box", "command": "codex", "client": "0.1.0"})
    assert joined.status_code == 201
    answer = joined.json()
    token = answer.pop("token")
    assert answer == {
        "url": "http://testserver",
        "handle": "reed",
        "name": "Reed",
        "workspace": ana.workspace.slug,
        "permission_minutes": 15,
        "run_minutes": 240,
    }
    me = nobody.get("me/", Authorization=f"Bearer {token}").json()
    assert (me["participant"]["handle"], me["level"]) == ("reed", 2)
    assert [row["name"] for row in nobody.get("channels/", Authorization=f"Bearer {token}").json()["results"]] == [
        "shop"
    ]
    assert is_problem(nobody.post("join/", {"code": code.json()["code"]}), 400, "bad_code")


@pytest.mark.parametrize(
    ("body", "code", "field"),
    [
        ({}, "invalid", "code"),
        ({"code": ""}, "invalid", "code"),
        ({"code": None}, "invalid", "code"),
        ({"code": ["A"]}, "invalid", "code"),
        ({"code": "A" * 10_000}, "invalid", "code"),
        ({"code": "7K3M-QX2P-9RTD"}, "bad_code", "code"),
        ({"code": "7K3M-QX2P-9RTD", "host": "h" * 10_000}, "invalid", "host"),
        ({"code": "7K3M-QX2P-9RTD", "url": "x"}, "invalid", "url"),
    ],
)
def test_what_lets_nobody_in(db: None, nobody: Api, body: dict[str, object], code: str, field: str) -> None:
    answer = nobody.post("join/", body)
    assert is_problem(answer, 400, code)
    assert answer.json()["field"] == field


def test_guessing_is_slowed_down_by_address(db: None, nobody: Api) -> None:
    answers = [
        nobody.post("join/", {"code": "7K3M-QX2P-9RTD"}) for _ in range(2 * AddressThrottle.calls_per_minute + 1)
    ]
    assert {answer.status_code for answer in answers} == {400, 429}
    assert int(answers[-1]["Retry-After"]) >= 1


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("2001:db8::1", "2001:db8::/64"),
        ("2001:db8::ffff:1", "2001:db8::/64"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("unknown", "unknown"),
    ],
)
def test_a_network_of_ipv6_counts_as_one(address: str, network: str) -> None:
    assert network_of(address) == network


def test_a_level_changed_meanwhile_holds_for_who_joins(ana: Member, by_token: Enter, nobody: Api) -> None:
    api = by_token(ana.participant)
    api.post("agents/", {**REED, "level": 3})
    code = api.post("agents/reed/join-codes/").json()["code"]
    set_trust_level(agent=Agent.objects.get(participant__handle="reed"), by=access(ana), level=1, note="Wait.")
    token = nobody.post("join/", {"code": code}).json()["token"]
    assert nobody.get("me/", Authorization=f"Bearer {token}").json()["level"] == 1


@pytest.mark.parametrize(
    ("change", "status", "code"),
    [
        ({"name": ""}, 400, "bad_name"),
        ({"name": "x" * 10_000}, 400, "bad_name"),
        ({"name": "!?"}, 400, "bad_handle"),
        ({"name": 7.5}, 409, ""),
        ({"name": ["Reed"]}, 400, "invalid"),
        ({"handle": "vibe"}, 409, "conflict"),
        ({"handle": "no such\nhandle"}, 400, "bad_handle"),
        ({"purpose": ""}, 400, "bad_purpose"),
        ({"purpose": "x" * 10_000}, 400, "bad_purpose"),
        ({"description": "word " * 10_000}, 400, "bad_soul"),
        ({"level": 5}, 400, "invalid"),
        ({"level": "high"}, 400, "invalid"),
        ({"channels": [987654]}, 404, "not_found"),
        ({"channels": "general"}, 400, "invalid"),
        ({"channels": [0]}, 400, "invalid"),
        ({"model": "sage"}, 400, "invalid"),
    ],
)
def test_agents_that_cannot_be_made(
    ana: Member, vibe: Agent, by_token: Enter, change: dict[str, object], status: int, code: str
) -> None:
    answer = by_token(ana.participant).post("agents/", {**REED, **change})
    if not code:  # a number is taken as text
        assert answer.status_code == 201
        return
    assert is_problem(answer, status, code)
    assert not Agent.objects.exclude(pk=vibe.pk).exists()


def test_no_agent_is_put_where_two_talk_alone_or_where_its_maker_reads_nothing(
    ana: Member, dora: Member, vibe: Agent, by_token: Enter
) -> None:
    thread, _ = open_direct_messages(by=access(ana), recipient=dora.participant)
    board = make_channel(dora, "board", private=True)
    for channel_id in (thread.channel_id, board.pk):
        answer = by_token(ana.participant).post("agents/", {**REED, "channels": [channel_id]})
        assert 400 <= answer.status_code < 500
    assert not Agent.objects.exclude(pk=vibe.pk).exists()


def test_who_may_not(ana: Member, dora: Member, vibe: Agent, by_token: Enter) -> None:
    for caller in (by_token(dora.participant), by_token(vibe.participant)):
        assert is_problem(caller.post("agents/", REED), 403, "not_allowed")
        assert is_problem(caller.post("agents/vibe/join-codes/"), 403, "not_allowed")
    narrow = by_token(ana.participant, ("read", "write"))
    assert is_problem(narrow.post("agents/", REED), 403, "missing_scope")
    assert is_problem(narrow.post("agents/vibe/join-codes/"), 403, "missing_scope")
    assert is_problem(
        by_token(make_member("Zoe", role="owner").participant).post("agents/vibe/join-codes/"), 404, "not_found"
    )
    api = by_token(ana.participant)
    assert is_problem(api.post("agents/vibe/join-codes/"), 409, "answered_here")
    assert is_problem(api.post("agents/vibe/join-codes/", {"command": 'claude "'}), 400, "bad_command")
    assert not JoinCode.objects.exists()


def test_the_same_call_twice_makes_one(ana: Member, by_token: Enter) -> None:
    api = by_token(ana.participant)
    answers = [api.post("agents/", REED, Idempotency_Key="reed-1") for _ in range(2)]
    assert [answer.status_code for answer in answers] == [201, 201]
    assert answers[0].json() == answers[1].json()
    assert is_problem(api.post("agents/", REED), 409, "conflict")
