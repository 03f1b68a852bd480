"""Pages' actions on feedback, episodes and proposals."""

from collections.abc import Callable
from typing import Any

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST

from memory.episodes.models import Proposal
from memory.episodes.proposals import accept_proposal, reject_proposal, undo_proposal
from memory.episodes.queries import access_workspace_episode, feedback_by_message
from memory.episodes.services import (
    delete_episode,
    give_feedback,
    mark_applied,
    reopen_episode,
    suggest_always,
    withdraw_feedback,
)
from openvibe.base.problems import Missing, Problem
from openvibe.chat.models import Message
from openvibe.workspaces.decorators import WorkspaceRequest, workspace_view


@require_POST
@workspace_view
def feedback(request: WorkspaceRequest, message_id: int) -> HttpResponse:
    """👍, 👎 with optional words, or `none` to take it back."""
    messages = Message.objects.visible_to(request.access).select_related("author", "thread")
    message = messages.filter(pk=message_id).first()
    if message is None:
        raise Missing
    verdict = request.POST.get("verdict", "")
    text, tags = request.POST.get("text", ""), request.POST.getlist("tags")
    problem = ""
    if verdict == "none":
        withdraw_feedback(message=message, by=request.access)
    else:
        try:
            give_feedback(message=message, by=request.access, verdict=verdict, text=text, tags=tags)
        except Problem as error:
            if not request.htmx or error.field != "text":
                raise
            problem = error.message
    just_given = verdict == "down" and "text" not in request.POST
    return _feedback_response(
        request, message, just_given=just_given or bool(problem), problem=problem, typed=text if problem else ""
    )


EPISODE_VERBS: dict[str, Callable[..., object]] = {
    "applied": mark_applied,
    "suggest": suggest_always,
    "reopen": reopen_episode,
    "delete": delete_episode,
}


@require_POST
@workspace_view
def change_episode(request: WorkspaceRequest, episode_id: int, verb: str) -> HttpResponse:
    """The page that marks an episode applied, suggests it for the SOUL, reopens or deletes it; then to the message's
    feedback line, or to the agent's page where the button was pressed there."""
    episode = access_workspace_episode(request.access, episode_id)
    EPISODE_VERBS[verb](episode=episode, by=request.access)
    feedback = episode.feedback
    if request.POST.get("on") == "agent" or feedback is None:
        return redirect(f"{reverse('agent', args=[request.workspace.slug, episode.agent.handle])}#agent-memory")
    return _feedback_response(request, feedback.message)


def _feedback_response(request: WorkspaceRequest, message: Message, **more: Any) -> HttpResponse:
    if not request.htmx:
        return redirect("message", request.workspace.slug, message.pk)
    extras = feedback_by_message([message], request.access).get(message.pk, {})
    return render(request, "memory/_feedback_change.html", {"message": message, "extras": extras, **more})


DECISIONS: dict[str, Callable[..., Proposal]] = {
    "accept": accept_proposal,
    "reject": reject_proposal,
    "undo": undo_proposal,
}


@require_POST
@workspace_view
def decide_proposal(request: WorkspaceRequest, proposal_id: int, verb: str) -> HttpResponse:
    """The page that accepts, rejects or undoes a proposal, then shows the agent's page."""
    proposal = Proposal.objects.select_related("agent").filter(pk=proposal_id).first()
    if proposal is None or verb not in DECISIONS:
        raise Missing
    DECISIONS[verb](proposal=proposal, by=request.access)
    page = reverse("agent", args=[request.workspace.slug, proposal.agent.handle])
    return redirect(f"{page}#agent-proposals")
