"""An agent's trust level: what each allows, who changed it, and changing it."""

from django import forms
from django.contrib import messages
from django.core.paginator import Paginator
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from agents.agent.models import Agent
from agents.agent.services import set_trust_level
from agents.agent.trust import TRUST_LEVELS
from agents.statistics.statistics import agent_acceptance
from agents.web.access import access_agent, check_may
from openvibe.base.forms import ServiceForm
from openvibe.base.problems import Problem
from openvibe.workspaces.decorators import WorkspaceRequest, workspace_view

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
        "acceptance": agent_acceptance(agent),
        "changes": Paginator(agent.trust_changes.all(), CHANGES_ON_A_PAGE).get_page(request.GET.get("page")),
    }
    return render(request, "agents/level.html", {"form": form, **context}, status=422 if form.errors else 200)
