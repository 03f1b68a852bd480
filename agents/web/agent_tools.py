"""The tools of the workspace's MCP servers that an agent may use, chosen by owners and admins."""

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from agents.agent.models import McpTool
from agents.agent.trust import trust_level
from agents.tools.mcp_servers.forms import ToolsForm
from agents.tools.mcp_servers.tools import allow_tools
from agents.web.access import access_agent, check_may
from openvibe.base.problems import Problem
from openvibe.workspaces.decorators import WorkspaceRequest, workspace_view


@workspace_view
@require_http_methods(["GET", "HEAD", "POST"])
def agent_tools(request: WorkspaceRequest, handle: str) -> HttpResponse:
    """A list of them all, with those it may use ticked; a POST saves the ticks."""
    check_may(request, "choose an agent's tools")
    agent = access_agent(request, handle)
    tools = McpTool.objects.filter(server__workspace=request.workspace, is_listed=True).select_related("server")
    choices = list(tools.order_by("server__name", "name"))
    allowed_ids = list(agent.mcp_tools.values_list("pk", flat=True))
    form = ToolsForm(
        request.POST if request.method == "POST" else None, initial={"tools": allowed_ids}, choices=choices
    )
    if request.method == "POST" and form.is_valid():
        chosen_tools = [tool for tool in choices if str(tool.pk) in form.cleaned_data["tools"]]
        try:
            allow_tools(agent=agent, tools=chosen_tools, by=request.access)
            messages.success(request, "Saved. It holds from its next answer on.")
            return redirect("agent-tools", request.workspace.slug, agent.handle)
        except Problem as problem:
            form.add_problem(problem)
    page = {
        "agent": agent,
        "form": form,
        "allowance": trust_level(agent.level).tool_actions,
        "has_tools": bool(choices),
    }
    return render(request, "agents/tools.html", page, status=422 if form.errors else 200)
