"""Two gardens, each with everything in it; Root is the superuser, and anybody can be made one."""

import pytest
from django.test import Client
from django_celery_beat.models import IntervalSchedule, PeriodicTask

import openvibe.urls  # noqa: F401  # with the addresses come the admin's pages, which tests look through
from agents.agent.services import set_trust_level
from agents.models import Agent, McpServer, Run
from agents.runs.executor import execute_run
from memory.episodes.services import give_feedback
from openvibe.api.services import issue_token
from openvibe.chat.models import Thread
from openvibe.chat.services import discard_dive, start_dive
from openvibe.workspaces.models import Member, Spending, User
from openvibe.workspaces.services import add_member, create_invitation, create_snippet
from tests import factories
from tests.engines.llm.factories import EndpointFactory
from tests.engines.llm.scripted_client import ScriptedModel
from tests.knowledge.factories import ContradictionFactory

KEY = "sk-very-secret-0123456789"


def furnish(member: Member, agent: Agent, thread: Thread, n: int = 0) -> None:
    """One more row of everything in the member's workspace."""
    by = factories.access(member)
    message = factories.say(thread, member, f"@{agent.handle} question {n}?")
    run = Run.objects.get(trigger=message)
    execute_run(run.pk, client=ScriptedModel([f"Answer {n}."]))
    run.refresh_from_db()
    assert run.reply is not None
    give_feedback(message=run.reply, by=by, verdict="down", text=f"Better {n}, in {member.workspace.slug}")
    set_trust_level(agent=agent, by=by, level=3 if agent.level == 2 else 2, note=f"Because {n}")
    issue_token(participant=member.participant, name=f"Script {n} of {member.workspace.slug}", scopes=["read"])
    create_invitation(workspace=member.workspace, by=by, role="member")
    create_snippet(workspace=member.workspace, by=by, name=f"tone{n}-{member.workspace.slug}", text="Be brief.")
    EndpointFactory.create(
        workspace=member.workspace,
        name=f"Model {n} of {member.workspace.slug}",
        api_key=KEY,
        model="m",
        base_url="https://models.example/v1",
    )
    McpServer.objects.create(
        workspace=member.workspace,
        name=f"tools-{n}-{member.participant.handle}",
        url="https://tools.example/mcp",
        token=KEY,
    )
    first, second = (factories.make_entry(member, f"Prices {n}", f"{price} a month.") for price in ("$29", "$35"))
    ContradictionFactory.create(
        workspace=member.workspace, first=first, second=second, first_version=1, second_version=1, why="Sums differ."
    )
    factories.make_agent(member, f"helper{n}")
    Spending.objects.create(
        workspace=member.workspace, agent=agent.participant, purpose="review", model="m", input_tokens=100 + n
    )
    discard_dive(dive=start_dive(source=message, by=by, agent=agent.participant), by=by)
    factories.make_channel(member, f"room{n}-{member.participant.handle}")
    interval = IntervalSchedule.objects.create(every=n + 1, period="minutes")
    name = f"sweep {n} of {member.workspace.slug}"
    PeriodicTask.objects.create(name=name, task="agents.sweep_runs", interval=interval)


def as_superuser(member: Member) -> Client:
    """The member, who runs the installation from now on."""
    member.user.is_superuser = True
    member.user.save()
    client = Client()
    client.force_login(member.user)
    return client


def superuser(member: Member) -> Client:
    """Root, who is also a member of this garden."""
    user = User.objects.create_superuser("root@example.org", factories.PASSWORD, name="Root")
    add_member(workspace=member.workspace, user=user, role="member")
    client = Client()
    client.force_login(user)
    return client


def furnished_orchard(cleo: Member) -> Member:
    """Cleo, with one row of everything in her workspace."""
    channel = factories.make_channel(cleo, "orchard")
    furnish(cleo, factories.make_agent(cleo, "fern", channel=channel), factories.make_thread(channel, cleo, "Grafting"))
    return cleo


@pytest.fixture
def root(db: None, ana: Member) -> Client:
    return superuser(ana)


@pytest.fixture
def garden(ana: Member, vibe: Agent, thread: Thread) -> Member:
    furnish(ana, vibe, thread)
    return ana


@pytest.fixture
def other_garden(cleo: Member) -> Member:
    return furnished_orchard(cleo)
