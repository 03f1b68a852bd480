"""Dives: the panel (and page) of one, starting it, and all of a thread's."""

from collections.abc import Sequence
from typing import Any
from uuid import uuid4

from django.db.models import F, QuerySet
from django.http import HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_safe

from openvibe.base.problems import Missing, Problem, Refused
from openvibe.chat.models import MOST_ACTIVE, Dive, DiveResult, Draft, Message, Thread
from openvibe.chat.querysets import agents_reading, participants_known_to
from openvibe.chat.services import post_message, start_dive
from openvibe.chat.services.dives import may_end, why_silent
from openvibe.chat.services.writing import INSIDE_DIVE, is_archived
from openvibe.chat.text import MAX_BODY_CHARACTERS
from openvibe.chat.web.finding import message_of, thread_of
from openvibe.chat.web.numbers import LARGEST_ID, number
from openvibe.chat.web.results import results_of, safe_html
from openvibe.chat.web.shell import shell_of
from openvibe.chat.web.stretches import stretch
from openvibe.workspaces.models import Participant
from openvibe.workspaces.web.doors import WorkspaceRequest, in_workspace, wants_json

SOURCE_SHOWN = 4_000
"""Characters of the source that a dive quotes."""
DIVES_LISTED = 100
SPOKE_LATELY = 100


def dive_of(request: WorkspaceRequest, dive_id: int) -> Dive:
    """With everything its panel shows. Raises Missing."""
    rows = Dive.objects.visible_to(request.access).filter(pk=min(dive_id, LARGEST_ID))
    rows = rows.select_related("agent__agent", "started_by", "ended_by", "source__author__agent", "result__dive_result")
    found: Dive | None = rows.select_related("thread__channel", "parent__channel").first()
    if found is None:
        raise Missing
    return found


# --- the dive itself ----------------------------------------------------------------------------------------


@in_workspace
@require_http_methods(["GET", "HEAD", "POST"])
def dive(request: WorkspaceRequest, dive_id: int) -> HttpResponse:
    """The dive, for htmx alone; `?before_seq=`, `?after_seq=` give a stretch of its messages. POST speaks."""
    shell_of(request).position  # noqa: B018  where live updates begin, asked before anything is read
    found = dive_of(request, dive_id)
    if request.method == "POST":
        return _say(request, found)
    if request.htmx and ("before_seq" in request.GET or "after_seq" in request.GET):
        context = {"thread": found.thread, "stretch_url": request.path, **stretch(request, found.thread)}
        return render(request, "chat/_messages.html", context)
    return shown(request, found)


def _say(request: WorkspaceRequest, found: Dive) -> HttpResponse:
    body = request.POST.get("body", "").replace("\r\n", "\n")
    key = request.POST.get("client_id", "")
    try:
        message = post_message(thread=found.thread, by=request.access, body=body, client_id=key)
    except Problem as problem:
        if wants_json(request):
            raise
        return shown(request, found, problem=problem, text=body.replace("\x00", ""))
    if wants_json(request):
        return JsonResponse({"id": message.pk, "seq": message.seq}, status=201)
    return redirect(f"{request.path}#d{found.thread_id}-{message.seq}")


def shown(request: WorkspaceRequest, found: Dive, **more: Any) -> HttpResponse:
    """The whole of a dive: with `drafted` its publish form, with `problem` what was refused."""
    problem: Problem | None = more.get("problem")
    template = "chat/_dive.html" if request.htmx else "chat/dive.html"
    status = problem.status if problem else 200
    return render(request, template, context_of(request, found, **more), status=status)


def context_of(request: WorkspaceRequest, found: Dive, **more: Any) -> dict[str, Any]:
    mine = found.started_by_id == request.access.participant_id
    archived = is_archived(found.thread)
    drafts = Draft.objects.filter(thread=found.thread, participant_id=request.access.participant_id)
    source = found.source
    return {
        "dive": found,
        "thread": found.thread,
        "parent": found.parent,
        "source": source,
        "source_html": safe_html(source.body[:SOURCE_SHOWN]),
        "source_is_cut": len(source.body) > SOURCE_SHOWN,
        "stretch_url": address_of(request, found),
        "may_write": mine and found.is_active and not archived,
        "may_end": found.is_active and may_end(found, request.access),
        "may_publish": found.is_active and may_end(found, request.access) and not archived,
        "is_closed": archived,
        "text": drafts.values_list("body", flat=True).first() or "" if mine and found.is_active else "",
        "max_characters": MAX_BODY_CHARACTERS,
        **stretch(request, found.thread),
        **more,
    }


def address_of(request: WorkspaceRequest, found: Dive) -> str:
    return f"/w/{request.workspace.slug}/dive/{found.pk}/"


# --- starting -----------------------------------------------------------------------------------------------


@in_workspace
@require_http_methods(["GET", "HEAD", "POST"])
def dive_start(request: WorkspaceRequest, message_id: int) -> HttpResponse:
    """Which agent, and the first question. POST starts, and shows the dive."""
    source = message_of(request, message_id)
    if source.is_deleted:
        raise Missing("This message was deleted. Dive from another one.")
    if source.thread.parent_id is not None:
        raise Refused(INSIDE_DIVE, code="inside_dive")
    if request.method != "POST":
        return _start_page(request, source)
    body = request.POST.get("body", "").replace("\r\n", "\n")
    key = request.POST.get("client_id", "")
    try:
        started = start_dive(
            source=source, by=request.access, agent=_agent(request, source.thread), body=body.strip() and body,
            client_id=key,
        )  # fmt: skip
    except Problem as problem:
        return _start_page(request, source, problem=problem, body=body, key=key)
    return shown(request, dive_of(request, started.pk)) if request.htmx else redirect(address_of(request, started))


def _agent(request: WorkspaceRequest, parent: Thread) -> Participant:
    """One of those that read the thread, or that the asker knows: of others not even the name is told."""
    pk = number(request.POST, "agent") or 0
    known = participants_known_to(request.access).filter(kind=Participant.Kind.AGENT)
    found = next((one for one in agents_reading(parent) if one.pk == pk), None) or known.filter(pk=pk).first()
    if found is None:
        raise Problem("Choose the agent to dive with.", code="unknown_agent", field="agent")
    return found


def _start_page(
    request: WorkspaceRequest, source: Message, *, problem: Problem | None = None, body: str = "", key: str = ""
) -> HttpResponse:  # fmt: skip
    agents = [(one, why_silent(one, source.thread, "dive")) for one in agents_reading(source.thread)]
    able = [one.pk for one, silence in agents if silence is None]
    result = results_of([source]).get(source.pk)
    context = {
        "source": source, "source_html": safe_html(source.body[:SOURCE_SHOWN]), "result": result,
        "parent": source.thread, "agents": agents, "chosen": number(request.POST, "agent") or _at_hand(source, able),
        "is_possible": bool(able), "text": body.replace("\x00", ""), "client_id": key or uuid4().hex,
        "problem": problem, "max_characters": MAX_BODY_CHARACTERS,
    }  # fmt: skip
    template = "chat/_dive_start.html" if request.htmx else "chat/dive_start.html"
    response = render(request, template, context, status=problem.status if problem else 200)
    return retargeted(response, "#dive", "outerHTML") if problem and request.htmx else response


def _at_hand(source: Message, able: Sequence[int]) -> int:
    """Whom it is likely with: the agent of the result, the one who spoke last; else the first. 0 when there is none."""
    result = DiveResult.objects.filter(message=source).values_list("agent_id", flat=True).first()
    before = Message.objects.filter(thread=source.thread, seq__gt=source.seq - SPOKE_LATELY, seq__lte=source.seq)
    spoke = before.order_by("-seq").values_list("author_id", flat=True)
    return next((pk for pk in (result or 0, *spoke) if pk in able), next(iter(able), 0))


def retargeted(response: HttpResponse, target: str, how: str) -> HttpResponse:
    """A refusal that is shown in its place: htmx shows others nowhere."""
    response.headers["HX-Retarget"] = target
    response.headers["HX-Reswap"] = how
    return response


# --- all of a thread's --------------------------------------------------------------------------------------


@in_workspace
@require_safe
def thread_dives(request: WorkspaceRequest, thread_id: int) -> HttpResponse:
    """A thread's dives: the active first, then the newest."""
    found = thread_of(request, thread_id)
    rows: QuerySet[Dive] = Dive.objects.visible_to(request.access).filter(parent=found)
    rows = rows.select_related("agent", "started_by", "ended_by", "source__author", "result__dive_result")
    dives = rows.order_by(F("ended_at").desc(nulls_first=True), "-id")[:DIVES_LISTED]
    context = {"thread": found, "dives": dives, "most": MOST_ACTIVE}
    return render(request, "chat/_dives.html" if request.htmx else "chat/dives.html", context)
