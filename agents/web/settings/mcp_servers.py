"""Settings pages of MCP servers, for owners and admins: connecting one, fetching its tools, and what those may do."""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from django.contrib import messages
from django.db import transaction
from django.db.models import Count, Q, QuerySet
from django.forms import BoundField
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods

from agents.agent.models import McpServer, McpTool
from agents.tools.mcp_servers.forms import McpServerForm, ToolUsesForm
from agents.tools.mcp_servers.services import (
    delete_server,
    describe_arguments,
    describe_fetch,
    save_server,
    set_tool_uses,
)
from agents.tools.mcp_servers.tools import refresh_tools
from agents.web.access import check_may
from openvibe.base.forms import field_changes
from openvibe.base.params import MAX_ID
from openvibe.base.problems import Missing, Problem
from openvibe.workspaces.decorators import WorkspaceRequest, workspace_view


@workspace_view
@require_http_methods(["GET", "HEAD"])
def servers(request: WorkspaceRequest) -> HttpResponse:
    """The MCP servers of this workspace, each with how many tools it offers."""
    check_may(request, "see and change MCP servers here")
    rows = _servers(request).annotate(tool_count=Count("tools", filter=Q(tools__is_listed=True))).order_by("name")
    return render(request, "agents/settings_mcp_servers.html", {"servers": rows})


@never_cache
@sensitive_post_parameters("token")
@workspace_view
@require_http_methods(["GET", "HEAD", "POST"])
def server_create(request: WorkspaceRequest) -> HttpResponse:
    check_may(request, "see and change MCP servers here")
    return _save_form(request, McpServer(workspace=request.workspace))


@never_cache
@sensitive_post_parameters("token")
@workspace_view
@require_http_methods(["GET", "HEAD", "POST"])
def server_change(request: WorkspaceRequest, server_id: int) -> HttpResponse:
    """The form of one and its tools; with `act` = `fetch` its tools are fetched, with `tools` it is said what they may
    do, with `delete` it goes."""
    check_may(request, "see and change MCP servers here")
    server = _servers(request).filter(pk=min(server_id, MAX_ID)).first()
    if server is None:
        raise Missing
    act = request.POST.get("act", "")
    if act == "fetch":
        try:
            messages.success(request, describe_fetch(server, refresh_tools(server=server)))
        except Problem as problem:
            messages.error(request, problem.message)
        return redirect("settings-mcp-server", request.workspace.slug, server.pk)
    if act == "delete":
        delete_server(server=server, by=request.access)
        messages.success(request, f"{server} is deleted. No agent has its tools any more.")
        return redirect("settings-mcp-servers", request.workspace.slug)
    return _save_tools(request, server) if act == "tools" else _save_form(request, server)


def _save_tools(request: WorkspaceRequest, server: McpServer) -> HttpResponse:
    form = ToolUsesForm(_tools(server), request.POST)
    if form.is_valid():
        try:
            count = set_tool_uses(server=server, by=request.access, uses=form.uses())
            messages.success(request, "Saved. It holds from the next call on." if count else "Nothing was changed.")
            return redirect("settings-mcp-server", request.workspace.slug, server.pk)
        except Problem as problem:
            form = ToolUsesForm(_tools(server))  # what the server says now is what has to be read
            return _render(request, server, McpServerForm(instance=server), form, problem=problem)
    return _render(request, server, McpServerForm(instance=server), form)


@transaction.atomic
def _save_form(request: WorkspaceRequest, server: McpServer) -> HttpResponse:
    form = McpServerForm(request.POST or None, instance=server)
    if request.method == "POST" and form.is_valid():
        save_server(server=form.instance, by=request.access, changes=field_changes(form))
        messages.success(request, f"{form.instance} is saved. Fetch its tools to see what it offers.")
        return redirect("settings-mcp-server", request.workspace.slug, form.instance.pk)
    return _render(request, server, form, ToolUsesForm(_tools(server)))


class ToolRow(NamedTuple):
    """A tool, all that agents read of it, and the fields of what it may do."""

    tool: McpTool
    arguments: list[tuple[str, str]]
    definition: str
    agents: list[Any]
    effect: BoundField
    asks: BoundField
    fingerprint: BoundField


def _render(
    request: WorkspaceRequest,
    server: McpServer,
    form: McpServerForm,
    uses: ToolUsesForm,
    problem: Problem | None = None,
) -> HttpResponse:
    rows = [
        ToolRow(
            tool,
            list(describe_arguments(tool.input_schema)),
            json.dumps(tool.input_schema, ensure_ascii=False),
            list(tool.agents.all()),
            *(uses[f"{name}-{tool.pk}"] for name in ("effect", "asks", "fingerprint")),
        )
        for tool in uses.tools
    ]
    page = {"form": form, "server": server, "tools": rows, "uses": uses, "problem": problem}
    status = problem.status if problem else 400 if form.errors or uses.errors else 200
    return render(request, "agents/settings_mcp_server.html", page, status=status)


def _servers(request: WorkspaceRequest) -> QuerySet[McpServer]:
    return McpServer.objects.filter(workspace=request.workspace).select_related("workspace")


def _tools(server: McpServer) -> Sequence[McpTool]:
    """The tools that were ever fetched, those offered now first."""
    if server._state.adding:
        return []
    rows = server.tools.prefetch_related("agents__participant").order_by("-is_listed", "name")
    return list(rows)
