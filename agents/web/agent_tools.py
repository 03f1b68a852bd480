"""What an agent may use, chosen by owners and admins: tools of the workspace's MCP servers, and rules about calls that
an agent elsewhere makes with tools of its own."""

from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_http_methods, require_POST

from agents.agent.call_rules import create_call_rule, delete_call_rule, rules_of
from agents.agent.models import Agent, CallRule, McpTool
from agents.agent.trust import CALL_LABELS, call_kind, call_rule, trust_level
from agents.tools.mcp_servers.forms import ToolsForm
from agents.tools.mcp_servers.tools import allow_tools
from agents.web.access import access_agent, check_may
from agents.web.agent_settings import open_channels
from openvibe.base.forms import ServiceForm
from openvibe.base.problems import Problem
from openvibe.workspaces.decorators import WorkspaceRequest, workspace_view

CALL_RULE_WORDS = {
    "allowed": "done without asking",
    "approved": "asked about, unless a rule allows it",
    "most": "done without asking, unless a rule says otherwise",
    "ask": "asked about, unless a rule allows it",
    "refused": "refused",
}


class RuleForm(ServiceForm):
    """One rule about an agent's own calls."""

    effect = forms.ChoiceField(choices=CallRule.Effect.choices, label="What becomes of it")
    kind = forms.ChoiceField(choices=list(CALL_LABELS.items()), label="What it does")
    pattern = forms.CharField(
        required=False,
        max_length=500,
        label="Command or path",
        help_text="Empty: all of them. In a command, * is any text, but never a further command: pytest * is about "
        "pytest -q, not about pytest; rm x. In a path, * is any text in a name and ** any folders: src/**.",
        widget=forms.TextInput(attrs={"dir": "ltr", "spellcheck": "false", "autocomplete": "off"}),
    )
    channel: "forms.ModelChoiceField[Any]" = forms.ModelChoiceField(
        None, required=False, label="Where it holds", empty_label="Everywhere"
    )

    def __init__(self, request: WorkspaceRequest, data: Any = None) -> None:
        super().__init__(data)
        self.fields["channel"].queryset = open_channels(request.access).exclude(name="")  # type: ignore[attr-defined]  # a field of models


@workspace_view
@require_http_methods(["GET", "HEAD", "POST"])
def agent_tools(request: WorkspaceRequest, handle: str) -> HttpResponse:
    """A list of all tools, with those it may use ticked, and the rules; a POST saves the ticks."""
    check_may(request, "choose an agent's tools")
    agent = access_agent(request, handle)
    choices = _listed_tools(request)
    form = _tools_form(request, agent, choices)
    if request.method == "POST" and form.is_valid():
        chosen_tools = [tool for tool in choices if str(tool.pk) in form.cleaned_data["tools"]]
        try:
            allow_tools(agent=agent, tools=chosen_tools, by=request.access)
            messages.success(request, "Saved. It holds from its next answer on.")
            return redirect("agent-tools", request.workspace.slug, agent.handle)
        except Problem as problem:
            form.add_problem(problem)
    return _render_tools(request, agent, form, RuleForm(request), status=422 if form.errors else 200)


@workspace_view
@require_POST
def rule_create(request: WorkspaceRequest, handle: str) -> HttpResponse:
    """Makes a rule; what was typed wrongly stands in the form again."""
    check_may(request, "choose an agent's tools")
    agent = access_agent(request, handle)
    form = RuleForm(request, request.POST)
    if form.is_valid():
        try:
            values = {**form.cleaned_data}
            channel = values.pop("channel")
            create_call_rule(agent=agent, by=request.access, channel_id=channel and channel.pk, **values)
            messages.success(request, "Saved. It holds from its next call on.")
            return redirect("agent-tools", request.workspace.slug, agent.handle)
        except Problem as problem:
            form.add_problem(problem)
    tools_form = _tools_form(request, agent, _listed_tools(request), is_sent=False)
    return _render_tools(request, agent, tools_form, form, status=422)


@workspace_view
@require_POST
def rule_delete(request: WorkspaceRequest, handle: str, rule_id: int) -> HttpResponse:
    check_may(request, "choose an agent's tools")
    agent = access_agent(request, handle)
    delete_call_rule(rule=get_object_or_404(rules_of(agent, request.access), pk=rule_id), by=request.access)
    messages.success(request, "Deleted. It holds no more.")
    return redirect("agent-tools", request.workspace.slug, agent.handle)


def _listed_tools(request: WorkspaceRequest) -> list[McpTool]:
    tools = McpTool.objects.filter(server__workspace=request.workspace, is_listed=True).select_related("server")
    return list(tools.order_by("server__name", "name"))


def _tools_form(request: WorkspaceRequest, agent: Agent, choices: list[McpTool], *, is_sent: bool = True) -> ToolsForm:
    allowed_ids = list(agent.mcp_tools.values_list("pk", flat=True))
    data = request.POST if request.method == "POST" and is_sent else None
    return ToolsForm(data, initial={"tools": allowed_ids}, choices=choices)


def _render_tools(
    request: WorkspaceRequest, agent: Agent, form: ToolsForm, rule_form: RuleForm, *, status: int
) -> HttpResponse:
    page = {
        "agent": agent,
        "form": form,
        "allowance": trust_level(agent.level).tool_actions,
        "has_tools": bool(form.fields["tools"].choices),  # type: ignore[attr-defined]  # a field of choices
        "rule_form": rule_form,
        "rules": [(rule, CALL_LABELS[call_kind(rule.kind)]) for rule in rules_of(agent, request.access)],
        "call_table": [(label, CALL_RULE_WORDS[call_rule(agent.level, kind)]) for kind, label in CALL_LABELS.items()],
    }
    return render(request, "agents/tools.html", page, status=status)
