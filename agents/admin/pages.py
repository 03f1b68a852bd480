"""The agent's own pages in the admin: SOUL, trust level, channels, leaving and coming back.

Each shows on GET and writes on POST, through the same verbs as everywhere. Problems stand in the form.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib import messages
from django.forms import Form
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from unfold.decorators import action

from agents.admin.forms import ChannelsForm, SoulForm, TrustForm
from agents.figures import acceptance_of
from agents.models import Agent, SoulVersion
from agents.services import (
    check_soul,
    deactivate_agent,
    reactivate_agent,
    restore_soul,
    save_soul,
    set_trust_level,
)
from agents.soul import SOUL_TOKEN_ADVICE, SOUL_TOKEN_LIMIT, SoulError, diff_souls, soul_from_dict
from agents.trust_words import table
from openvibe.base.admin import WorkspaceRowsAdmin
from openvibe.base.problems import Problem
from openvibe.chat.models import Channel, ChannelMembership
from openvibe.chat.services import add_to_channel, remove_from_channel
from openvibe.workspaces.access import Access
from openvibe.workspaces.admin import acting_as

Write = Callable[[Access], object]


def problems_of(error: Problem | SoulError) -> list[str]:
    """What is wrong as lines for people, with line and field where they are known."""
    return [error.message] if isinstance(error, Problem) else [str(problem) for problem in error.problems]


class AgentPages(WorkspaceRowsAdmin):
    """Mixed into AgentAdmin; every page starts from `_agent`, which knows who may open it."""

    def _agent(self, request: HttpRequest, object_id: str) -> Agent | None:
        found = self.get_object(request, object_id)
        return found if found is not None and self.has_change_permission(request, found) else None

    def _page(self, request: HttpRequest, agent: Agent, template: str, title: str, **more: Any) -> HttpResponse:
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

    def _written(self, request: HttpRequest, agent: Agent, write: Write, done: str) -> list[str]:
        """Do it as the signed-in person; the lines of what is wrong, none when it is done (and logged)."""
        try:
            write(acting_as(request, agent.workspace_id))
        except (Problem, SoulError) as error:
            return problems_of(error)
        self.log_change(request, agent, done)
        self.message_user(request, done, messages.SUCCESS)
        return []

    def _gone(self, request: HttpRequest, object_id: str) -> HttpResponse:
        answer: HttpResponse = self._get_obj_does_not_exist_redirect(request, self.opts, object_id)
        return answer

    # --- SOUL -----------------------------------------------------------------------------------------------
    @action(description="SOUL", url_path="soul")  # type: ignore[untyped-decorator]
    def soul_page(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Edit as YAML, check, save as a new version; compare versions; bring an old one back."""
        agent = self._agent(request, object_id)
        if agent is None:
            return self._gone(request, object_id)
        if request.method != "POST":
            return self._soul_shown(request, agent, _soul_form(agent))
        if "restore" in request.POST:
            return self._soul_restored(request, agent)
        form = SoulForm(request.POST)
        text, note = request.POST.get("soul", ""), request.POST.get("note", "")
        problems = (
            [] if form.is_valid() else [f"{name}: {said}" for name, lines in form.errors.items() for said in lines]
        )
        if "check" in request.POST or problems:
            return self._soul_shown(request, agent, form, problems=problems or _soul_problems(text), checked=text)
        based_on = form.cleaned_data["based_on"]

        def write(by: Access) -> object:
            return save_soul(agent=agent, by=by, text=text, note=note, based_on=based_on)

        problems = self._written(request, agent, write, f"The SOUL is saved: {note.strip()}")
        if problems:
            return self._soul_shown(request, agent, form, problems=problems, checked=text)
        return redirect("admin:agents_agent_soul_page", agent.pk)

    def _soul_restored(self, request: HttpRequest, agent: Agent) -> HttpResponse:
        number, based_on = request.POST.get("restore", ""), request.POST.get("based_on", "")
        known = number.isdecimal() and based_on.isdecimal() and len(number) < 9 and len(based_on) < 9
        version = agent.soul_versions.filter(number=int(number)).first() if known else None
        if version is None:
            return self._soul_shown(request, agent, _soul_form(agent), problems=["There is no such version."])

        def write(by: Access) -> object:
            return restore_soul(version=version, by=by, based_on=int(based_on))

        problems = self._written(request, agent, write, f"Version {number} is the current one again.")
        if problems:
            return self._soul_shown(request, agent, _soul_form(agent), problems=problems)
        return redirect("admin:agents_agent_soul_page", agent.pk)

    def _soul_shown(
        self, request: HttpRequest, agent: Agent, form: Form, *, problems: list[str] | None = None, checked: str = ""
    ) -> HttpResponse:
        tokens = None if problems else _tokens(checked or (agent.soul.source if agent.soul else ""))
        return self._page(
            request, agent, "soul", "SOUL",
            form=form, problems=problems, tokens=tokens, checked=bool(checked) and not problems,
            limit=SOUL_TOKEN_LIMIT, advice=SOUL_TOKEN_ADVICE, newest=agent.soul.number if agent.soul else 0,
            versions=_versions(agent, request.GET.get("diff", "")),
        )  # fmt: skip

    # --- trust ----------------------------------------------------------------------------------------------
    @action(description="Trust level", url_path="trust")  # type: ignore[untyped-decorator]
    def trust_page(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """The table of levels, a change with its note, and every change there ever was."""
        agent = self._agent(request, object_id)
        if agent is None:
            return self._gone(request, object_id)
        form = TrustForm(request.POST or None, initial={"level": agent.level})
        problems: list[str] = []
        if request.method == "POST":
            if form.is_valid():
                level, note = form.cleaned_data["level"], form.cleaned_data["note"]

                def write(by: Access) -> object:
                    return set_trust_level(agent=agent, by=by, level=level, note=note)

                problems = self._written(request, agent, write, f"The trust level is L{level}: {note}")
                if not problems:
                    return redirect("admin:agents_agent_trust_page", agent.pk)
            else:
                problems = ["Choose a level from 1 to 4 and say why in at most 300 characters."]
        return self._page(
            request, agent, "trust", "trust level",
            form=form, problems=problems, table=table(), acceptance=acceptance_of(agent),
            changes=agent.trust_changes.select_related("by"),
        )  # fmt: skip

    # --- channels -------------------------------------------------------------------------------------------
    @action(description="Channels", url_path="channels")  # type: ignore[untyped-decorator]
    def channels_page(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Which channels the agent was added to, among those the signed-in person sees."""
        agent = self._agent(request, object_id)
        if agent is None:
            return self._gone(request, object_id)
        choices = (
            self.choices_of(Channel, request).filter(workspace=agent.workspace_id, archived_at=None).order_by("name")
        )
        joined = set(
            ChannelMembership.objects.filter(participant=agent.participant).values_list("channel_id", flat=True)
        )
        form = ChannelsForm(request.POST or None, initial={"channels": joined})
        form.fields["channels"].queryset = choices  # type: ignore[attr-defined]
        problems: list[str] = []
        if request.method == "POST" and form.is_valid():
            wanted = set(form.cleaned_data["channels"].values_list("pk", flat=True))

            def write(by: Access) -> None:
                for channel in choices:
                    if channel.pk in wanted - joined:
                        add_to_channel(channel=channel, participant=agent.participant, by=by)
                    elif channel.pk in joined - wanted:
                        remove_from_channel(channel=channel, participant=agent.participant, by=by)

            problems = self._written(request, agent, write, "The channels are saved.")
            if not problems:
                return redirect("admin:agents_agent_channels_page", agent.pk)
        return self._page(request, agent, "channels", "channels", form=form, problems=problems, level=agent.level)

    # --- leaving and coming back ----------------------------------------------------------------------------
    @action(description="Deactivate or bring back", url_path="activity")  # type: ignore[untyped-decorator]
    def activity_page(self, request: HttpRequest, object_id: str) -> HttpResponse:
        agent = self._agent(request, object_id)
        if agent is None:
            return self._gone(request, object_id)
        problems: list[str] = []
        if request.method == "POST":
            verb = deactivate_agent if agent.is_active else reactivate_agent
            done = "It is deactivated and answers no more." if agent.is_active else "It is back and answers again."
            problems = self._written(request, agent, lambda by: verb(agent=agent, by=by), done)
            if not problems:
                return redirect("admin:agents_agent_change", agent.pk)
        return self._page(request, agent, "activity", "activity", problems=problems)


def _soul_form(agent: Agent) -> SoulForm:
    soul = agent.soul
    return SoulForm(initial={"soul": soul.source if soul else "", "based_on": soul.number if soul else 0})


def _soul_problems(text: str) -> list[str]:
    try:
        check_soul(text)
    except SoulError as error:
        return problems_of(error)
    return []


def _tokens(text: str) -> int | None:
    """Tokens of a SOUL in its fullest rendering; None when it cannot be read."""
    try:
        return check_soul(text)[1]
    except SoulError:
        return None


def _versions(agent: Agent, diffed: str) -> list[dict[str, Any]]:
    """Every version, newest first; the one named in `?diff=` with what it changed against the one before."""
    versions: list[SoulVersion] = list(agent.soul_versions.select_related("author"))
    rows = []
    for version, before in zip(versions, [*versions[1:], None], strict=True):
        row: dict[str, Any] = {"version": version, "is_current": version.pk == agent.soul_id, "changes": None}
        if diffed == str(version.number) and before is not None:
            row["changes"] = diff_souls(soul_from_dict(before.content), soul_from_dict(version.content))
            row["before"] = before
        rows.append(row)
    return rows
