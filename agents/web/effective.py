"""The page of what holds in a channel or a thread, and why."""

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from agents.tools.effective import Effective, effective_in
from openvibe.chat.queries import access_channel_place, access_thread_place
from openvibe.workspaces.decorators import WorkspaceRequest, workspace_view


@workspace_view
@require_safe
def channel_effective(request: WorkspaceRequest, channel_id: int) -> HttpResponse:
    """What holds in every thread of a channel."""
    return _render(request, effective_in(access_channel_place(request.access, channel_id), request.access))


@workspace_view
@require_safe
def thread_effective(request: WorkspaceRequest, thread_id: int) -> HttpResponse:
    """What holds in one thread, or in a dive."""
    return _render(request, effective_in(access_thread_place(request.access, thread_id), request.access))


def _render(request: WorkspaceRequest, effective: Effective) -> HttpResponse:
    return render(request, "agents/effective.html", {"effective": effective, "slug": request.workspace.slug})
