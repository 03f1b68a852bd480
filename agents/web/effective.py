"""The page of what holds in a channel or a thread, and why."""

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from agents.tools.effective import Effective, effective_here
from openvibe.chat.queries import access_channel, access_thread
from openvibe.workspaces.decorators import WorkspaceRequest, workspace_view


@workspace_view
@require_safe
def channel_effective(request: WorkspaceRequest, channel_id: int) -> HttpResponse:
    """What holds in every thread of a channel."""
    channel = access_channel(request.access, channel_id)
    return _render(request, effective_here(request.access, request.workspace, channel))


@workspace_view
@require_safe
def thread_effective(request: WorkspaceRequest, thread_id: int) -> HttpResponse:
    """What holds in one thread, or in a dive."""
    thread = access_thread(request.access, thread_id)
    return _render(request, effective_here(request.access, request.workspace, thread.channel, thread))


def _render(request: WorkspaceRequest, effective: Effective) -> HttpResponse:
    return render(request, "agents/effective.html", {"effective": effective, "slug": request.workspace.slug})
