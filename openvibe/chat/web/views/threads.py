"""The thread page, its stretches of messages, and what can be changed about a thread."""

from django.db import transaction
from django.http import HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from openvibe.base.problems import Problem
from openvibe.chat.models import Dive, Draft, Thread
from openvibe.chat.querysets import agents_reading, people_reading
from openvibe.chat.services import (
    edit_thread,
    mark_read,
    mark_unread_from,
    post_message,
    save_draft,
    set_thread_access,
    set_thread_followers,
)
from openvibe.chat.text import MAX_BODY_CHARACTERS
from openvibe.chat.web.finding import thread_of
from openvibe.chat.web.numbers import number
from openvibe.chat.web.shell import shell_of
from openvibe.chat.web.stretches import stretch
from openvibe.workspaces.models import Participant
from openvibe.workspaces.web.doors import WorkspaceRequest, in_workspace, wants_json


@in_workspace
@require_http_methods(["GET", "HEAD", "POST"])
def thread(request: WorkspaceRequest, thread_id: int) -> HttpResponse:
    """The page; `?at=`, `?before_seq=`, `?after_seq=` choose the stretch, which htmx gets alone. POST speaks."""
    shell_of(request).position  # noqa: B018  where live updates begin, asked before anything is read
    found = thread_of(request, thread_id)
    if found.parent_id is not None and request.method != "POST":
        return _to_dive(request, found)
    if request.method == "POST":
        return _post(request, found)
    if request.htmx:
        return render(request, "chat/_messages.html", {"thread": found, **stretch(request, found)})
    return _page(request, found)


def _to_dive(request: WorkspaceRequest, found: Thread) -> HttpResponse:
    """A dive has a page of its own; `?at=` and the like go with it."""
    to = redirect("dive", request.workspace.slug, found.dive.pk)
    to["Location"] += f"?{request.GET.urlencode()}" if request.GET else ""
    return to


def _page(
    request: WorkspaceRequest, found: Thread, *, problem: Problem | None = None, kept: str | None = None
) -> HttpResponse:
    draft = Draft.objects.filter(thread=found, participant_id=request.access.participant_id).first()
    context = {
        "thread": found,
        "channel": found.channel,
        **stretch(request, found),
        "at": number(request.GET, "at"),
        "agents_here": agents_reading(found),
        "followers": list(found.following_agents.all()),
        "allowed": list(found.allowed_agents.all()),
        "text": kept if kept is not None else (draft.body if draft else ""),
        "problem": problem,
        "may_change": request.access.administers or found.created_by_id == request.access.participant_id,
        "is_closed": found.archived_at is not None or found.channel.archived_at is not None,
        "max_characters": MAX_BODY_CHARACTERS,
        "accesses": Thread.Access.choices,
        "active_dives": Dive.objects.filter(parent=found, state=Dive.State.ACTIVE).count(),
    }
    return render(request, "chat/thread.html", context, status=problem.status if problem else 200)


def _post(request: WorkspaceRequest, found: Thread) -> HttpResponse:
    body = request.POST.get("body", "").replace("\r\n", "\n")
    try:
        message = post_message(thread=found, by=request.access, body=body, client_id=request.POST.get("client_id", ""))
    except Problem as problem:
        if wants_json(request):
            raise
        return _page(request, found, problem=problem, kept=body.replace("\x00", ""))
    if wants_json(request):
        return JsonResponse({"id": message.pk, "seq": message.seq}, status=201)
    return redirect(f"{request.path}#m-{message.seq}")


@in_workspace
@require_POST
def thread_edit(request: WorkspaceRequest, thread_id: int) -> HttpResponse:
    """Rename (`title`), or archive and bring back (`archived` 1 or 0)."""
    found = thread_of(request, thread_id)
    archived = {"1": True, "0": False}.get(request.POST.get("archived", ""))
    edit_thread(thread=found, by=request.access, title=request.POST.get("title"), archived=archived)
    return redirect("thread", request.workspace.slug, found.pk)


@in_workspace
@require_POST
def thread_agents(request: WorkspaceRequest, thread_id: int) -> HttpResponse:
    """Which agents may know of the thread (`access`, `allowed`), and which answer every message (`following`)."""
    found = thread_of(request, thread_id)
    allowed = _agents(request, request.POST.getlist("allowed"))
    following = _agents(request, request.POST.getlist("following"))
    with transaction.atomic():
        set_thread_access(
            thread=found, by=request.access, access=request.POST.get("access", ""), allowed_agents=allowed
        )
        set_thread_followers(thread=found, by=request.access, agents=following)
    return redirect("thread", request.workspace.slug, found.pk)


def _agents(request: WorkspaceRequest, ids: list[str]) -> list[Participant]:
    numbers = [int(one) for one in ids if one.isascii() and one.isdigit() and len(one) < 19]
    agents = Participant.objects.filter(workspace=request.workspace, kind=Participant.Kind.AGENT)
    return list(agents.filter(pk__in=numbers))


@in_workspace
@require_POST
def thread_read(request: WorkspaceRequest, thread_id: int) -> HttpResponse:
    """Read up to `seq`; with `unread`, that message and all after it count as unread again."""
    found = thread_of(request, thread_id)
    seq = number(request.POST, "seq") or 0
    if "unread" not in request.POST:
        return JsonResponse({"read": mark_read(thread=found, by=request.access, seq=seq)})
    mark_unread_from(thread=found, by=request.access, seq=seq)
    if wants_json(request):
        return JsonResponse({"read": seq - 1})
    return redirect("inbox", request.workspace.slug)


@in_workspace
@require_POST
def thread_draft(request: WorkspaceRequest, thread_id: int) -> HttpResponse:
    """Keep what stands in the composer."""
    save_draft(thread=thread_of(request, thread_id), by=request.access, body=request.POST.get("body", ""))
    return HttpResponse(status=204)


@in_workspace
@require_safe
def thread_names(request: WorkspaceRequest, thread_id: int) -> HttpResponse:
    """Who can be mentioned here: readers of the channel, and the agents that may see the thread, with their level.

    In a dive no other agent than its own: it would not answer.
    """
    found = thread_of(request, thread_id)
    people = people_reading(found.channel).exclude(pk=request.access.participant_id)
    agents = agents_reading(found)
    if found.parent_id is not None:
        agents = [agent for agent in agents if agent.pk == found.dive.agent_id]
    return JsonResponse({"names": [*map(_name, agents), *map(_name, people)]})


def _name(one: Participant) -> dict[str, object]:
    level = one.agent.level if one.is_agent else None
    return {"id": one.pk, "handle": one.handle, "name": one.name, "kind": one.kind, "level": level}
