"""The picture of an agent, for owners and admins."""

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from agents.web.access import access_agent, check_may
from openvibe.base.problems import Problem
from openvibe.workspaces.decorators import WorkspaceRequest, workspace_view
from openvibe.workspaces.services import remove_picture, upload_picture


@workspace_view
@require_http_methods(["GET", "HEAD", "POST"])
def agent_picture(request: WorkspaceRequest, handle: str) -> HttpResponse:
    """The page that sets the agent's `picture`, or with `remove` removes it."""
    check_may(request, "change an agent's picture")
    agent, problem = access_agent(request, handle), None
    if request.method == "POST":
        try:
            if "remove" in request.POST:
                remove_picture(participant=agent.participant)
                messages.success(request, "Its picture is gone. Its initial is shown instead.")
            else:
                upload_picture(participant=agent.participant, upload=request.FILES.get("picture"))
                messages.success(request, "Its picture is saved.")
            return redirect("agent-picture", request.workspace.slug, handle)
        except Problem as error:
            problem = error
    page = {"agent": agent, "picture_problem": problem}
    return render(request, "agents/picture.html", page, status=problem.status if problem else 200)
