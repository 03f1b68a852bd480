"""Agents: the list, the form of a new one, and its settings."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse

from agents.admin.forms import AgentForm, NewAgentForm
from agents.admin.pages import AgentPages, problems_of
from agents.models import Agent
from agents.services import create_agent
from agents.skills import OVERRIDES, folder_problems, read_override, skill_index
from agents.soul import SoulError
from openvibe.base.problems import Problem
from openvibe.llm.models import Endpoint
from openvibe.workspaces.admin import acting_as
from openvibe.workspaces.models import Workspace


@admin.register(Agent)
class AgentAdmin(AgentPages):
    """Level, SOUL and activity change on their own pages, each with a record; agents are never deleted."""

    may_add = may_change = True
    form = AgentForm
    list_display = ("name", "handle", "workspace", "level", "soul", "endpoint", "active")
    list_filter = ("level",)
    list_select_related = ("participant", "workspace", "soul", "endpoint")
    search_fields = ("participant__handle", "participant__name")
    ordering = ("workspace", "participant__handle")
    fields = (
        *("name", "handle", "workspace", "level", "soul"),
        *("endpoint", "daily_token_budget", "answers_itself", "files", "deactivated_at"),
    )
    readonly_fields = ("name", "handle", "workspace", "level", "soul", "files", "deactivated_at")
    actions_detail = ("soul_page", "trust_page", "channels_page", "activity_page")

    @admin.display(description="Name", ordering="participant__name")
    def name(self, agent: Agent) -> str:
        return agent.participant.name

    @admin.display(description="Handle", ordering="participant__handle")
    def handle(self, agent: Agent) -> str:
        return f"@{agent.handle}"

    @admin.display(description="Files on the server")
    def files(self, agent: Agent) -> str:
        """What its folder gives it, and what of it is not used and why."""
        skills = ", ".join(skill.name for skill in skill_index(agent))
        used = [name for name in OVERRIDES if read_override(agent, name) is not None]
        lines = [*used, *([f"Skills: {skills}"] if skills else []), *folder_problems(agent)]
        return " · ".join(lines) or "None"

    @admin.display(description="Active", boolean=True)
    def active(self, agent: Agent) -> bool:
        return agent.is_active

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        self_rows = self.get_queryset(request).select_related("participant", "workspace", "soul")
        return (
            self_rows.filter(pk=object_id).first() if str(object_id).isdecimal() and len(str(object_id)) < 19 else None
        )

    def formfield_for_foreignkey(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        if db_field.name == "endpoint":
            agent_id = request.resolver_match.kwargs.get("object_id") if request.resolver_match else None
            home = Agent.objects.filter(pk=agent_id or 0).values_list("workspace_id", flat=True)
            kwargs["queryset"] = Endpoint.objects.filter(workspace__in=home)
        return super().formfield_for_foreignkey(db_field, request, **kwargs)

    def add_view(self, request: HttpRequest, form_url: str = "", extra_context: Any = None) -> HttpResponse:
        """Handle, name and SOUL, made by the same verb as everywhere."""
        if not self.has_add_permission(request):
            return redirect("admin:agents_agent_changelist")
        form = NewAgentForm(request.POST or None)
        form.fields["workspace"].queryset = self.choices_of(Workspace, request)  # type: ignore[attr-defined]
        problems: list[str] = []
        if request.method == "POST" and form.is_valid():
            given = form.cleaned_data
            try:
                by = acting_as(request, given["workspace"].pk)
                agent = create_agent(by=by, **given)
            except (Problem, SoulError) as error:
                problems = problems_of(error)
            else:
                self.log_addition(request, agent, "Made")
                self.message_user(
                    request, "It starts at L1. Add it to a channel so that people can ask it.", messages.SUCCESS
                )
                return redirect("admin:agents_agent_channels_page", agent.pk)
        context = {
            **self.admin_site.each_context(request),
            "title": "New agent",
            "opts": self.opts,
            "form": form,
            "problems": problems,
        }
        return TemplateResponse(request, "admin/agents/new.html", context, status=422 if problems else 200)
