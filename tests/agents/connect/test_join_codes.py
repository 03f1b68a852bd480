"""Codes that agents' programs join with: once, in time, and only what their maker may give."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import IntegrityError, connection
from django.utils import timezone

from agents.agent.services import create_connected_agent, deactivate_agent, update_answering
from agents.connect.join_codes import (
    JOIN_SCOPES,
    check_command,
    create_join_code,
    join_lines,
    token_name,
    use_join_code,
)
from agents.models import Agent, JoinCode
from openvibe.api.auth import authenticate_token
from openvibe.api.models import Token
from openvibe.base.models import AuditRecord
from openvibe.base.problems import Conflict, Problem, Refused
from openvibe.chat.services import add_to_channel, remove_from_channel
from openvibe.workspaces.models import Member
from openvibe.workspaces.services import update_member_role
from tests.concurrency import at_once
from tests.factories import access, make_channel, make_member


@pytest.fixture
def reed(ana: Member) -> Agent:
    return create_connected_agent(by=access(ana), workspace=ana.workspace, name="Reed", purpose="Reviews the shop")


def refusal(code: str) -> str:
    with pytest.raises(Problem) as caught:
        use_join_code(code=code)
    return caught.value.code


def test_a_code_becomes_a_token_of_the_agent(ana: Member, reed: Agent) -> None:
    code = create_join_code(agent=reed, by=access(ana), command="claude --verbose")
    joined = use_join_code(code=code.code, host="reed-laptop", command="claude", client="openvibe-client 0.1.0")
    caller = authenticate_token(joined.secret)
    assert caller is not None
    assert (caller.participant.pk, caller.scopes) == (reed.participant_id, frozenset(JOIN_SCOPES))
    token = Token.objects.get(participant=reed.participant)
    assert (token.name, token.made_by_id, token.expires_at) == ("claude on reed-laptop", ana.participant_id, None)
    rows = AuditRecord.objects.filter(subject__contains="@reed").order_by("pk").values_list("actor_id", "after")
    assert [after for _, after in rows][-3:] == [
        "a code to join with, for 10 minutes",
        "made, for read, write, memory, knowledge",
        "joined by code: claude on reed-laptop",
    ]
    assert {actor for actor, _ in rows} == {ana.participant_id}


def test_only_a_digest_is_kept(ana: Member, reed: Agent) -> None:
    code = create_join_code(agent=reed, by=access(ana))
    with connection.cursor() as cursor:
        cursor.execute("SELECT c::text FROM agents_joincode c")
        ((row,),) = cursor.fetchall()
    assert code.code not in row
    assert code.code.replace("-", "") not in row
    assert JoinCode.objects.get().code == code.code  # worked out again, with the server's key


@pytest.mark.parametrize("write", [str.lower, lambda code: code.replace("-", " "), lambda code: f" {code}\n"])
def test_it_is_taken_as_people_write_it(ana: Member, reed: Agent, write: object) -> None:
    code = create_join_code(agent=reed, by=access(ana))
    assert callable(write)
    assert use_join_code(code=write(code.code)).agent == reed


def test_used_late_replaced_and_wrong_ones_are_refused(ana: Member, reed: Agent) -> None:
    first = create_join_code(agent=reed, by=access(ana))
    second = create_join_code(agent=reed, by=access(ana))
    with pytest.raises(Problem, match="a newer one took its place"):
        use_join_code(code=first.code)
    JoinCode.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    with pytest.raises(Problem, match="too late: it held 10 minutes"):
        use_join_code(code=second.code)
    third = create_join_code(agent=reed, by=access(ana))
    use_join_code(code=third.code)
    with pytest.raises(Problem, match="used already"):
        use_join_code(code=third.code)
    assert [refusal(code) for code in ("", "x", "🦊" * 40, "\x00", "A" * 10_000)] == ["bad_code"] * 5
    assert Token.objects.filter(participant=reed.participant).count() == 1


def test_an_agent_that_changed_between_code_and_joining(ana: Member, reed: Agent) -> None:
    code = create_join_code(agent=reed, by=access(ana))
    update_answering(agent=reed, by=access(ana), answers_itself=False)
    assert refusal(code.code) == "answered_here"
    update_answering(agent=reed, by=access(ana), answers_itself=True)
    deactivate_agent(agent=reed, by=access(ana))
    assert refusal(code.code) == "agent_inactive"
    assert JoinCode.objects.get().used_at is None
    with pytest.raises(Conflict, match="deactivated"):
        create_join_code(agent=reed, by=access(ana))


def test_who_may_not_make_tokens_of_it_makes_no_code(ana: Member, dora: Member, reed: Agent) -> None:
    with pytest.raises(Refused):
        create_join_code(agent=reed, by=access(dora))
    update_member_role(member=dora, role="admin", by=access(ana))
    room = make_channel(ana, "board", private=True)
    code = create_join_code(agent=reed, by=access(dora))
    add_to_channel(channel=room, participant=reed.participant, by=access(ana))
    with pytest.raises(Refused, match="private channel that you are not in"):
        create_join_code(agent=reed, by=access(dora))
    assert refusal(code.code) == "maker_may_not"
    remove_from_channel(channel=room, participant=reed.participant, by=access(ana))
    update_member_role(member=dora, role="member", by=access(ana))
    assert refusal(code.code) == "maker_may_not"
    with pytest.raises(Refused):
        create_join_code(agent=reed, by=access(make_member("Zoe")))


@pytest.mark.django_db(transaction=True)
def test_of_two_programs_with_one_code_one_joins(ana: Member, reed: Agent) -> None:
    code = create_join_code(agent=reed, by=access(ana)).code
    calls = [lambda: use_join_code(code=code) for _ in range(3)]
    assert at_once(*calls) == ["bad_code", "bad_code", "done"]
    assert Token.objects.filter(participant=reed.participant).count() == 1


@pytest.mark.django_db(transaction=True)
def test_fresh_codes_and_joining_at_once_wait_for_one_another(ana: Member, reed: Agent) -> None:
    code = create_join_code(agent=reed, by=access(ana)).code
    outcomes = at_once(
        lambda: use_join_code(code=code),
        lambda: create_join_code(agent=reed, by=access(ana)),
        lambda: create_join_code(agent=reed, by=access(ana)),
    )
    assert outcomes.count("done") >= 2
    assert JoinCode.objects.filter(used_at=None).count() == 1


def test_the_database_knows_no_token_of_an_unused_code(ana: Member, reed: Agent) -> None:
    code = create_join_code(agent=reed, by=access(ana))
    use_join_code(code=code.code)
    with pytest.raises(IntegrityError):
        JoinCode.objects.update(used_at=None)


def test_the_lines_name_the_server_and_the_command(ana: Member, reed: Agent) -> None:
    code = create_join_code(agent=reed, by=access(ana), command="my-agent --name 'Old Reed' $HOME;ls")
    lines = join_lines(code, "https://vibe.example/")
    end = f"openvibe join {code.code} --url https://vibe.example -- my-agent --name 'Old Reed' '$HOME;ls'"
    wheel = "https://vibe.example/client/openvibe_client-"
    assert lines.uv.startswith(f"uvx --from {wheel}")
    assert lines.uv.endswith(f".whl {end}")
    assert lines.pip.startswith(f"pip install {wheel}")
    assert lines.pip.endswith(f".whl && {end}")


@pytest.mark.parametrize("command", ["", "  ", "a\nb", "a\u202eb", "\x00", "claude 'x", "x" * 201])
def test_what_is_no_command(command: str) -> None:
    with pytest.raises(Problem) as caught:
        check_command(command)
    assert (caught.value.code, caught.value.field) == ("bad_command", "command")


@pytest.mark.parametrize(
    ("command", "host", "name"),
    [
        ("claude", "reed-laptop", "claude on reed-laptop"),
        ("/usr/local/bin/codex --api-key sk-secret", "", "codex"),
        ("npx --yes @agentclientprotocol/codex-acp", "box", "@agentclientprotocol/codex-acp on box"),
        ("env KEY=sk-secret python -m agent", "a\u202eb\n", "agent on a b"),
        ("'unclosed", "h", "'unclosed on h"),
        ("--", "h", "program on h"),
        ("x" * 400, "h" * 200, f"{'x' * 36} on {'h' * 40}"),
    ],
)
def test_a_token_is_named_after_program_and_machine(command: str, host: str, name: str) -> None:
    assert token_name(command, host) == name


def test_an_agent_is_made_whole_or_not_at_all(ana: Member, reed: Agent) -> None:
    by, before = access(ana), Agent.objects.count()
    wrongs: tuple[dict[str, Any], ...] = (
        {"name": "Reed"},
        {"name": "!"},
        {"name": "Moss", "level": 5},
        {"name": "Moss", "purpose": "x" * 301},
    )
    for wrong in wrongs:
        with pytest.raises(Problem):
            create_connected_agent(**{"by": by, "workspace": ana.workspace, "purpose": "y", "name": "", **wrong})
    assert Agent.objects.count() == before
    channel = make_channel(ana, "shop")
    fern = create_connected_agent(
        by=by, workspace=ana.workspace, name="Old Fern", purpose="Knows", level=3, channels=[channel]
    )
    assert (fern.handle, fern.level, fern.answers_itself) == ("old-fern", 3, True)
    assert list(fern.participant.channels.all()) == [channel]
