"""Agents in the admin: the list, the form of a new one, its settings, and its own pages.

The pages (SOUL, trust level, channels, leaving and coming back) show on GET and write on POST, through the same verbs
as everywhere. Problems stand in the form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib import admin, messages
from django.forms import Form
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from unfold.decorators import action

from agents.admin.forms import AgentForm, ChannelsForm, NewAgentForm, SoulForm, TrustForm
from agents.models import Agent, SoulVersion
from agents.services import (
    check_soul,
    create_agent,
    deactivate_agent,
    reactivate_agent,
    restore_soul,
    save_soul,
    set_trust_level,
)
from agents.skills import OVERRIDE_FILES, folder_problems, read_override, skill_index
from agents.soul import SOUL_TOKEN_ADVICE, SOUL_TOKEN_LIMIT, SoulError, diff_souls
from agents.soul_parsing import soul_from_dict
from agents.statistics import agent_acceptance
from agents.trust_labels import trust_table
from openvibe.base.admin import WorkspaceScopedAdmin
from openvibe.base.problems import Problem
from openvibe.chat.models import Channel, ChannelMembership
from openvibe.chat.services import add_to_channel, remove_from_channel
from openvibe.llm.models import Endpoint
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Workspace
from openvibe.workspaces.queries import admin_access

WriteAction = Callable[[Access], object]


def error_lines(error: Problem | SoulError) -> list[str]:
    """What is wrong as lines for people, with line and field where they are known."""
    return [error.message] if isinstance(error, Problem) else [str(problem) for problem in error.problems]


class AgentPages(WorkspaceScopedAdmin):
    """Mixed into AgentAdmin; every page starts from `_access_agent`, which knows who may open it."""

    def _access_agent(self, request: HttpRequest, object_id: str) -> Agent | None:
        agent = self.get_object(request, object_id)
        return agent if agent is not None and self.has_change_permission(request, agent) else None

    def _render_page(self, request: HttpRequest, agent: Agent, template: str, title: str, **more: Any) -> HttpResponse:
        context = {
            **self.admin_site.each_context(request),
            "title": f"{agent.participant.name}: {title}",
            "opts": self.opts,
            "original": agent,
            "agent": agent,
            **more,
        }
        status = 422 if more.get("problems") else 200
        return TemplateResponse(request, f"admin/agents/{template}.html", context, status=status)

    def _try_write(self, request: HttpRequest, agent: Agent, write: WriteAction, done: str) -> list[str]:
        """Do it as the signed-in person; the lines of what is wrong, none when it is done (and logged)."""
        try:
            write(admin_access(request, agent.workspace_id))
        except (Problem, SoulError) as error:
            return error_lines(error)
        self.log_change(request, agent, done)
        self.message_user(request, done, messages.SUCCESS)
        return []

    def _redirect_missing(self, request: HttpRequest, object_id: str) -> HttpResponse:
        response: HttpResponse = self._get_obj_does_not_exist_redirect(request, self.opts, object_id)
        return response

    # --- SOUL -----------------------------------------------------------------------------------------------
    @action(description="SOUL", url_path="soul")  # type: ignore[untyped-decorator]
    def soul_page(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Edit as YAML, check, save as a new version; compare versions; bring an old one back."""
        agent = self._access_agent(request, object_id)
        if agent is None:
            return self._redirect_missing(request, object_id)
        if request.method != "POST":
            return self._render_soul_page(request, agent, _soul_form(agent))
        if "restore" in request.POST:
            return self._restore_soul(request, agent)
        form = SoulForm(request.POST)
        text, note = request.POST.get("soul", ""), request.POST.get("note", "")
        problems = (
            [] if form.is_valid() else [f"{name}: {said}" for name, lines in form.errors.items() for said in lines]
        )
        if "check" in request.POST or problems:
            return self._render_soul_page(
                request, agent, form, problems=problems or _soul_error_lines(text), checked=text
            )
        based_on = form.cleaned_data["based_on"]

        def write(by: Access) -> object:
            return save_soul(agent=agent, by=by, text=text, note=note, based_on=based_on)

        problems = self._try_write(request, agent, write, f"The SOUL is saved: {note.strip()}")
        if problems:
            return self._render_soul_page(request, agent, form, problems=problems, checked=text)
        return redirect("admin:agents_agent_soul_page", agent.pk)

    def _restore_soul(self, request: HttpRequest, agent: Agent) -> HttpResponse:
        number, based_on = request.POST.get("restore", ""), request.POST.get("based_on", "")
        known = number.isdecimal() and based_on.isdecimal() and len(number) < 9 and len(based_on) < 9
        version = agent.soul_versions.filter(number=int(number)).first() if known else None
        if version is None:
            return self._render_soul_page(request, agent, _soul_form(agent), problems=["There is no such version."])

        def write(by: Access) -> object:
            return restore_soul(version=version, by=by, based_on=int(based_on))

        problems = self._try_write(request, agent, write, f"Version {number} is the current one again.")
        if problems:
            return self._render_soul_page(request, agent, _soul_form(agent), problems=problems)
        return redirect("admin:agents_agent_soul_page", agent.pk)

    def _render_soul_page(
        self, request: HttpRequest, agent: Agent, form: Form, *, problems: list[str] | None = None, checked: str = ""
    ) -> HttpResponse:
        tokens = None if problems else _soul_token_count(checked or (agent.soul.source if agent.soul else ""))
        return self._render_page(
            request,
            agent,
            "soul",
            "SOUL",
            form=form,
            problems=problems,
            tokens=tokens,
            checked=bool(checked) and not problems,
            limit=SOUL_TOKEN_LIMIT,
            advice=SOUL_TOKEN_ADVICE,
            newest=agent.soul.number if agent.soul else 0,
            versions=_soul_version_rows(agent, request.GET.get("diff", "")),
        )

    # --- trust ----------------------------------------------------------------------------------------------
    @action(description="Trust level", url_path="trust")  # type: ignore[untyped-decorator]
    def trust_page(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """The table of levels, a change with its note, and every change there ever was."""
        agent = self._access_agent(request, object_id)
        if agent is None:
            return self._redirect_missing(request, object_id)
        form = TrustForm(request.POST or None, initial={"level": agent.level})
        problems: list[str] = []
        if request.method == "POST":
            if form.is_valid():
                level, note = form.cleaned_data["level"], form.cleaned_data["note"]

                def write(by: Access) -> object:
                    return set_trust_level(agent=agent, by=by, level=level, note=note)

                problems = self._try_write(request, agent, write, f"The trust level is L{level}: {note}")
                if not problems:
                    return redirect("admin:agents_agent_trust_page", agent.pk)
            else:
                problems = ["Choose a level from 1 to 4 and say why in at most 300 characters."]
        return self._render_page(
            request,
            agent,
            "trust",
            "trust level",
            form=form,
            problems=problems,
            table=trust_table(),
            acceptance=agent_acceptance(agent),
            changes=agent.trust_changes.select_related("by"),
        )

    # --- channels -------------------------------------------------------------------------------------------
    @action(description="Channels", url_path="channels")  # type: ignore[untyped-decorator]
    def channels_page(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Which channels the agent was added to, among those the signed-in person sees."""
        agent = self._access_agent(request, object_id)
        if agent is None:
            return self._redirect_missing(request, object_id)
        choices = (
            self.visible_choices(Channel, request)
            .filter(workspace=agent.workspace_id, archived_at=None)
            .order_by("name")
        )
        joined = set(
            ChannelMembership.objects.filter(participant=agent.participant).values_list("channel_id", flat=True)
        )
        form = ChannelsForm(request.POST or None, initial={"channels": joined})
        form.fields["channels"].queryset = choices  # type: ignore[attr-defined]
        problems: list[str] = []
        if request.method == "POST" and form.is_valid():
            chosen = set(form.cleaned_data["channels"].values_list("pk", flat=True))

            def write(by: Access) -> None:
                for channel in choices:
                    if channel.pk in chosen - joined:
                        add_to_channel(channel=channel, participant=agent.participant, by=by)
                    elif channel.pk in joined - chosen:
                        remove_from_channel(channel=channel, participant=agent.participant, by=by)

            problems = self._try_write(request, agent, write, "The channels are saved.")
            if not problems:
                return redirect("admin:agents_agent_channels_page", agent.pk)
        return self._render_page(
            request, agent, "channels", "channels", form=form, problems=problems, level=agent.level
        )

    # --- leaving and coming back ----------------------------------------------------------------------------
    @action(description="Deactivate or bring back", url_path="activity")  # type: ignore[untyped-decorator]
    def activity_page(self, request: HttpRequest, object_id: str) -> HttpResponse:
        agent = self._access_agent(request, object_id)
        if agent is None:
            return self._redirect_missing(request, object_id)
        problems: list[str] = []
        if request.method == "POST":
            verb = deactivate_agent if agent.is_active else reactivate_agent
            done = "It is deactivated and answers no more." if agent.is_active else "It is back and answers again."
            problems = self._try_write(request, agent, lambda by: verb(agent=agent, by=by), done)
            if not problems:
                return redirect("admin:agents_agent_change", agent.pk)
        return self._render_page(request, agent, "activity", "activity", problems=problems)


def _soul_form(agent: Agent) -> SoulForm:
    soul = agent.soul
    return SoulForm(initial={"soul": soul.source if soul else "", "based_on": soul.number if soul else 0})


def _soul_error_lines(text: str) -> list[str]:
    try:
        check_soul(text)
    except SoulError as error:
        return error_lines(error)
    return []


def _soul_token_count(text: str) -> int | None:
    """Tokens of a SOUL in its fullest rendering; None when it cannot be read."""
    try:
        return check_soul(text)[1]
    except SoulError:
        return None


def _soul_version_rows(agent: Agent, diff_number: str) -> list[dict[str, Any]]:
    """Every version, newest first; the one named in `?diff=` with what it changed against the one before."""
    versions: list[SoulVersion] = list(agent.soul_versions.select_related("author"))
    rows = []
    for version, before in zip(versions, [*versions[1:], None], strict=True):
        row: dict[str, Any] = {"version": version, "is_current": version.pk == agent.soul_id, "changes": None}
        if diff_number == str(version.number) and before is not None:
            row["changes"] = diff_souls(soul_from_dict(before.content), soul_from_dict(version.content))
            row["before"] = before
        rows.append(row)
    return rows


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
        used = [name for name in OVERRIDE_FILES if read_override(agent, name) is not None]
        lines = [*used, *([f"Skills: {skills}"] if skills else []), *folder_problems(agent)]
        return " · ".join(lines) or "None"

    @admin.display(description="Active", boolean=True)
    def active(self, agent: Agent) -> bool:
        return agent.is_active

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        agents = self.get_queryset(request).select_related("participant", "workspace", "soul")
        return agents.filter(pk=object_id).first() if str(object_id).isdecimal() and len(str(object_id)) < 19 else None

    def formfield_for_foreignkey(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        if db_field.name == "endpoint":
            agent_id = request.resolver_match.kwargs.get("object_id") if request.resolver_match else None
            workspaces = Agent.objects.filter(pk=agent_id or 0).values_list("workspace_id", flat=True)
            kwargs["queryset"] = Endpoint.objects.filter(workspace__in=workspaces)
        return super().formfield_for_foreignkey(db_field, request, **kwargs)

    def add_view(self, request: HttpRequest, form_url: str = "", extra_context: Any = None) -> HttpResponse:
        """Handle, name and SOUL, made by the same verb as everywhere."""
        if not self.has_add_permission(request):
            return redirect("admin:agents_agent_changelist")
        form = NewAgentForm(request.POST or None)
        form.fields["workspace"].queryset = self.visible_choices(Workspace, request)  # type: ignore[attr-defined]
        problems: list[str] = []
        if request.method == "POST" and form.is_valid():
            data = form.cleaned_data
            try:
                by = admin_access(request, data["workspace"].pk)
                agent = create_agent(by=by, **data)
            except (Problem, SoulError) as error:
                problems = error_lines(error)
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
