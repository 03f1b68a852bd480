"""Beginning direct messages: to whom, and what. Going on with them is a thread's page."""

from django.core.paginator import Paginator
from django.db import transaction
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from openvibe.base.params import int_param, words_param
from openvibe.base.problems import Problem
from openvibe.chat import services
from openvibe.chat.queries import access_recipient, find_direct_thread, list_recipients
from openvibe.chat.web.channels import MAX_OFFERED_PARTICIPANTS
from openvibe.engines.text.cleaning import MAX_BODY_CHARACTERS
from openvibe.workspaces.decorators import WorkspaceRequest, workspace_view


@workspace_view
@require_http_methods(["GET", "HEAD", "POST"])
def direct_message(request: WorkspaceRequest) -> HttpResponse:
    """A first message, to whom `?to=` names; where there are messages already, to those. POST sends `body` to `to`."""
    problem = None
    to = int_param(request.POST if request.method == "POST" else request.GET, "to")
    body = request.POST.get("body", "").replace("\r\n", "\n")
    if request.method == "POST":
        try:
            return redirect("thread", request.workspace.slug, _send(request, to, body))
        except Problem as error:
            problem = error
    elif to is not None and (thread := find_direct_thread(by=request.access, participant_id=to)) is not None:
        return redirect("thread", request.workspace.slug, thread.pk)
    words = words_param(request.GET)
    page = Paginator(list_recipients(request.access, words), MAX_OFFERED_PARTICIPANTS).get_page(1)
    recipients = list(page)
    if to is not None and all(one.pk != to for one in recipients):
        recipients[:0] = list_recipients(request.access).filter(pk=to)
    context = {
        "recipients": recipients,
        "page": page,
        "words": words,
        "to": to,
        "body": body.replace("\x00", ""),
        "problem": problem,
        "max_characters": MAX_BODY_CHARACTERS,
    }
    return render(request, "chat/direct_message.html", context, status=problem.status if problem else 200)


@transaction.atomic
def _send(request: WorkspaceRequest, to: int | None, body: str) -> int:
    """The thread in which it was said."""
    if to is None:
        raise Problem("Choose whom to write to. Your text is kept.", code="unknown_participant", field="to")
    thread, _ = services.open_direct_messages(by=request.access, recipient=access_recipient(request.access, to))
    services.post_message(thread=thread, by=request.access, body=body)
    return thread.pk
