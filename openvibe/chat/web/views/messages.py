"""One message: its fragment, its history, edit and delete."""

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_safe

from openvibe.base.problems import Conflict, Missing, Problem
from openvibe.chat.models import Message
from openvibe.chat.services import delete_message, edit_message
from openvibe.chat.web.finding import message_of
from openvibe.chat.web.rows import rows_of
from openvibe.workspaces.web.doors import WorkspaceRequest, in_workspace


@in_workspace
@require_safe
def message(request: WorkspaceRequest, message_id: int) -> HttpResponse:
    """The message alone for htmx; its place in the thread for everybody else."""
    found = message_of(request, message_id)
    return _fragment(request, found) if request.htmx else _to(request, found)


def _to(request: WorkspaceRequest, found: Message) -> HttpResponse:
    place = f"?at={found.seq}#m-{found.seq}"
    if found.thread.parent_id is not None:
        return redirect(f"{reverse('dive', args=[request.workspace.slug, found.thread.dive.pk])}{place}")
    to = redirect("thread", request.workspace.slug, found.thread_id)
    to["Location"] += place
    return to


def _fragment(request: WorkspaceRequest, found: Message) -> HttpResponse:
    before = Message.objects.filter(thread_id=found.thread_id, seq=found.seq - 1).first()
    row = rows_of([found], request.access, before=before)[0]
    return render(request, "chat/_message.html", {"row": row, "thread": found.thread})


@in_workspace
@require_safe
def message_history(request: WorkspaceRequest, message_id: int) -> HttpResponse:
    """What an edited message said before, oldest first."""
    found = message_of(request, message_id)
    if found.is_deleted:
        raise Missing("This message was deleted, and its history with it.")
    context = {"message": found, "revisions": found.revisions.all(), "thread": found.thread}
    return render(request, "chat/_history.html" if request.htmx else "chat/history.html", context)


@in_workspace
@require_http_methods(["GET", "HEAD", "POST"])
def message_edit(request: WorkspaceRequest, message_id: int) -> HttpResponse:
    """The form, and saving it. A text changed elsewhere meanwhile is shown beside the new one; nothing is lost."""
    found = message_of(request, message_id)
    if request.method != "POST":
        if found.author_id != request.access.participant_id or found.is_deleted:
            raise Missing
        return _form(request, found, text=found.body)
    body, based_on = (request.POST.get(name, "").replace("\r\n", "\n") for name in ("body", "based_on"))
    try:
        edit_message(message=found, by=request.access, body=body, based_on=based_on)
    except Missing:
        raise
    except Problem as problem:
        found.refresh_from_db(fields=["body"])
        return _form(request, found, text=body.replace("\x00", ""), problem=problem)
    found = message_of(request, message_id)
    return _fragment(request, found) if request.htmx else _to(request, found)


def _form(request: WorkspaceRequest, found: Message, *, text: str, problem: Problem | None = None) -> HttpResponse:
    context = {
        "message": found,
        "thread": found.thread,
        "text": text,
        "problem": problem,
        "theirs": found.body if isinstance(problem, Conflict) else None,
    }
    name = "chat/_edit.html" if request.htmx else "chat/edit.html"
    response = render(request, name, context, status=problem.status if problem else 200)
    if problem and request.htmx:
        response.headers["HX-Retarget"] = f"#edit-{found.pk}"
        response.headers["HX-Reswap"] = "outerHTML"
    return response


@in_workspace
@require_http_methods(["GET", "HEAD", "POST"])
def message_delete(request: WorkspaceRequest, message_id: int) -> HttpResponse:
    """Asks once, then leaves a tombstone."""
    found = message_of(request, message_id)
    if request.method != "POST":
        return render(request, "chat/delete.html", {"message": found, "thread": found.thread})
    delete_message(message=found, by=request.access)
    found = message_of(request, message_id)
    return _fragment(request, found) if request.htmx else _to(request, found)
