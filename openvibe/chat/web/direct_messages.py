"""Beginning direct messages: to whom, and what. Going on with them is a thread's page."""

from typing import Any
from uuid import uuid4

from django.core.paginator import Paginator
from django.db import transaction
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from openvibe.base.params import int_param, words_param
from openvibe.base.problems import Problem
from openvibe.chat import services
from openvibe.chat.queries import access_recipient, find_direct_thread, list_recipients
from openvibe.engines.text.cleaning import MAX_BODY_CHARACTERS
from openvibe.workspaces.decorators import WorkspaceRequest, workspace_view
from openvibe.workspaces.models import Participant

MAX_OFFERED_RECIPIENTS = 50
"""People and agents to choose from at a time; others are searched for."""


@workspace_view
@require_http_methods(["GET", "HEAD", "POST"])
def direct_message(request: WorkspaceRequest) -> HttpResponse:
    """The page of whom to write to; with `?to=` the conversation with them, where there is none yet an empty one with
    its composer. POST sends `body` to `to`; the same `client_id` twice is one message."""
    slug, sent = request.workspace.slug, request.POST if request.method == "POST" else None
    to = int_param(request.GET if sent is None else sent, "to")
    if sent is not None:
        body = sent.get("body", "").replace("\r\n", "\n")
        try:
            return redirect("thread", slug, _send(request, to, body))
        except Problem as problem:
            return _render(request, _recipient(request, to), body=body.replace("\x00", ""), problem=problem)
    if to is not None and (thread := find_direct_thread(by=request.access, participant_id=to)) is not None:
        return redirect("thread", slug, thread.pk)
    return _render(request, _recipient(request, to))


def _recipient(request: WorkspaceRequest, to: int | None) -> Participant | None:
    """Somebody the asker may write to; None for nobody of that number."""
    return list_recipients(request.access).filter(pk=to).first() if to is not None else None


def _render(
    request: WorkspaceRequest, recipient: Participant | None, *, body: str = "", problem: Problem | None = None
) -> HttpResponse:
    context: dict[str, Any] = {"recipient": recipient, "body": body, "problem": problem}
    if recipient is None:
        words = words_param(request.GET)
        page = Paginator(list_recipients(request.access, words), MAX_OFFERED_RECIPIENTS).get_page(1)
        context |= {"recipients": list(page), "page": page, "words": words}
    else:
        context |= {"max_characters": MAX_BODY_CHARACTERS, "client_id": request.POST.get("client_id") or uuid4().hex}
    return render(request, "chat/direct_message.html", context, status=problem.status if problem else 200)


@transaction.atomic
def _send(request: WorkspaceRequest, to: int | None, body: str) -> int:
    """The thread in which it was said."""
    if to is None:
        raise Problem("Choose whom to write to. Your text is kept.", code="unknown_participant", field="to")
    thread, _ = services.open_direct_messages(by=request.access, recipient=access_recipient(request.access, to))
    client_id = request.POST.get("client_id", "")
    services.post_message(thread=thread, by=request.access, body=body, client_id=client_id)
    return thread.pk
