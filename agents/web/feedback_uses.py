"""The page of what one piece of feedback changed."""

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from agents.statistics.feedback_uses import read_feedback_uses
from agents.web.access import access_agent
from memory.models import Episode
from memory.queries import access_episode, is_public_thread
from openvibe.base.problems import Missing
from openvibe.workspaces.decorators import WorkspaceRequest, workspace_view


@workspace_view
@require_safe
def feedback_uses(request: WorkspaceRequest, handle: str, episode_id: int) -> HttpResponse:
    """Where the feedback stands now, and the answers that were written with it: for admins and for who gave it. A page,
    or a fragment for the panel."""
    agent, episode = access_agent(request, handle), access_episode(request.access, episode_id)
    if episode.agent_id != agent.participant_id or episode.kind != Episode.Kind.FEEDBACK_RECEIVED:
        raise Missing
    page = {
        "agent": agent,
        "episode": episode,
        "is_public": episode.thread_id is None or is_public_thread(episode.thread_id),
        "uses": read_feedback_uses(episode, request.access),
    }
    return render(request, "agents/_feedback_uses.html" if request.htmx else "agents/feedback_uses.html", page)
