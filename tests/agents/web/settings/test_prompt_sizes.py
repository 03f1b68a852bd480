"""Owners and admins choose how many tokens prompts and their parts have; what cannot work is refused with its
numbers."""

import pytest
from django.urls import reverse

from agents.models import Agent
from openvibe.base.models import AuditRecord
from openvibe.workspaces.models import Member, Workspace
from tests.agents.web.settings.test_settings_pages import address
from tests.engines.llm.factories import EndpointFactory
from tests.factories import signed_in

pytestmark = pytest.mark.django_db


def stored(member: Member) -> object:
    return Workspace.objects.get(pk=member.workspace_id).budgets


def test_sizes_are_saved_shown_and_taken_back(ana: Member) -> None:
    browser, page = signed_in(ana), reverse("settings-prompts", args=[ana.workspace.slug])
    assert 'placeholder="15,000"' in browser.get(page).content.decode()
    assert browser.post(page, {"thread-ceiling": "12000", "thread-P3": "1500", "dive-P5": "0"}).status_code == 302
    assert stored(ana) == {"thread": {"ceiling": 12_000, "P3": 1_500}, "dive": {"P5": 0}}
    assert 'value="12000"' in browser.get(page).content.decode()
    browser.post(page, {})
    assert stored(ana) == {}
    first, second = AuditRecord.objects.filter(action="budget").order_by("pk")
    assert (first.before, second.after) == ("the defaults", "the defaults")
    assert '"ceiling": 12000' in first.after


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("thread-ceiling", "100", "must be at least"),
        ("thread-P1", "10", "P1 must be at least 500"),
        ("thread-P3", "-1", "greater than or equal to 0"),
        ("thread-P3", "many", "whole number"),
        ("thread-ceiling", str(10**12), "less than or equal to"),
    ],
)
def test_sizes_that_cannot_work_are_refused(ana: Member, field: str, value: str, words: str) -> None:
    answer = signed_in(ana).post(address(ana, "prompts"), {field: value})
    assert answer.status_code == 400
    assert words in answer.content.decode()
    assert f'value="{value}"' in answer.content.decode()
    assert stored(ana) == {}


def test_an_agent_that_could_not_be_given_a_prompt_is_named(ana: Member, vibe: Agent) -> None:
    EndpointFactory.create(
        workspace=ana.workspace, name="Small", is_default=True, context_window=800, output_reserve=700
    )
    answer = signed_in(ana).post(address(ana, "prompts"), {"thread-ceiling": "12000"})
    assert answer.status_code == 400
    assert "@vibe could not be given a prompt" in answer.content.decode()
    assert stored(ana) == {}


def test_members_do_not_choose(ana: Member, dora: Member) -> None:
    assert signed_in(dora).post(address(ana, "prompts"), {"thread-ceiling": "12000"}).status_code == 403
    assert stored(ana) == {}


def test_how_often_an_agent_speaks_unasked_is_a_setting_of_it(ana: Member, vibe: Agent) -> None:
    page = reverse("agent-settings", args=[ana.workspace.slug, vibe.handle])
    form = {"answers_itself": "False", "daily_token_budget": "5", "is_active": "on", "proactive_cooldown": "45"}
    assert signed_in(ana).post(page, form).status_code == 302
    vibe.refresh_from_db()
    assert vibe.proactive_cooldown == 45
    record = AuditRecord.objects.get(subject="minutes between unasked messages of @vibe")
    assert (record.before, record.after) == ("10", "45")
    for wrong in ("", "-1", "1441"):
        assert signed_in(ana).post(page, {**form, "proactive_cooldown": wrong}).status_code == 422
