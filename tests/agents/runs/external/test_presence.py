"""The presence of agents: working where the asker reads, idle, or not connected since when; told to open pages."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from agents.agent.services import deactivate_agent
from agents.models import Agent, Run
from agents.runs.external.presence import Presence, notify_silent, read_presences
from openvibe.api.auth import CONNECTED_SECONDS, authenticate_token
from openvibe.api.models import Token
from openvibe.api.services import issue_token
from openvibe.base.models import Event
from openvibe.chat.models import Thread
from openvibe.chat.queries import read_at_work
from openvibe.webhooks.models import Delivery, Webhook
from openvibe.webhooks.services import create_webhook, send_test
from openvibe.workspaces.models import Member
from tests.factories import access, make_agent, make_channel, make_thread, say, signed_in


def presence(agent: Agent, member: Member) -> Presence:
    return read_presences([Agent.objects.get(pk=agent.pk)], access(member))[agent.pk]


@pytest.fixture
def reed(ana: Member, thread: Thread) -> Agent:
    agent = make_agent(ana, "reed", channel=thread.channel)
    Agent.objects.filter(pk=agent.pk).update(answers_itself=True)
    return agent


def sidebar(member: Member) -> str:
    return " ".join(signed_in(member).get(f"/w/{member.workspace.slug}/sidebar/").content.decode().split())


def test_a_program_is_there_while_it_is_heard(ana: Member, reed: Agent) -> None:
    assert presence(reed, ana).state == "never"
    assert "not connected" in sidebar(ana)
    token, secret = issue_token(participant=reed.participant, name="x", scopes=["read"])
    assert authenticate_token(secret) is not None
    assert presence(reed, ana).state == "idle"
    assert "not connected" not in sidebar(ana)
    heard_at = timezone.now() - timedelta(seconds=CONNECTED_SECONDS, hours=1)
    Token.objects.filter(pk=token.pk).update(last_used_at=heard_at)
    assert presence(reed, ana) == Presence(is_connected=False, heard_at=heard_at)
    assert presence(reed, ana).state == "away"
    assert "not connected" in sidebar(ana)


def test_a_webhook_that_takes_what_it_is_sent_is_a_connection(ana: Member, reed: Agent) -> None:
    webhook, _ = create_webhook(
        by=access(ana), participant=reed.participant, url="https://93.184.216.34/", kinds=["mention"]
    )
    assert presence(reed, ana).state == "never"
    send_test(webhook=webhook, by=access(ana))
    for taken_at in (timezone.now() - timedelta(days=2), timezone.now()):
        Delivery.objects.update(state="delivered", attempted_at=taken_at)
        Webhook.objects.update(failing_since=None)
        assert presence(reed, ana).state == "idle"
        assert "not connected" not in sidebar(ana)
        Webhook.objects.update(failing_since=timezone.now())
        assert presence(reed, ana).state == "away"
        assert "not connected" in sidebar(ana)


def test_one_that_openvibe_answers_for_is_there_until_it_is_deactivated(ana: Member, vibe: Agent) -> None:
    assert presence(vibe, ana).state == "idle"
    deactivate_agent(agent=vibe, by=access(ana))
    assert not presence(vibe, ana).is_connected


def work(agent: Agent, thread: Thread, by: Member) -> Run:
    run = Run.objects.get(trigger=say(thread, by, f"@{agent.handle} when?"), agent=agent)
    Run.objects.filter(pk=run.pk).update(state=Run.State.WRITING, started_at=timezone.now())
    return run


def test_who_works_where_is_shown_to_who_reads_there(ana: Member, dora: Member, vibe: Agent, thread: Thread) -> None:
    room = make_channel(ana, "board", private=True)
    fern = make_agent(ana, "fern", channel=room)
    work(vibe, thread, ana)
    salaries = make_thread(room, ana, "Salaries")
    run = work(fern, salaries, ana)
    assert [(row.name, row.title) for row in read_at_work(access(ana))] == [("Vibe", "Pruning"), ("Fern", "Salaries")]
    assert [(row.name, row.title) for row in read_at_work(access(dora))] == [("Vibe", "Pruning")]
    assert [place.title for place in presence(fern, ana).work] == ["Salaries"]
    assert presence(fern, dora).state == "idle"
    for page in (sidebar(ana), signed_in(ana).get(f"/w/{ana.workspace.slug}/at-work/").content.decode()):
        assert "Salaries" in page
    for page in (sidebar(dora), signed_in(dora).get(f"/w/{dora.workspace.slug}/at-work/").content.decode()):
        assert "Pruning" in page
        assert "Salaries" not in page
    Run.objects.filter(pk=run.pk).update(state=Run.State.DONE)
    assert [row.title for row in read_at_work(access(ana))] == ["Pruning"]


def test_many_agents_take_as_many_queries_as_one(ana: Member, thread: Thread) -> None:
    agents = [make_agent(ana, f"fern{number}", channel=thread.channel) for number in range(4)]
    for agent in agents:
        work(agent, make_thread(thread.channel, ana, f"Bed {agent.handle}"), ana)
    Agent.objects.update(answers_itself=True)
    agents, by = list(Agent.objects.all()), access(ana)
    read_presences(agents, by)

    def queries(count: int) -> int:
        with CaptureQueriesContext(connection) as captured:
            read_presences(agents[:count], by)
        return len(captured)

    assert queries(1) == queries(4) <= 5


def test_open_pages_are_told_when_a_program_comes_and_goes(ana: Member, vibe: Agent, reed: Agent) -> None:
    def told() -> int:
        return Event.objects.filter(kind="agent_changed", workspace_id=ana.workspace_id).count()

    tokens = [issue_token(participant=one, name="x", scopes=["read"]) for one in (reed.participant, vibe.participant)]
    before = told()
    for _, secret in (*tokens, *tokens):
        assert authenticate_token(secret) is not None
    assert told() == before + 1  # of Reed, once: OpenVibe answers for Vibe
    notify_silent()
    assert told() == before + 1
    silent = timezone.now() - timedelta(seconds=CONNECTED_SECONDS + 5)
    Token.objects.update(last_used_at=silent)
    notify_silent()
    assert told() == before + 2
    Token.objects.update(last_used_at=silent - timedelta(minutes=1))
    notify_silent()
    assert told() == before + 2
    assert authenticate_token(tokens[0][1]) is not None
    assert told() == before + 3
