"""Doors of feedback: one call each, answered with the message's feedback line or by going back to the thread."""

from typing import Any

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST

from memory.models import Episode
from memory.services import delete_episode, give_feedback, mark_applied, reopen, withdraw_feedback
from memory.web.extras import feedback_of
from openvibe.base.problems import Missing, Problem
from openvibe.chat.models import Message, Thread
from openvibe.workspaces.access import Access
from openvibe.workspaces.web.doors import WorkspaceRequest, in_workspace


@require_POST
@in_workspace
def feedback(request: WorkspaceRequest, message_id: int) -> HttpResponse:
    """👍, 👎 with optional words, or `none` to take it back."""
    message = _message(request, message_id)
    verdict = request.POST.get("verdict", "")
    text, tags = request.POST.get("text", ""), request.POST.getlist("tags")
    problem = ""
    if verdict == "none":
        withdraw_feedback(message=message, by=request.access)
    else:
        try:
            give_feedback(message=message, by=request.access, verdict=verdict, text=text, tags=tags)
        except Problem as refused:
            if not request.htmx or refused.field != "text":
                raise
            problem = refused.message
    just_given = verdict == "down" and "text" not in request.POST
    return _answer(
        request, message, just_given=just_given or bool(problem), problem=problem, typed=text if problem else ""
    )


@require_POST
@in_workspace
def episode_applied(request: WorkspaceRequest, episode_id: int) -> HttpResponse:
    episode = visible_episode(request.access, episode_id)
    mark_applied(episode=episode, by=request.access)
    return _back(request, episode)


@require_POST
@in_workspace
def episode_reopen(request: WorkspaceRequest, episode_id: int) -> HttpResponse:
    episode = visible_episode(request.access, episode_id)
    reopen(episode=episode, by=request.access)
    return _back(request, episode)


@require_POST
@in_workspace
def episode_delete(request: WorkspaceRequest, episode_id: int) -> HttpResponse:
    episode = visible_episode(request.access, episode_id)
    delete_episode(episode=episode, by=request.access)
    return _back(request, episode)


def visible_episode(access: Access, episode_id: int) -> Episode:
    """An episode of the asker's workspace, learned where she may read. Raises Missing."""
    found = (
        Episode.objects.filter(pk=episode_id, agent__workspace_id=access.workspace_id)
        .select_related("agent", "feedback__message__thread", "feedback__message__author")
        .first()
    )
    if found is None:
        raise Missing
    threads = Thread.objects.visible_to(access)
    if found.thread_id is not None and not threads.filter(pk=found.thread_id).exists():
        raise Missing
    return found


def _message(request: WorkspaceRequest, message_id: int) -> Message:
    messages = Message.objects.visible_to(request.access)
    message: Message | None = messages.select_related("author", "thread").filter(pk=message_id).first()
    if message is None:
        raise Missing
    return message


def _back(request: WorkspaceRequest, episode: Episode) -> HttpResponse:
    """To the message's feedback line, or to the agent's page where the button was pressed there."""
    feedback = episode.feedback
    if request.POST.get("on") == "agent" or feedback is None:
        return redirect("agent", request.workspace.slug, episode.agent.handle)
    return _answer(request, feedback.message)


def _answer(request: WorkspaceRequest, message: Message, **more: Any) -> HttpResponse:
    if not request.htmx:
        return redirect("message", request.workspace.slug, message.pk)
    extras = feedback_of([message], request.access).get(message.pk, {})
    return render(request, "memory/_feedback.html", {"message": message, "extras": extras, **more})
