"""Settings with which an agent could not be given a prompt are refused when they are saved, with their numbers."""

import re

import pytest

from agents.agent.services import save_soul
from agents.models import Agent
from openvibe.base.problems import Problem
from openvibe.engines.llm.models import Endpoint
from openvibe.workspaces.models import Member, Workspace
from openvibe.workspaces.services import update_workspace
from tests.admin.conftest import as_superuser
from tests.admin.test_permissions import endpoint_form, workspace_form
from tests.engines.llm.factories import EndpointFactory
from tests.factories import SOUL, access

NUMBERS = re.compile(r"@vibe could not be given a prompt \(\w+\): it needs [\d,]{4,} tokens")
LONG_RULES = "be kind " * 990


def long_soul(lines: int) -> str:
    return SOUL.format(name="Vibe").replace("Invent facts", "Invent facts " + "or figures " * lines)


def make_endpoint(by: Member, window: int, *, is_default: bool = True) -> Endpoint:
    return EndpointFactory.create(
        workspace=by.workspace,
        name="Small",
        kind="openai",
        base_url="https://models.example/v1",
        model="somebodys-own-model",
        is_default=is_default,
        context_window=window,
        output_reserve=500,
    )


def test_a_soul_too_large_for_the_models_window_is_refused(ana: Member, vibe: Agent) -> None:
    make_endpoint(ana, 3_000)
    with pytest.raises(Problem, match=NUMBERS) as error:
        save_soul(agent=vibe, by=access(ana), text=long_soul(900), note="Longer", based_on=1)
    assert "its SOUL 3," in error.value.message
    assert "the window of “Small” leaves only 2,500" in error.value.message
    vibe.refresh_from_db()
    assert vibe.soul is not None
    assert vibe.soul.number == 1

    page = as_superuser(ana).post(
        f"/admin/agents/agent/{vibe.pk}/soul/", {"soul": long_soul(900), "note": "Longer", "based_on": "1"}
    )
    assert "could not be given a prompt" in page.content.decode()


def test_instructions_too_large_are_refused_on_both_pages(ana: Member, vibe: Agent) -> None:
    make_endpoint(ana, 3_000)
    with pytest.raises(Problem, match=NUMBERS):
        update_workspace(
            workspace=ana.workspace, by=access(ana), name="Garden", description="", instructions=LONG_RULES
        )
    address = f"/admin/workspaces/workspace/{ana.workspace_id}/change/"
    page = as_superuser(ana).post(address, workspace_form(ana, instructions=LONG_RULES)).content.decode()
    assert "the instructions 2," in page
    assert Workspace.objects.get(pk=ana.workspace_id).instructions == ""
    settings = as_superuser(ana).post(f"/w/{ana.workspace.slug}/settings/instructions/", {"instructions": LONG_RULES})
    assert "choose a model with a larger window" in settings.content.decode()


def test_a_window_too_small_is_refused_for_new_and_changed_endpoints(ana: Member, vibe: Agent) -> None:
    save_soul(agent=vibe, by=access(ana), text=long_soul(900), note="Longer", based_on=1)
    endpoint, client = make_endpoint(ana, 32_000), as_superuser(ana)
    form = endpoint_form(endpoint, context_window=3_000, is_default="on")
    page = client.post(f"/admin/llm/endpoint/{endpoint.pk}/change/", form).content.decode()
    assert NUMBERS.search(page)
    endpoint.refresh_from_db()
    assert endpoint.context_window == 32_000

    added = client.post("/admin/llm/endpoint/add/", {**form, "name": "Second", "is_default": ""})
    assert added.status_code == 302  # nobody answers through it
    second = Endpoint.objects.get(name="Second")
    agent_form = {"endpoint": second.pk, "daily_token_budget": "1000", "proactive_cooldown": "10"}
    agent_form |= {"permission_minutes": "15", "run_minutes": "240"}
    page = client.post(f"/admin/agents/agent/{vibe.pk}/change/", agent_form).content.decode()
    assert NUMBERS.search(page)
    vibe.refresh_from_db()
    assert vibe.endpoint is None


def test_a_reserve_that_eats_the_window_is_refused_as_before(ana: Member, vibe: Agent) -> None:
    endpoint = make_endpoint(ana, 32_000)
    form = endpoint_form(endpoint, context_window=2_000, output_reserve=2_000, is_default="on")
    page = as_superuser(ana).post(f"/admin/llm/endpoint/{endpoint.pk}/change/", form).content.decode()
    assert "smaller than the context window" in page


def test_budgets_and_an_over_counted_soul_have_to_go_together(ana: Member, vibe: Agent) -> None:
    make_endpoint(ana, 32_000)
    save_soul(agent=vibe, by=access(ana), text=long_soul(970), note="Longer", based_on=1)
    Workspace.objects.filter(pk=ana.workspace_id).update(instructions=LONG_RULES)
    address = f"/admin/workspaces/workspace/{ana.workspace_id}/change/"
    form = workspace_form(ana, instructions=LONG_RULES, budgets='{"mention": {"ceiling": 7600}}')
    response = as_superuser(ana).post(address, form)
    assert response.status_code == 302, response.content.decode()  # all that is legal by itself goes together


def test_other_changes_are_not_held_up_by_what_is_stored_already(ana: Member, vibe: Agent) -> None:
    make_endpoint(ana, 3_000)
    Workspace.objects.filter(pk=ana.workspace_id).update(instructions=LONG_RULES)
    ana.workspace.refresh_from_db()
    update_workspace(
        workspace=ana.workspace, by=access(ana), name="Roof garden", description="", instructions=LONG_RULES
    )
    assert Workspace.objects.get(pk=ana.workspace_id).name == "Roof garden"
