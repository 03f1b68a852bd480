"""How long an agent's model may think is a setting of the agent: in the app and the API, audited, told to its model."""

import pytest
from django.db import IntegrityError, transaction
from pytest_django.fixtures import Settings

from agents.models import Agent, Run
from agents.runs.executor import execute_run
from openvibe.base.models import AuditRecord
from openvibe.chat.models import Thread
from openvibe.workspaces.models import Member
from tests.agents.runs.scripted_runs import ask
from tests.api.client import is_problem
from tests.api.conftest import token_client
from tests.engines.llm.factories import EndpointFactory
from tests.engines.llm.model_server import Answer, serving
from tests.factories import signed_in

pytestmark = pytest.mark.django_db


def test_it_is_set_in_the_app_and_in_the_api_and_audited(ana: Member, vibe: Agent) -> None:
    page = f"/w/{ana.workspace.slug}/agents/vibe/settings/"
    form = {"daily_token_budget": 9_000, "proactive_cooldown": 60, "answers_itself": "False", "is_active": "on"}
    assert signed_in(ana).post(page, {**form, "effort": "high"}).status_code == 302
    vibe.refresh_from_db()
    assert vibe.effort == "high"
    assert signed_in(ana).post(page, {**form, "effort": "furious"}).status_code == 422

    api = token_client(ana.participant)
    assert api.get("agents/vibe/").json()["effort"] == "high"
    assert api.patch("agents/vibe/", {"effort": "off"}).json()["effort"] == "off"
    assert api.patch("agents/vibe/", {"daily_token_budget": 8_000}).json()["effort"] == "off", "what is left out stays"
    assert api.patch("agents/vibe/", {"effort": ""}).json()["effort"] == ""
    assert is_problem(api.patch("agents/vibe/", {"effort": "furious"}), 400, "invalid")

    changes = AuditRecord.objects.filter(action="agent", subject="@vibe").order_by("pk").values_list("before", "after")
    assert list(changes)[-3:] == [
        ("thinks as its model does", "thinks at length"),
        ("thinks at length", "thinks not at all"),
        ("thinks not at all", "thinks as its model does"),
    ]
    with pytest.raises(IntegrityError), transaction.atomic():
        Agent.objects.update(effort="wild")


@pytest.mark.parametrize(("effort", "told"), [("low", "low"), ("off", "none"), ("", None)])
def test_its_model_is_told(
    ana: Member, vibe: Agent, thread: Thread, effort: str, told: str | None, settings: Settings
) -> None:
    settings.ALLOW_PRIVATE_ENDPOINTS = True
    Agent.objects.update(effort=effort)
    run = ask(thread, ana)
    with serving(Answer("In March.")) as server:
        EndpointFactory.create(
            workspace=ana.workspace, name="A", kind="openai", base_url=server.base_url, model="m", is_default=True
        )
        execute_run(run.pk)
    assert Run.objects.get(pk=run.pk).state == Run.State.DONE
    assert server.asked[0].body.get("reasoning_effort") == told
