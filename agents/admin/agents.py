"""Agents in the admin: the list, the form of a new one, its settings, and its own pages.

The pages (SOUL, trust level, channels, leaving and coming back) show on GET and write on POST, through the same verbs
as everywhere. Problems stand in the form."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, wraps
from itertools import zip_longest
from typing import Any

from django.contrib import admin, messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from unfold.decorators import action

from agents.admin.forms import AgentForm, ChannelsForm, NewAgentForm, SoulForm, ToolsAdminForm, TrustForm
from agents.agent.models import Agent, McpTool
from agents.agent.services import (
    StaleSoul,
    check_soul,
    create_agent,
    deactivate_agent,
    reactivate_agent,
    restore_soul,
    save_soul,
    set_trust_level,
)
from agents.agent.skills import OVERRIDE_FILES, folder_problems, read_override, skill_index
from agents.agent.soul import SOUL_TOKEN_ADVICE, SOUL_TOKEN_LIMIT, SoulError, diff_souls
from agents.agent.soul.parser import soul_from_dict
from agents.agent.trust import TRUST_LEVELS, trust_level
from agents.statistics.statistics import agent_acceptance
from agents.tools.mcp_servers.tools import allow_tools
from openvibe.base.admin import AuditedAdmin
from openvibe.base.audit import AuditAction
from openvibe.base.problems import Problem
from openvibe.chat.models import Channel, ChannelMembership
from openvibe.chat.services import add_to_channel, remove_from_channel
from openvibe.engines.llm.models import Endpoint
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Workspace
from openvibe.workspaces.queries import admin_access

AgentPage = Callable[["AgentAdmin", HttpRequest, Agent], HttpResponse]


def agent_page(description: str, url_path: str) -> Callable[[AgentPage], object]:
    """An action of the agent's form with a page of its own."""

    def decorate(view: AgentPage) -> object:
        @wraps(view)
        def page(self: AgentAdmin, request: HttpRequest, object_id: str) -> Any:
            agent = self.get_object(request, object_id)
            if agent is None:
                return self._get_obj_does_not_exist_redirect(request, self.opts, object_id)
            return view(self, request, agent)

        return action(description=description, url_path=url_path)(page)

    return decorate


@admin.register(Agent)
class AgentAdmin(AuditedAdmin):
    """Level, SOUL and activity change on their own pages, each with a record; agents are never deleted."""

    audit_action = AuditAction.AGENT
    may_add = may_change = True
    form = AgentForm
    list_display = ("name", "handle", "workspace", "level", "soul", "endpoint", "active")
    list_filter = ("level",)
    list_select_related = ("participant", "workspace", "soul", "endpoint")
    search_fields = ("participant__handle", "participant__name")
    ordering = ("workspace", "participant__handle")
    fields = (
        *("name", "handle", "workspace", "level", "soul"),
        *(
            "endpoint",
            "fallback",
            "effort",
            "daily_token_budget",
            "proactive_cooldown",
            "run_minutes",
            "permission_minutes",
            "answers_itself",
            "files",
            "deactivated_at",
        ),
    )
    readonly_fields = ("name", "handle", "workspace", "level", "soul", "files", "deactivated_at")
    actions_detail = ("soul_page", "trust_page", "channels_page", "tools_page", "activity_page")

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
        file_names = [name for name in OVERRIDE_FILES if read_override(agent, name) is not None]
        lines = [*file_names, *([f"Skills: {skills}"] if skills else []), *folder_problems(agent)]
        return " · ".join(lines) or "None"

    @admin.display(description="Active", boolean=True)
    def active(self, agent: Agent) -> bool:
        return agent.is_active

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        agents = self.get_queryset(request).select_related("participant", "workspace", "soul")
        return agents.filter(pk=object_id).first() if str(object_id).isdecimal() and len(str(object_id)) < 19 else None

    def formfield_for_foreignkey(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        if db_field.name in ("endpoint", "fallback"):
            agent_id = request.resolver_match.kwargs.get("object_id") if request.resolver_match else None
            workspaces = Agent.objects.filter(pk=agent_id or 0).values_list("workspace_id", flat=True)
            kwargs["queryset"] = Endpoint.objects.filter(workspace__in=workspaces)
        return super().formfield_for_foreignkey(db_field, request, **kwargs)

    def add_view(self, request: HttpRequest, form_url: str = "", extra_context: Any = None) -> HttpResponse:
        """A form of name, handle and purpose, which the same service saves as everywhere."""
        form = NewAgentForm(request.POST or None)
        form.fields["workspace"].queryset = Workspace.objects.all()  # type: ignore[attr-defined]  # a field of models
        problems: list[str] = []
        if request.method == "POST" and form.is_valid():
            try:
                by = admin_access(request, form.cleaned_data["workspace"].pk)
                values = {field: form.cleaned_data[field] for field in ("workspace", "handle", "name")}
                agent = create_agent(by=by, soul=form.soul(), **values)
            except (Problem, SoulError) as error:
                problems = _error_lines(error)
            else:
                self.log_addition(request, agent, "Made")
                message = "It starts at L1. Add it to a channel so that people can ask it."
                self.message_user(request, message, messages.SUCCESS)
                return redirect("admin:agents_agent_channels_page", agent.pk)
        return self._render_page(request, None, "new", "New agent", form=form, problems=problems)

    def audit_action_of(self, field: str) -> AuditAction:
        actions = {"daily_token_budget": AuditAction.BUDGET, "endpoint": AuditAction.ENDPOINT}
        return actions.get(field, AuditAction.AGENT)

    @agent_page("SOUL", "soul")
    def soul_page(self, request: HttpRequest, agent: Agent) -> HttpResponse:
        """The page that edits a SOUL as YAML, checks it and saves it as a new version; compares versions; brings an old
        one back."""
        if request.method != "POST":
            return self._render_soul_page(request, agent)
        if "restore" in request.POST:
            return self._restore_soul(request, agent)
        form = SoulForm(request.POST)
        text, note = request.POST.get("soul", ""), request.POST.get("note", "")
        problems = [f"{name}: {line}" for name, lines in form.errors.items() for line in lines]
        if "check" in request.POST:
            problems = problems or _check_text(text)[1]
        elif not problems:
            is_same = agent.soul is not None and text.strip() == agent.soul.source.strip()
            write = partial(save_soul, agent=agent, text=text, note=note, based_on=form.cleaned_data["based_on"])
            message = f"The SOUL is saved: {note.strip()}"
            if is_same:
                message = "Nothing was changed, so there is no new version."
            problems = self._try_write(request, agent, write, message)
            if not problems:
                return redirect("admin:agents_agent_soul_page", agent.pk)
            if StaleSoul.words in problems[0]:  # the next save is on the newest version, knowingly
                agent = self.get_object(request, str(agent.pk))
                form = SoulForm({**request.POST.dict(), "based_on": agent.soul.number if agent.soul else 0})
        return self._render_soul_page(request, agent, form, problems)

    def _restore_soul(self, request: HttpRequest, agent: Agent) -> HttpResponse:
        number, based_on = request.POST.get("restore", ""), request.POST.get("based_on", "")
        are_numbers = all(value.isdecimal() and len(value) < 9 for value in (number, based_on))
        version = agent.soul_versions.filter(number=int(number)).first() if are_numbers else None
        problems = ["There is no such version."]
        if version is not None:
            write = partial(restore_soul, version=version, based_on=int(based_on))
            problems = self._try_write(request, agent, write, f"Version {number} is the current one again.")
            if not problems:
                return redirect("admin:agents_agent_soul_page", agent.pk)
        return self._render_soul_page(request, agent, problems=problems)

    def _render_soul_page(
        self, request: HttpRequest, agent: Agent, form: SoulForm | None = None, problems: Sequence[str] = ()
    ) -> HttpResponse:
        """Renders the page with what was written in a bound `form`, else with the current SOUL."""
        checked = request.POST.get("soul", "") if form else ""
        source, number = (agent.soul.source, agent.soul.number) if agent.soul else ("", 0)
        return self._render_page(
            request,
            agent,
            "soul",
            "SOUL",
            form=form or SoulForm(initial={"soul": source, "based_on": number}),
            problems=problems,
            tokens=_check_text(checked or source)[0],
            checked=bool(checked) and not problems,
            limit=SOUL_TOKEN_LIMIT,
            advice=SOUL_TOKEN_ADVICE,
            newest=number,
            versions=_soul_version_rows(agent, request.GET.get("diff", "")),
        )

    @agent_page("Trust level", "trust")
    def trust_page(self, request: HttpRequest, agent: Agent) -> HttpResponse:
        """The table of levels, a change with its note, and every change there ever was."""
        form = TrustForm(request.POST or None, initial={"level": agent.level})
        problems: list[str] = []
        if request.method == "POST" and not form.is_valid():
            problems = ["Choose a level from 1 to 4 and say why in at most 300 characters."]
        elif request.method == "POST":
            write = partial(set_trust_level, agent=agent, **form.cleaned_data)
            message = "The trust level is L{level}: {note}".format(**form.cleaned_data)
            problems = self._try_write(request, agent, write, message)
            if not problems:
                return redirect("admin:agents_agent_trust_page", agent.pk)
        return self._render_page(
            request,
            agent,
            "trust",
            "trust level",
            form=form,
            problems=problems,
            levels=TRUST_LEVELS,
            acceptance=agent_acceptance(agent),
            changes=agent.trust_changes.select_related("by"),
        )

    @agent_page("Channels", "channels")
    def channels_page(self, request: HttpRequest, agent: Agent) -> HttpResponse:
        """The page of the channels the agent was added to."""
        channels = Channel.objects.filter(workspace=agent.workspace_id, archived_at=None, first_participant=None)
        choices = channels.order_by("name")
        memberships = ChannelMembership.objects.filter(participant=agent.participant)
        member_ids = set(memberships.values_list("channel_id", flat=True))
        form = ChannelsForm(request.POST or None, initial={"channels": member_ids})
        form.fields["channels"].queryset = choices  # type: ignore[attr-defined]  # a field of models
        problems: list[str] = []
        if request.method == "POST" and form.is_valid():
            chosen_ids = set(form.cleaned_data["channels"].values_list("pk", flat=True))

            def write(*, by: Access) -> None:
                for channel in choices:
                    if channel.pk in chosen_ids - member_ids:
                        add_to_channel(channel=channel, participant=agent.participant, by=by)
                    elif channel.pk in member_ids - chosen_ids:
                        remove_from_channel(channel=channel, participant=agent.participant, by=by)

            problems = self._try_write(request, agent, write, "The channels are saved.")
            if not problems:
                return redirect("admin:agents_agent_channels_page", agent.pk)
        return self._render_page(
            request, agent, "channels", "channels", form=form, problems=problems, level=agent.level
        )

    @agent_page("Tools", "tools")
    def tools_page(self, request: HttpRequest, agent: Agent) -> HttpResponse:
        """The page of the tools of the workspace's MCP servers the agent may use."""
        tools = McpTool.objects.filter(server__workspace=agent.workspace_id, is_listed=True).select_related("server")
        tool_ids = list(agent.mcp_tools.values_list("pk", flat=True))
        choices = list(tools.order_by("server__name", "name"))
        form = ToolsAdminForm(
            request.POST if request.method == "POST" else None, initial={"tools": tool_ids}, choices=choices
        )
        problems: list[str] = []
        if request.method == "POST" and form.is_valid():
            chosen_tools = [tool for tool in choices if str(tool.pk) in form.cleaned_data["tools"]]
            write = partial(allow_tools, agent=agent, tools=chosen_tools)
            problems = self._try_write(request, agent, write, "The tools are saved.")
            if not problems:
                return redirect("admin:agents_agent_tools_page", agent.pk)
        return self._render_page(
            request,
            agent,
            "tools",
            "tools",
            form=form,
            problems=problems,
            level=agent.level,
            allowance=trust_level(agent.level).tool_actions,
            has_tools=bool(choices),
        )

    @agent_page("Deactivate or bring back", "activity")
    def activity_page(self, request: HttpRequest, agent: Agent) -> HttpResponse:
        problems: list[str] = []
        if request.method == "POST":
            verb = deactivate_agent if agent.is_active else reactivate_agent
            message = "It is deactivated and answers no more." if agent.is_active else "It is back and answers again."
            problems = self._try_write(request, agent, partial(verb, agent=agent), message)
            if not problems:
                return redirect("admin:agents_agent_change", agent.pk)
        return self._render_page(request, agent, "activity", "activity", problems=problems)

    def _try_write(self, request: HttpRequest, agent: Agent, write: Callable[..., object], message: str) -> list[str]:
        """Writes as the signed-in person; returns the lines of what is wrong, none when it is done (and logged)."""
        try:
            write(by=admin_access(request, agent.workspace_id))
        except (Problem, SoulError) as error:
            return _error_lines(error)
        self.log_change(request, agent, message)
        self.message_user(request, message, messages.SUCCESS)
        return []

    def _render_page(
        self, request: HttpRequest, agent: Agent | None, template: str, title: str, **more: Any
    ) -> HttpResponse:
        if agent is not None:
            title, more = f"{agent.participant.name}: {title}", {"original": agent, "agent": agent, **more}
        context = {**self.admin_site.each_context(request), "title": title, "opts": self.opts, **more}
        status = 422 if more["problems"] else 200
        return TemplateResponse(request, f"admin/agents/{template}.html", context, status=status)


def _error_lines(error: Problem | SoulError) -> list[str]:
    """What is wrong as lines for people, with line and field where they are known."""
    return [error.message] if isinstance(error, Problem) else [str(problem) for problem in error.problems]


def _check_text(text: str) -> tuple[int | None, list[str]]:
    """Tokens of a SOUL in its fullest rendering; or None, and what is wrong with it."""
    try:
        return check_soul(text)[1], []
    except SoulError as error:
        return None, _error_lines(error)


def _soul_version_rows(agent: Agent, diff_number: str) -> list[dict[str, Any]]:
    """Every version, newest first; the one named in `?diff=` with what it changed against the one before."""
    versions = list(agent.soul_versions.select_related("author"))
    rows = []
    for version, before in zip_longest(versions, versions[1:]):
        is_compared = before is not None and diff_number == str(version.number)
        changes = diff_souls(soul_from_dict(before.content), soul_from_dict(version.content)) if is_compared else None
        is_current = version.pk == agent.soul_id
        rows.append({"version": version, "is_current": is_current, "before": before, "changes": changes})
    return rows
