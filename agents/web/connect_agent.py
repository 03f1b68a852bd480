"""The page *Connect an agent*: one that a program elsewhere answers for, and the one line that has the program join."""

from typing import Any

from django import forms
from django.db import transaction
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from agents.agent.models import Agent, JoinCode
from agents.agent.services import create_connected_agent
from agents.agent.soul import SoulError
from agents.agent.soul.plain import FORM_FIELDS
from agents.connect.join_codes import (
    JOIN_MINUTES,
    KNOWN_COMMANDS,
    MAX_COMMAND_CHARACTERS,
    check_command,
    create_join_code,
    join_lines,
    latest_join_code,
)
from agents.runs.external.presence import read_presences
from agents.web.access import access_agent, check_may
from agents.web.agent_settings import PlaceForm
from openvibe.base.forms import ServiceForm
from openvibe.base.problems import Problem
from openvibe.engines.text.cleaning import MAX_HANDLE_CHARACTERS
from openvibe.workspaces.decorators import WorkspaceRequest, workspace_view

OTHER = "other"
LEVELS = (
    (1, "L1 Observer: reads the channels it is in, and answers when it is mentioned"),
    (2, "L2 Advisor: also follows threads, sees results of dives, and suggests knowledge"),
    (3, "L3 Operator: also reads public channels and knowledge, and acts where an admin approved it"),
    (4, "L4 Autonomous: does most things by itself, and asks before it acts outside"),
)


class CommandForm(ServiceForm):
    """The command line that is the agent."""

    known = forms.ChoiceField(
        label="Which command",
        choices=[
            *((each.command, f"{each.name} ({each.command})") for each in KNOWN_COMMANDS),
            (OTHER, "Another command"),
        ],
        required=False,
        help_text="What you type in a terminal to start it. It has to be installed where the agent is to run.",
    )
    command = forms.CharField(
        label="Another command",
        required=False,
        max_length=MAX_COMMAND_CHARACTERS,
        widget=forms.TextInput(
            attrs={"spellcheck": "false", "autocapitalize": "off", "placeholder": "my-agent --fast"}
        ),
        help_text="Any program that answers: through the Agent Client Protocol, or what it reads with what it writes.",
    )

    def clean(self) -> dict[str, Any] | None:
        cleaned = super().clean()
        known, command = self.cleaned_data.get("known"), self.cleaned_data.get("command", "").strip()
        if "known" in self.errors or "command" in self.errors:
            return cleaned
        try:
            self.cleaned_data["command"] = check_command(command if known == OTHER or not known else str(known))
        except Problem as problem:
            self.add_problem(problem)
        return cleaned


class ConnectForm(CommandForm, PlaceForm):
    endpoint = None  # type: ignore[assignment]  # takes the field away: its program has a model of its own
    name = forms.CharField(max_length=80, label="Name")
    handle = forms.CharField(
        max_length=MAX_HANDLE_CHARACTERS + 1,
        required=False,
        label="Handle",
        help_text="What people type after @. Empty: made from the name.",
    )
    purpose = forms.CharField(
        max_length=300, label="What is it for?", help_text="One line, such as “Reviews what we change in the shop”."
    )
    level = forms.TypedChoiceField(
        coerce=int, choices=LEVELS, initial=1, widget=forms.RadioSelect, label="How far it is trusted"
    )
    field_order = ("name", "handle", "purpose", "known", "command", "channels", "level")

    @transaction.atomic
    def create(self, request: WorkspaceRequest) -> Agent:
        """The agent, with a first code for its program. Raises Problem and SoulError."""
        data = self.cleaned_data
        agent = create_connected_agent(
            by=request.access,
            workspace=request.workspace,
            handle=data["handle"],
            name=data["name"],
            purpose=data["purpose"],
            level=data["level"],
            channels=data["channels"],
        )
        create_join_code(agent=agent, by=request.access, command=data["command"])
        return agent

    def add_soul_problem(self, error: SoulError) -> None:
        for each in error.problems:
            field = FORM_FIELDS.get(each.field.partition("[")[0])
            self.add_error(field if field in self.fields else None, each.message)


@workspace_view
@require_http_methods(["GET", "HEAD", "POST"])
def connect_agent(request: WorkspaceRequest) -> HttpResponse:
    """The form of an agent whose program runs elsewhere. It leads to the line that has the program join."""
    check_may(request, "connect agents")
    form = ConnectForm(request)
    if request.method == "POST" and form.is_valid():
        try:
            agent = form.create(request)
            return redirect("agent-connect", request.workspace.slug, agent.handle)
        except Problem as problem:
            form.add_problem(problem)
        except SoulError as error:
            form.add_soul_problem(error)
    return render(request, "agents/connect_agent.html", {"form": form}, status=form.status)


@never_cache
@workspace_view
@require_http_methods(["GET", "HEAD", "POST"])
def agent_connect(request: WorkspaceRequest, handle: str) -> HttpResponse:
    """The line with a code, and whether the agent's program is there. A POST makes a fresh code."""
    check_may(request, "connect agents")
    agent = access_agent(request, handle)
    latest = latest_join_code(agent)
    form = CommandForm(request.POST if request.method == "POST" else None, initial=_command_initial(latest))
    if request.method == "POST" and form.is_valid():
        try:
            create_join_code(agent=agent, by=request.access, command=form.cleaned_data["command"])
            return redirect("agent-connect", request.workspace.slug, agent.handle)
        except Problem as problem:
            form.add_problem(problem)
    page = {
        "agent": agent,
        "form": form,
        "code": latest,
        "presence": read_presences([agent], request.access)[agent.pk],
        "minutes": JOIN_MINUTES,
        **_lines(request, latest),
    }
    return render(request, "agents/agent_connect.html", page, status=form.status)


def _command_initial(code: JoinCode | None) -> dict[str, str]:
    if code is None:
        return {}
    is_known = any(each.command == code.command for each in KNOWN_COMMANDS)
    return {"known": code.command} if is_known else {"known": OTHER, "command": code.command}


def _lines(request: WorkspaceRequest, code: JoinCode | None) -> dict[str, str]:
    """The lines to paste, for who made the code, while it holds."""
    if code is None or not code.is_open or code.made_by_id != request.access.participant_id:
        return {}
    lines = join_lines(code, request.build_absolute_uri("/"))
    return {"line": lines.uv, "pip_line": lines.pip}
