"""Dives: the panel and page of one, starting it, all of a thread's; the publish form, its preview, discarding."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any
from uuid import uuid4

from django.db.models import F, QuerySet
from django.http import HttpResponse, JsonResponse, QueryDict
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from openvibe.base.params import int_param
from openvibe.base.problems import Missing, Problem, Refused
from openvibe.base.text import MAX_BODY_CHARACTERS
from openvibe.chat import queries as chat_queries
from openvibe.chat.models import MAX_ACTIVE_DIVES, Dive, DiveResult, Draft, Message, Thread
from openvibe.chat.queries import access_dive, access_message, access_thread, agents_with_access, participants_known_to
from openvibe.chat.services import discard_dive, post_message, publish_dive, request_draft, start_dive
from openvibe.chat.services.dives import InvalidResult, may_end_dive, reply_denied_reason
from openvibe.chat.services.permissions import NESTED_DIVE_MESSAGE, is_archived
from openvibe.chat.web.presenters import message_page_context, preview_card, render_safe_html, result_cards
from openvibe.llm.drafts import (
    MAX_BULLETS,
    MAX_DEFERRED,
    MAX_FULL_CHARACTERS,
    MAX_HEADLINE_CHARACTERS,
    MAX_QUESTIONS,
    MIN_BULLETS,
    ResultDraft,
)
from openvibe.workspaces.decorators import WorkspaceRequest, event_position, wants_json, workspace_view
from openvibe.workspaces.models import Participant

MAX_FIELD_CHARACTERS = MAX_FULL_CHARACTERS + 1_000
"""Characters of one field that are shown again; a little more than is taken, so that the refusal can name it."""


@dataclass(frozen=True)
class ResultFormData:
    """A draft for the form. `asked` is the number of the message that asked for it while its reply is awaited.

    `is_picked` when the reply was no result, and sentences were picked from it; `is_typed` when somebody typed it.
    """

    draft: ResultDraft = field(default_factory=ResultDraft)
    by: str = ""
    asked: int | None = None
    is_picked: bool = False
    is_typed: bool = False

    @property
    def bullets(self) -> list[str]:
        return pad_texts(self.draft.bullets, MAX_BULLETS)

    @property
    def deferred(self) -> list[str]:
        return pad_texts(self.draft.deferred, MAX_DEFERRED)

    @property
    def questions(self) -> list[str]:
        return pad_texts(self.draft.questions, MAX_QUESTIONS)


def pad_texts(texts: tuple[str, ...], size: int) -> list[str]:
    """At least `size` texts, empty ones at the end: one for each field."""
    return [text for text, _ in zip_longest(texts, range(size), fillvalue="")]


def form_data_of_agent_draft(dive: Dive) -> ResultFormData:
    """What the agent drafted, for the form."""
    agent_draft = chat_queries.newest_agent_draft(dive)
    if agent_draft.draft is None:
        return ResultFormData(asked=agent_draft.asked)
    return ResultFormData(agent_draft.draft, by=dive.agent.name, is_picked=agent_draft.is_picked)


def form_data_of_post(posted: QueryDict) -> ResultFormData:
    """The fields `headline`, `bullet`, `full`, `deferred` and `question` as they were sent, without blank items."""
    draft = ResultDraft(
        headline=_clean_posted_text(posted.get("headline", "")),
        bullets=_posted_items(posted, "bullet"),
        full=_clean_posted_text(posted.get("full", "")),
        deferred=_posted_items(posted, "deferred"),
        questions=_posted_items(posted, "question"),
    )
    return ResultFormData(draft, is_typed=True)


def _posted_items(posted: QueryDict, name: str) -> tuple[str, ...]:
    return tuple(_clean_posted_text(text) for text in posted.getlist(name)[:20] if text.strip())


def _clean_posted_text(text: str) -> str:
    return text.replace("\r\n", "\n")[:MAX_FIELD_CHARACTERS]


MAX_SOURCE_CHARACTERS = 4_000
"""Characters of the source that a dive quotes."""
MAX_DIVES_LISTED = 100
RECENT_MESSAGES = 100


# --- the dive itself ----------------------------------------------------------------------------------------


@workspace_view
@require_http_methods(["GET", "HEAD", "POST"])
def dive(request: WorkspaceRequest, dive_id: int) -> HttpResponse:
    """The dive, for htmx alone; `?before_seq=`, `?after_seq=` give a stretch of its messages. POST speaks."""
    event_position(request)  # where live updates begin, asked before anything is read
    dive = access_dive(request, dive_id)
    if request.method == "POST":
        return _post_in_dive(request, dive)
    if request.htmx and ("before_seq" in request.GET or "after_seq" in request.GET):
        context = {"thread": dive.thread, "stretch_url": request.path, **message_page_context(request, dive.thread)}
        return render(request, "chat/_messages.html", context)
    return render_dive(request, dive)


def _post_in_dive(request: WorkspaceRequest, dive: Dive) -> HttpResponse:
    body = request.POST.get("body", "").replace("\r\n", "\n")
    key = request.POST.get("client_id", "")
    try:
        message = post_message(thread=dive.thread, by=request.access, body=body, client_id=key)
    except Problem as problem:
        if wants_json(request):
            raise
        return render_dive(request, dive, problem=problem, text=body.replace("\x00", ""))
    if wants_json(request):
        return JsonResponse({"id": message.pk, "seq": message.seq}, status=201)
    return redirect(f"{request.path}#d{dive.thread_id}-{message.seq}")


def render_dive(request: WorkspaceRequest, dive: Dive, **more: Any) -> HttpResponse:
    """The whole of a dive: with `drafted` its publish form, with `problem` what was refused."""
    problem: Problem | None = more.get("problem")
    template = "chat/_dive.html" if request.htmx else "chat/dive.html"
    status = problem.status if problem else 200
    return render(request, template, dive_context(request, dive, **more), status=status)


def dive_context(request: WorkspaceRequest, dive: Dive, **more: Any) -> dict[str, Any]:
    is_mine = dive.started_by_id == request.access.participant_id
    is_thread_archived = is_archived(dive.thread)
    drafts = Draft.objects.filter(thread=dive.thread, participant_id=request.access.participant_id)
    source = dive.source
    return {
        "dive": dive,
        "thread": dive.thread,
        "parent": dive.parent,
        "source": source,
        "source_html": render_safe_html(source.body[:MAX_SOURCE_CHARACTERS]),
        "source_is_cut": len(source.body) > MAX_SOURCE_CHARACTERS,
        "stretch_url": dive_url(request, dive),
        "may_write": is_mine and dive.is_active and not is_thread_archived,
        "may_end": dive.is_active and may_end_dive(dive, request.access),
        "may_publish": dive.is_active and may_end_dive(dive, request.access) and not is_thread_archived,
        "is_closed": is_thread_archived,
        "text": drafts.values_list("body", flat=True).first() or "" if is_mine and dive.is_active else "",
        "max_characters": MAX_BODY_CHARACTERS,
        **message_page_context(request, dive.thread),
        **more,
    }


def dive_url(request: WorkspaceRequest, dive: Dive) -> str:
    return f"/w/{request.workspace.slug}/dive/{dive.pk}/"


# --- starting -----------------------------------------------------------------------------------------------


@workspace_view
@require_http_methods(["GET", "HEAD", "POST"])
def dive_start(request: WorkspaceRequest, message_id: int) -> HttpResponse:
    """Which agent, and the first question. POST starts, and shows the dive."""
    source = access_message(request, message_id)
    if source.is_deleted:
        raise Missing("This message was deleted. Dive from another one.")
    if source.thread.parent_id is not None:
        raise Refused(NESTED_DIVE_MESSAGE, code="inside_dive")
    if request.method != "POST":
        return _render_start_page(request, source)
    body = request.POST.get("body", "").replace("\r\n", "\n")
    key = request.POST.get("client_id", "")
    try:
        dive = start_dive(
            source=source,
            by=request.access,
            agent=_posted_agent(request, source.thread),
            body=body.strip() and body,
            client_id=key,
        )
    except Problem as problem:
        return _render_start_page(request, source, problem=problem, body=body, key=key)
    return render_dive(request, access_dive(request, dive.pk)) if request.htmx else redirect(dive_url(request, dive))


def _posted_agent(request: WorkspaceRequest, parent: Thread) -> Participant:
    """One of those that read the thread, or that the asker knows: of others not even the name is told."""
    pk = int_param(request.POST, "agent") or 0
    known_agents = participants_known_to(request.access).filter(kind=Participant.Kind.AGENT)
    agent = (
        next((one for one in agents_with_access(parent) if one.pk == pk), None) or known_agents.filter(pk=pk).first()
    )
    if agent is None:
        raise Problem("Choose the agent to dive with.", code="unknown_agent", field="agent")
    return agent


def _render_start_page(
    request: WorkspaceRequest, source: Message, *, problem: Problem | None = None, body: str = "", key: str = ""
) -> HttpResponse:
    agents = [(one, reply_denied_reason(one, source.thread, "dive")) for one in agents_with_access(source.thread)]
    available_ids = [one.pk for one, denied_reason in agents if denied_reason is None]
    result = result_cards([source]).get(source.pk)
    context = {
        "source": source,
        "source_html": render_safe_html(source.body[:MAX_SOURCE_CHARACTERS]),
        "result": result,
        "parent": source.thread,
        "agents": agents,
        "chosen": int_param(request.POST, "agent") or _suggest_agent(source, available_ids),
        "is_possible": bool(available_ids),
        "text": body.replace("\x00", ""),
        "client_id": key or uuid4().hex,
        "problem": problem,
        "max_characters": MAX_BODY_CHARACTERS,
    }
    template = "chat/_dive_start.html" if request.htmx else "chat/dive_start.html"
    response = render(request, template, context, status=problem.status if problem else 200)
    return retarget(response, "#dive", "outerHTML") if problem and request.htmx else response


def _suggest_agent(source: Message, available_ids: Sequence[int]) -> int:
    """Whom it is likely with: the agent of the result, the one who spoke last; else the first. 0 when there is none."""
    result = DiveResult.objects.filter(message=source).values_list("agent_id", flat=True).first()
    before = Message.objects.filter(thread=source.thread, seq__gt=source.seq - RECENT_MESSAGES, seq__lte=source.seq)
    spoke = before.order_by("-seq").values_list("author_id", flat=True)
    return next((pk for pk in (result or 0, *spoke) if pk in available_ids), next(iter(available_ids), 0))


def retarget(response: HttpResponse, target: str, swap: str) -> HttpResponse:
    """A refusal that is shown in its place: htmx shows others nowhere."""
    response.headers["HX-Retarget"] = target
    response.headers["HX-Reswap"] = swap
    return response


# --- all of a thread's --------------------------------------------------------------------------------------


@workspace_view
@require_safe
def thread_dives(request: WorkspaceRequest, thread_id: int) -> HttpResponse:
    """A thread's dives: the active first, then the newest."""
    thread = access_thread(request, thread_id)
    rows: QuerySet[Dive] = Dive.objects.visible_to(request.access).filter(parent=thread)
    rows = rows.select_related("agent", "started_by", "ended_by", "source__author", "result__dive_result")
    dives = rows.order_by(F("ended_at").desc(nulls_first=True), "-id")[:MAX_DIVES_LISTED]
    context = {"thread": thread, "dives": dives, "most": MAX_ACTIVE_DIVES}
    return render(request, "chat/_dives.html" if request.htmx else "chat/dives.html", context)


RESULT_LIMITS = {"headline": MAX_HEADLINE_CHARACTERS, "fewest": MIN_BULLETS, "most": MAX_BULLETS}


@workspace_view
@require_http_methods(["GET", "HEAD", "POST"])
def dive_publish(request: WorkspaceRequest, dive_id: int) -> HttpResponse:
    """The form, filled from the agent's newest draft; POST publishes. Refused, everything typed is kept."""
    dive = access_dive(request, dive_id)
    if request.method != "POST":
        if not (dive.is_active and may_end_dive(dive, request.access)):
            return render_dive(request, dive)
        return _render_publish_form(request, dive, form_data_of_agent_draft(dive))
    form_data = form_data_of_post(request.POST)
    try:
        publish_dive(dive=dive, by=request.access, result=form_data.draft)
    except Problem as problem:
        return _render_publish_form(request, dive, form_data, problem=problem)
    return _render_ended(request, dive)


def _render_publish_form(
    request: WorkspaceRequest, dive: Dive, form_data: ResultFormData, *, problem: Problem | None = None
) -> HttpResponse:
    """The form alone when htmx asks for the foot of a dive that is shown already."""
    form = _publish_form_context(form_data, problem)
    if not (request.htmx and (problem or request.htmx.target == "dive-foot")):
        return render_dive(request, dive, **form)
    status = problem.status if problem else 200
    response = render(request, "chat/_dive_publish.html", {"dive": dive, **form}, status=status)
    return retarget(response, "#dive-foot", "innerHTML") if problem else response


def _publish_form_context(form_data: ResultFormData, problem: Problem | None) -> dict[str, Any]:
    preview = preview_card(form_data.draft)
    problems = problem.problems if isinstance(problem, InvalidResult) else [problem] if problem else []
    field_errors = {one.field: one.message for one in problems if one.field}
    return {
        "drafted": form_data,
        "problem": problem,
        "wrong": field_errors,
        "preview": preview,
        "typed": form_data.draft,
        "limits": RESULT_LIMITS,
    }


@workspace_view
@require_POST
def dive_preview(request: WorkspaceRequest, dive_id: int) -> HttpResponse:
    """The card as it would look, from what is typed so far."""
    dive = access_dive(request, dive_id)
    draft = form_data_of_post(request.POST).draft
    context = {"dive": dive, "preview": preview_card(draft), "typed": draft, "limits": RESULT_LIMITS}
    return render(request, "chat/_result_preview.html", context)


@workspace_view
@require_POST
def dive_draft(request: WorkspaceRequest, dive_id: int) -> HttpResponse:
    """Ask the agent for a draft. Without JavaScript the form comes back as it was typed."""
    dive = access_dive(request, dive_id)
    try:
        request_message = request_draft(dive=dive, by=request.access)
    except Missing:
        raise
    except Problem as problem:
        if wants_json(request):
            raise
        return _render_publish_form(request, dive, form_data_of_post(request.POST), problem=problem)
    if wants_json(request):
        return JsonResponse({"id": request_message.pk, "seq": request_message.seq}, status=201)
    form_data = form_data_of_post(request.POST)
    return _render_publish_form(
        request, dive, ResultFormData(form_data.draft, asked=request_message.seq, is_typed=True)
    )


@workspace_view
@require_http_methods(["GET", "HEAD", "POST"])
def dive_discard(request: WorkspaceRequest, dive_id: int) -> HttpResponse:
    """Asks once, then gives the dive up; what was said stays to be read."""
    dive = access_dive(request, dive_id)
    if request.method != "POST":
        return render(request, "chat/dive_discard.html", {"dive": dive, "parent": dive.parent})
    discard_dive(dive=dive, by=request.access)
    return _render_ended(request, dive)


def _render_ended(request: WorkspaceRequest, dive: Dive) -> HttpResponse:
    """After the end: the dive as it stands in its panel; its thread for pages without JavaScript."""
    if request.htmx:
        return render_dive(request, access_dive(request, dive.pk))
    to = redirect("thread", request.workspace.slug, dive.parent_id)
    result = Dive.objects.filter(pk=dive.pk).values_list("result__seq", flat=True).first()
    to["Location"] += f"?at={result}#m-{result}" if result else ""
    return to


@workspace_view
@require_safe
def result_full(request: WorkspaceRequest, message_id: int) -> HttpResponse:
    """The full text of a result: inside its card, or as a page with the whole card."""
    message = access_message(request, message_id)
    result = result_cards([message]).get(message.pk)
    if result is None or not result.has_full:
        raise Missing
    full = render_safe_html(message.dive_result.full)
    context = {"message": message, "thread": message.thread, "result": result, "full": full}
    is_fragment = request.htmx and request.htmx.target == f"full-{message.pk}"
    return render(request, "chat/_result_full.html" if is_fragment else "chat/result.html", context)
