"""Settings of agents, for owners and admins: model, budget, channels, whether they are active, and
their trust level."""

from typing import Any

from django import forms
from django.contrib import messages
from django.core.paginator import Paginator
from django.db.models import Count, QuerySet
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from agents.agent.models import MAX_PERMISSION_MINUTES, MAX_RUN_MINUTES, Agent, Effort
from agents.agent.services import deactivate_agent, reactivate_agent, set_trust_level, update_agent
from agents.agent.skills import OVERRIDE_FILES, folder_problems, read_override, skill_index
from agents.agent.trust import TRUST_LEVELS, level_differences
from agents.runs.external.presence import read_presences
from agents.statistics.statistics import agent_acceptance
from agents.web.access import access_agent, check_may
from openvibe.base.forms import ServiceForm
from openvibe.base.params import int_param
from openvibe.base.problems import Missing, Problem
from openvibe.chat.models import Channel
from openvibe.engines.llm.models import Endpoint
from openvibe.workspaces.access import Access
from openvibe.workspaces.decorators import WorkspaceRequest, workspace_view


def open_channels(access: Access) -> QuerySet[Channel]:
    """Channels that the asker sees and that are not archived, by name."""
    channels: QuerySet[Channel] = Channel.objects.visible_to(access)
    return channels.filter(archived_at=None).order_by("name")


class PlaceForm(ServiceForm):
    """A form for where an agent is, and through what it answers."""

    endpoint = forms.ModelChoiceField(
        Endpoint.objects.none(), required=False, label="Model", empty_label="The workspace's default"
    )
    channels = forms.ModelMultipleChoiceField(
        Channel.objects.none(), required=False, widget=forms.CheckboxSelectMultiple, label="Channels it is in"
    )

    def __init__(self, request: WorkspaceRequest, **options: Any) -> None:
        super().__init__(request.POST if request.method == "POST" else None, **options)
        channels = open_channels(request.access)
        endpoints = Endpoint.objects.filter(workspace=request.workspace)
        self.fields["channels"].queryset = channels  # type: ignore[attr-defined]  # a field of models
        for name in {"endpoint", "fallback"} & self.fields.keys():
            self.fields[name].queryset = endpoints  # type: ignore[attr-defined]  # a field of models


class SettingsForm(PlaceForm):
    answers_itself = forms.TypedChoiceField(
        coerce=lambda value: value == "True",
        choices=[("False", "OpenVibe, with this model"), ("True", "A program elsewhere, through the API")],
        widget=forms.RadioSelect,
        label="Who writes its answers",
    )
    fallback = forms.ModelChoiceField(
        Endpoint.objects.none(),
        required=False,
        label="Fallback",
        empty_label="The workspace's fallback, where it has one",
        help_text="Answers when the model itself fails twice in a row. The reply says so.",
    )
    daily_token_budget = forms.IntegerField(
        min_value=0,
        max_value=2_147_483_647,
        label="Tokens a day",
        help_text="It may use so many in one day (UTC); then it says so and answers no more until the next.",
    )
    effort = forms.ChoiceField(
        required=False,
        choices=[("", "As long as its model does by itself"), *Effort.choices],
        label="How long its model thinks before it answers",
        help_text="For models that reason. What they think is paid for like what they say. A model that cannot be told "
        "answers as it always does.",
    )
    proactive_cooldown = forms.IntegerField(
        min_value=0,
        max_value=1_440,
        label="Minutes between two messages that it posts unasked",
        help_text="On its schedule, from L3 on. At most 1,440, which is a day.",
    )
    run_minutes = forms.IntegerField(
        required=False,
        min_value=1,
        max_value=MAX_RUN_MINUTES,
        label="Minutes that one answer may take",
        help_text="Where a program elsewhere writes it. After that the answer fails, says so, and keeps its words. "
        "At most 2,880, which is two days.",
    )
    permission_minutes = forms.IntegerField(
        required=False,  # a page from before there was one leaves it as it is
        min_value=1,
        max_value=MAX_PERMISSION_MINUTES,
        label="Minutes that a call waits for an answer",
        help_text="Of a program elsewhere that asks leave before it acts. When nobody answers, the call is denied. At "
        "most 1,440, which is a day.",
    )
    is_active = forms.BooleanField(
        required=False,
        label="Active",
        help_text="An agent that is not active answers nobody, and its episodes are archived. All it wrote stays.",
    )
    field_order = (
        *("answers_itself", "endpoint", "fallback", "effort", "daily_token_budget", "run_minutes"),
        *("proactive_cooldown", "permission_minutes", "channels", "is_active"),
    )

    def __init__(self, request: WorkspaceRequest, agent: Agent) -> None:
        initial = {
            "endpoint": agent.endpoint_id,
            "fallback": agent.fallback_id,
            "channels": agent.participant.channels.all(),
            "answers_itself": agent.answers_itself,
            "daily_token_budget": agent.daily_token_budget,
            "effort": agent.effort,
            "proactive_cooldown": agent.proactive_cooldown,
            "run_minutes": agent.run_minutes,
            "permission_minutes": agent.permission_minutes,
            "is_active": agent.is_active,
        }
        super().__init__(request, initial=initial)
        if not agent.is_active:
            self.fields["channels"].disabled = True
            self.fields["channels"].help_text = "Once it is active again, you can change these."


@workspace_view
@require_http_methods(["GET", "HEAD", "POST"])
def agent_settings(request: WorkspaceRequest, handle: str) -> HttpResponse:
    """Model, budget, channels, and whether it is active; below it what its folder on the server gives it."""
    check_may(request, "change an agent's settings")
    agent = access_agent(request, handle)
    form = SettingsForm(request, agent)
    if request.method == "POST" and form.is_valid():
        try:
            update_agent(agent=agent, by=request.access, **form.cleaned_data)
            messages.success(request, "Saved.")
            return redirect("agent", request.workspace.slug, agent.handle)
        except Problem as problem:
            form.add_problem(problem)
    page = {
        "form": form,
        "agent": agent,
        "file_names": [name for name in OVERRIDE_FILES if read_override(agent, name) is not None],
        "skills": [skill.name for skill in skill_index(agent)],
        "folder_problems": folder_problems(agent),
    }
    return render(request, "agents/settings.html", page, status=422 if form.errors else 200)


@workspace_view
@require_http_methods(["GET", "HEAD", "POST"])
def agents(request: WorkspaceRequest) -> HttpResponse:
    """All agents, the deactivated last. A POST brings the `agent` back, or ends its answering (`deactivate`)."""
    check_may(request, "see and change agents here")
    rows = Agent.objects.filter(workspace=request.workspace).select_related("participant", "endpoint")
    if request.method == "POST":
        agent = rows.filter(pk=int_param(request.POST, "agent") or 0).first()
        if agent is None:
            raise Missing
        change = deactivate_agent if "deactivate" in request.POST else reactivate_agent
        change(agent=agent, by=request.access)
        words = "answers again" if agent.is_active else "answers no more; what it said stays"
        messages.success(request, f"{agent} {words}.")
        return redirect("settings-agents", request.workspace.slug)
    default = Endpoint.objects.filter(workspace=request.workspace, is_default=True).first()
    counted_agents = rows.annotate(channel_count=Count("participant__channel_memberships"))
    listed_agents = list(counted_agents.order_by("-participant__is_active", "participant__name", "pk"))
    presences = read_presences(listed_agents, request.access)
    for agent in listed_agents:
        agent.presence = presences[agent.pk]  # type: ignore[attr-defined]  # for the template
    page = {"agents": listed_agents, "default": default}
    return render(request, "agents/settings_agents.html", page)


CHANGES_ON_A_PAGE = 50


class LevelForm(ServiceForm):
    level = forms.TypedChoiceField(choices=Agent.Level.choices, coerce=int, widget=forms.RadioSelect, label="Level")
    note = forms.CharField(max_length=300, required=False, label="Why?", help_text="Everybody can read it here.")


@workspace_view
@require_http_methods(["GET", "HEAD", "POST"])
def agent_level(request: WorkspaceRequest, handle: str) -> HttpResponse:
    """What each level may see and do, every change so far, and for owners and admins the form of another change."""
    agent = access_agent(request, handle)
    if request.method == "POST":
        check_may(request, "set a trust level")
    form = LevelForm(request.POST if request.method == "POST" else None, initial={"level": agent.level})
    if request.method == "POST" and form.is_valid():
        try:
            change = set_trust_level(agent=agent, by=request.access, **form.cleaned_data)
            since = "from its next prompt on" if change else "already"
            messages.success(request, f"It is at L{agent.level} {since}.")
            return redirect("agent-level", request.workspace.slug, agent.handle)
        except Problem as problem:
            form.add_problem(problem)
    context = {
        "agent": agent,
        "levels": TRUST_LEVELS,
        "differences": level_differences(agent.level),
        "acceptance": agent_acceptance(agent),
        "changes": Paginator(agent.trust_changes.all(), CHANGES_ON_A_PAGE).get_page(request.GET.get("page")),
    }
    return render(request, "agents/level.html", {"form": form, **context}, status=422 if form.errors else 200)
