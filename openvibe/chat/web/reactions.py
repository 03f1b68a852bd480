"""Emoji on a message: choosing one, adding it, taking it away."""

from typing import Any

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods
from django_htmx.http import reswap, retarget

from openvibe.base.problems import Missing, Problem
from openvibe.chat import services
from openvibe.chat.models import Message, Reaction
from openvibe.chat.queries import access_message
from openvibe.chat.web.presenters import reaction_chips
from openvibe.workspaces.decorators import WorkspaceRequest, workspace_view
from openvibe.workspaces.models import Participant

MAX_REACTORS = 100
"""The most people of one message who are named with what they put on it."""


@workspace_view
@require_http_methods(["GET", "HEAD", "POST"])
def message_reactions(request: WorkspaceRequest, message_id: int) -> HttpResponse:
    """The choice of emoji, or with `?close` what stands without it; POST takes one to `add` or to `remove`."""
    message = access_message(request.access, message_id)
    if message.is_deleted:
        raise Missing("This message was deleted.")
    if request.method != "POST":
        return _render_reactions(request, message, is_choosing="close" not in request.GET)
    emoji = request.POST.get("remove") or request.POST.get("add", "")
    try:
        if "remove" in request.POST:
            reaction = services.remove_reaction(message=message, by=request.access, emoji=emoji)
        else:
            reaction = services.add_reaction(message=message, by=request.access, emoji=emoji).emoji
    except Missing:
        raise
    except Problem as problem:
        return _render_refused(request, message, problem, emoji)
    if not request.htmx:
        return redirect("message", request.workspace.slug, message.pk)
    return _render_reactions(request, access_message(request.access, message_id), changed=reaction)


def _render_reactions(request: WorkspaceRequest, message: Message, *, status: int = 200, **more: Any) -> HttpResponse:
    name = "chat/_reactions.html" if request.htmx else "chat/reactions.html"
    is_choosing = bool(more.get("is_choosing"))
    context = {
        "message": message,
        "thread": message.thread,
        "reactions": reaction_chips(message, request.access.participant_id),
        "reactors": _reactors(message) if is_choosing else {},
        "offered": services.OFFERED_EMOJI,
        **more,
    }
    return render(request, name, context, status=status)


def _reactors(message: Message) -> dict[str, list[Participant]]:
    """The people who put each emoji there, in the order they did; of all of them the first MAX_REACTORS. One query."""
    reactors: dict[str, list[Participant]] = {}
    rows = Reaction.objects.filter(message=message).select_related("participant").order_by("id")
    for reaction in rows[:MAX_REACTORS]:
        reactors.setdefault(reaction.emoji, []).append(reaction.participant)
    return reactors


def _render_refused(request: WorkspaceRequest, message: Message, problem: Problem, emoji: str) -> HttpResponse:
    response = _render_reactions(
        request, message, status=problem.status, is_choosing=True, problem=problem.message, typed=emoji[:80]
    )
    return reswap(retarget(response, f"#reactions-{message.pk}"), "outerHTML") if request.htmx else response
