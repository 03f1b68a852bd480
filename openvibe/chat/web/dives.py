"""Dives: the panel and page of one, starting it, all of a thread's; the publish form, its preview, discarding."""

from collections.abc import Sequence
from typing import Any
from uuid import uuid4

from django.db.models import F, QuerySet
from django.http import HttpResponse, JsonResponse, QueryDict
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST, require_safe
from django_htmx.http import reswap, retarget

from openvibe.base.params import int_param
from openvibe.base.problems import Missing, Problem, Refused
from openvibe.chat import queries, services
from openvibe.chat.models import MAX_ACTIVE_DIVES, Dive, DiveResult, Draft, Message, Thread
from openvibe.chat.services.dives import InvalidResult, may_end_dive, reply_denied_reasons
from openvibe.chat.services.permissions import NESTED_DIVE_MESSAGE, is_archived
from openvibe.chat.web.presenters import message_page_context, preview_card, render_safe_html, result_cards
from openvibe.chat.web.threads import post_from_composer
from openvibe.engines.llm.offline.drafts import (
    MAX_BULLETS,
    MAX_DEFERRED,
    MAX_FULL_CHARACTERS,
    MAX_HEADLINE_CHARACTERS,
    MAX_QUESTIONS,
    MIN_BULLETS,
    ResultDraft,
)
from openvibe.engines.text.cleaning import MAX_BODY_CHARACTERS, text_version
from openvibe.workspaces.decorators import WorkspaceRequest, wants_json, workspace_view
from openvibe.workspaces.models import Participant

MAX_SOURCE_CHARACTERS = 4_000
"""Characters of the source that a dive quotes."""
MAX_DIVES_LISTED = 100
RECENT_MESSAGES = 100
RESULT_LIMITS = {"headline": MAX_HEADLINE_CHARACTERS, "min_bullets": MIN_BULLETS, "max_bullets": MAX_BULLETS}
MAX_FIELD_CHARACTERS = MAX_FULL_CHARACTERS + 1_000
"""Characters of one field that are shown again; a little more than is taken, so that the refusal can name it."""


def posted_draft(form_data: QueryDict) -> ResultDraft:
    """The fields `headline`, `bullet`, `full`, `deferred` and `question` as they were sent, without blank items."""
    return ResultDraft(
        headline=_clean_posted_text(form_data.get("headline", "")),
        bullets=_posted_items(form_data, "bullet"),
        full=_clean_posted_text(form_data.get("full", "")),
        deferred=_posted_items(form_data, "deferred"),
        questions=_posted_items(form_data, "question"),
    )


def _posted_items(form_data: QueryDict, name: str) -> tuple[str, ...]:
    return tuple(_clean_posted_text(text) for text in form_data.getlist(name)[:20] if text.strip())


def _clean_posted_text(text: str) -> str:
    return text.replace("\r\n", "\n")[:MAX_FIELD_CHARACTERS]


@workspace_view
@require_http_methods(["GET", "HEAD", "POST"])
def dive(request: WorkspaceRequest, dive_id: int) -> HttpResponse:
    """The dive, for htmx alone; `?before_seq=`, `?after_seq=` choose among its messages. POST speaks."""
    dive = queries.access_dive(request.access, dive_id)
    if request.method == "POST":
        return post_from_composer(
            request,
            dive.thread,
            f"d{dive.thread_id}",
            lambda problem, text: render_dive(request, dive, problem=problem, text=text),
        )
    if request.htmx and ("before_seq" in request.GET or "after_seq" in request.GET):
        context = {"thread": dive.thread, "messages_url": request.path, **message_page_context(request, dive.thread)}
        return render(request, "chat/_messages.html", context)
    return render_dive(request, dive)


def render_dive(request: WorkspaceRequest, dive: Dive, **more: Any) -> HttpResponse:
    """The whole of a dive: with `draft` its publish form, with `problem` what was refused."""
    problem: Problem | None = more.get("problem")
    template = "chat/_dive.html" if request.htmx else "chat/dive.html"
    status = problem.status if problem else 200
    return render(request, template, dive_context(request, dive, **more), status=status)


def dive_context(request: WorkspaceRequest, dive: Dive, **more: Any) -> dict[str, Any]:
    is_mine = dive.started_by_id == request.access.participant_id
    may_end = dive.is_active and may_end_dive(dive, request.access)
    is_closed = is_archived(dive.thread)
    drafts = Draft.objects.filter(thread=dive.thread, participant_id=request.access.participant_id)
    draft = drafts.values_list("body", flat=True).first() or "" if is_mine else ""
    source = dive.source
    return {
        "dive": dive,
        "thread": dive.thread,
        "parent": dive.parent,
        "source": source,
        "source_html": render_safe_html(source.body[:MAX_SOURCE_CHARACTERS]),
        "source_is_cut": len(source.body) > MAX_SOURCE_CHARACTERS,
        "messages_url": dive_url(request, dive),
        "may_write": is_mine and dive.is_active and not is_closed,
        "may_end": may_end,
        "may_publish": may_end and not is_closed,
        "is_closed": is_closed,
        "text": draft,
        "draft_version": request.POST.get("draft_version", text_version(draft)),
        "max_characters": MAX_BODY_CHARACTERS,
        **message_page_context(request, dive.thread),
        **more,
    }


def dive_url(request: WorkspaceRequest, dive: Dive) -> str:
    return f"/w/{request.workspace.slug}/dive/{dive.pk}/"


@workspace_view
@require_http_methods(["GET", "HEAD", "POST"])
def dive_start(request: WorkspaceRequest, message_id: int) -> HttpResponse:
    """The page that asks which agent, and the first question. POST starts, and shows the dive."""
    source = queries.access_message(request.access, message_id)
    if source.is_deleted:
        raise Missing("This message was deleted. Dive from another one.")
    if source.thread.parent_id is not None:
        raise Refused(NESTED_DIVE_MESSAGE, code="inside_dive")
    if request.method != "POST":
        return _render_start_page(request, source)
    body = request.POST.get("body", "").replace("\r\n", "\n")
    key = request.POST.get("client_id", "")
    try:
        dive = services.start_dive(
            source=source, by=request.access, agent=_posted_agent(request, source.thread), body=body, client_id=key
        )
    except Problem as problem:
        return _render_start_page(request, source, problem=problem, body=body, key=key)
    if request.htmx:
        return render_dive(request, queries.access_dive(request.access, dive.pk))
    return redirect(dive_url(request, dive))


def _posted_agent(request: WorkspaceRequest, parent: Thread) -> Participant:
    """One of those that read the thread, or that the asker knows: of others not even the name shows."""
    nameable = queries.participants_nameable_by(request.access, parent).filter(kind=Participant.Kind.AGENT)
    agent = nameable.filter(pk=int_param(request.POST, "agent") or 0).first()
    if agent is None:
        raise Problem("Choose the agent to dive with.", code="unknown_agent", field="agent")
    return agent


def _render_start_page(
    request: WorkspaceRequest, source: Message, *, problem: Problem | None = None, body: str = "", key: str = ""
) -> HttpResponse:
    parent = source.thread
    readers = queries.agents_with_access(parent)
    reasons = reply_denied_reasons(readers, parent, "dive")
    agents = [(one, reasons.get(one.pk)) for one in readers]
    available_ids = [one.pk for one, denied_reason in agents if denied_reason is None]
    context = {
        "source": source,
        "source_html": render_safe_html(source.body[:MAX_SOURCE_CHARACTERS]),
        "parent": parent,
        "agents": agents,
        "selected_agent_id": int_param(request.POST, "agent") or _suggest_agent(source, available_ids),
        "is_possible": bool(available_ids),
        "text": body.replace("\x00", ""),
        "client_id": key or uuid4().hex,
        "problem": problem,
        "max_characters": MAX_BODY_CHARACTERS,
    }
    template = "chat/_dive_start.html" if request.htmx else "chat/dive_start.html"
    response = render(request, template, context, status=problem.status if problem else 200)
    return reswap(retarget(response, "#dive"), "outerHTML") if problem and request.htmx else response


def _suggest_agent(source: Message, available_ids: Sequence[int]) -> int:
    """The agent that it is likely with: the agent of the result, the one who spoke last; else the first. 0 when there
    is none."""
    result = DiveResult.objects.filter(message=source).values_list("agent_id", flat=True).first()
    before = Message.objects.filter(thread=source.thread, seq__gt=source.seq - RECENT_MESSAGES, seq__lte=source.seq)
    spoke = before.order_by("-seq").values_list("author_id", flat=True)
    return next((pk for pk in (result or 0, *spoke) if pk in available_ids), next(iter(available_ids), 0))


@workspace_view
@require_safe
def thread_dives(request: WorkspaceRequest, thread_id: int) -> HttpResponse:
    """A thread's dives: the active first, then the newest."""
    thread = queries.access_thread(request.access, thread_id)
    rows: QuerySet[Dive] = Dive.objects.visible_to(request.access).filter(parent=thread)
    rows = rows.select_related("agent", "started_by", "ended_by", "source__author", "result__dive_result")
    dives = rows.order_by(F("ended_at").desc(nulls_first=True), "-id")[:MAX_DIVES_LISTED]
    context = {"thread": thread, "dives": dives, "max_active": MAX_ACTIVE_DIVES}
    return render(request, "chat/_dives.html" if request.htmx else "chat/dives.html", context)


@workspace_view
@require_http_methods(["GET", "HEAD", "POST"])
def dive_publish(request: WorkspaceRequest, dive_id: int) -> HttpResponse:
    """The form, filled from the agent's newest draft; POST publishes. Refused, everything typed is kept."""
    dive = queries.access_dive(request.access, dive_id)
    if request.method != "POST":
        if not (dive.is_active and may_end_dive(dive, request.access)):
            return render_dive(request, dive)
        return _render_publish_form(request, dive, queries.newest_agent_draft(dive))
    draft = posted_draft(request.POST)
    try:
        services.publish_dive(dive=dive, by=request.access, result=draft)
    except Problem as problem:
        return _render_publish_form(request, dive, queries.AgentDraft(draft=draft), is_typed=True, problem=problem)
    return _render_ended(request, dive)


def _render_publish_form(
    request: WorkspaceRequest,
    dive: Dive,
    agent_draft: queries.AgentDraft,
    *,
    is_typed: bool = False,
    problem: Problem | None = None,
) -> HttpResponse:
    """The form alone when htmx asks for the foot of a dive that is shown already. `is_typed`: by a person."""
    draft = agent_draft.draft or ResultDraft()
    problems = problem.problems if isinstance(problem, InvalidResult) else [problem] if problem else []
    form = {
        "draft": draft,
        "bullets": pad_texts(draft.bullets, MAX_BULLETS),
        "deferred": pad_texts(draft.deferred, MAX_DEFERRED),
        "questions": pad_texts(draft.questions, MAX_QUESTIONS),
        "awaited_seq": agent_draft.request_seq if is_typed or not agent_draft.draft else None,
        "is_typed": is_typed,
        "is_from_agent": agent_draft.draft is not None and not is_typed,
        "is_extracted": agent_draft.is_extracted,
        "preview": preview_card(draft),
        "problem": problem,
        "field_errors": {one.field: one.message for one in problems if one.field},
        "limits": RESULT_LIMITS,
    }
    if not (request.htmx and (problem or request.htmx.target == "dive-foot")):
        return render_dive(request, dive, **form)
    status = problem.status if problem else 200
    response = render(request, "chat/_dive_publish.html", {"dive": dive, **form}, status=status)
    return reswap(retarget(response, "#dive-foot"), "innerHTML") if problem else response


def pad_texts(texts: tuple[str, ...], size: int) -> list[str]:
    """The texts, at least `size` texts, empty ones at the end: one for each field."""
    return [*texts, *[""] * (size - len(texts))]


@workspace_view
@require_POST
def dive_preview(request: WorkspaceRequest, dive_id: int) -> HttpResponse:
    """The card as it would look, from what is typed so far."""
    dive, draft = queries.access_dive(request.access, dive_id), posted_draft(request.POST)
    context = {"dive": dive, "preview": preview_card(draft), "draft": draft, "limits": RESULT_LIMITS}
    return render(request, "chat/_result_preview.html", context)


@workspace_view
@require_POST
def dive_draft(request: WorkspaceRequest, dive_id: int) -> HttpResponse:
    """The page that asks the agent for a draft. Without JavaScript the form comes back as it was typed."""
    dive, draft = queries.access_dive(request.access, dive_id), posted_draft(request.POST)
    try:
        message = services.request_draft(dive=dive, by=request.access)
    except Missing:
        raise
    except Problem as problem:
        if wants_json(request):
            raise
        return _render_publish_form(request, dive, queries.AgentDraft(draft=draft), is_typed=True, problem=problem)
    if wants_json(request):
        return JsonResponse({"id": message.pk, "seq": message.seq}, status=201)
    return _render_publish_form(request, dive, queries.AgentDraft(message.seq, draft), is_typed=True)


@workspace_view
@require_http_methods(["GET", "HEAD", "POST"])
def dive_discard(request: WorkspaceRequest, dive_id: int) -> HttpResponse:
    """Asks once, then gives the dive up; what was said stays to be read."""
    dive = queries.access_dive(request.access, dive_id)
    if request.method != "POST":
        return render(request, "chat/dive_discard.html", {"dive": dive, "parent": dive.parent})
    services.discard_dive(dive=dive, by=request.access)
    return _render_ended(request, dive)


def _render_ended(request: WorkspaceRequest, dive: Dive) -> HttpResponse:
    """Renders what is shown after the end: the dive as it stands in its panel; its thread for pages without
    JavaScript."""
    if request.htmx:
        return render_dive(request, queries.access_dive(request.access, dive.pk))
    to = redirect("thread", request.workspace.slug, dive.parent_id)
    result = Dive.objects.filter(pk=dive.pk).values_list("result__seq", flat=True).first()
    to["Location"] += f"?at={result}#m-{result}" if result else ""
    return to


@workspace_view
@require_safe
def result_full(request: WorkspaceRequest, message_id: int) -> HttpResponse:
    """The full text of a result: inside its card, or as a page with the whole card."""
    message = queries.access_message(request.access, message_id)
    result = result_cards([message]).get(message.pk)
    if result is None or not result.has_full:
        raise Missing
    full = render_safe_html(message.dive_result.full)
    context = {"message": message, "thread": message.thread, "result": result, "full": full}
    is_fragment = request.htmx and request.htmx.target == f"full-{message.pk}"
    return render(request, "chat/_result_full.html" if is_fragment else "chat/result.html", context)
