"""Pages of a thread's memory map: its state, its summary tree, its token chart, search in it, and compaction.

Whoever sees the thread sees its map; the summaries and messages are asked for through a session each time."""

from datetime import datetime, timedelta
from typing import Any

from django.contrib import messages
from django.db.models import FloatField, Func, IntegerField, Sum, Value
from django.db.models.functions import Cast, Extract
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.safestring import SafeString
from django.views.decorators.http import require_POST, require_safe

from memory.plugins.base import (
    ENVELOPE_TOKENS,
    MAX_ENTRY_TOKENS,
    Compactor,
    Corrector,
    Explorer,
    Searcher,
    Session,
    read_stats,
    takes_focus,
)
from memory.plugins.compaction import (
    MANUAL_TRIGGERS,
    compaction_denied_reason,
    find_pause,
    request_compaction,
    resume_compaction,
)
from memory.plugins.map.memory_map import build_memory_map
from memory.plugins.map.summary_tree import build_summary_tree, tree_lines
from memory.plugins.map.timeline import PROMPT_HISTORY
from memory.plugins.map.token_chart import CompactionStep, Growth, TokenChart, build_token_chart
from memory.plugins.models import Compaction
from memory.plugins.registry import ActivePlugin, active_plugin, provider_for, provider_of
from memory.plugins.services import correct_summary
from memory.plugins.sessions import (
    COMPACTION_TARGET,
    COMPACTION_THRESHOLD,
    MESSAGE_COST,
    context_budget,
    prompt_messages,
    session_of,
)
from memory.plugins.tasks import enqueue_compaction_on_commit
from openvibe.base.params import MAX_ID, int_param
from openvibe.base.problems import Conflict, Missing, Problem, Refused
from openvibe.chat.models import Thread
from openvibe.chat.queries import access_thread
from openvibe.engines.database.timestamps import parse_stored_time
from openvibe.engines.text.markdown import render_markdown
from openvibe.workspaces.access import Access
from openvibe.workspaces.decorators import WorkspaceRequest, workspace_view

MAX_HISTORY = 60
"""Compactions in the drawing and in the table, the newest."""

MAX_QUERY_CHARACTERS = 500
MAX_SHOWN_HITS = 20
PART_TEMPLATES = {
    "state": "memory/_map_state.html",
    "search": "memory/_map_search.html",
    "picture": "memory/_map_picture.html",
}


@workspace_view
@require_safe
def thread_memory(request: WorkspaceRequest, thread_id: int, run_id: int = 0, compaction_id: int = 0) -> HttpResponse:
    """A page, or a fragment for the right panel; `?part=` gives one part of it anew, `?q=` searches. The picture
    is that of a prompt or of a compaction, else of the newest of both."""
    thread = _access_thread(request, thread_id)
    active = active_plugin(thread.workspace_id)
    provider, run_id, compaction_id = provider_of(active), min(run_id, MAX_ID), min(compaction_id, MAX_ID)
    part = PART_TEMPLATES.get(request.GET.get("part", ""))
    if part == PART_TEMPLATES["picture"]:
        context: dict[str, Any] = {"thread": thread}
    else:
        query = request.GET.get("q", "")
        context = _page_context(thread, active, request.access, query=query, is_full_page=part is None)
    if (part is None or "state" not in context) and thread.access != Thread.Access.HUMAN_ONLY:
        session = session_of(thread, request.access)
        context["map"] = build_memory_map(thread, provider, session, run_id=run_id, compaction_id=compaction_id)
    name = part if part and request.htmx else "memory/_map.html" if request.htmx else "memory/map.html"
    return render(request, name, context)


def _access_thread(request: WorkspaceRequest, thread_id: int) -> Thread:
    """The thread with the request's workspace, which is the thread's. Raises Missing."""
    thread = access_thread(request.access, thread_id)
    thread.workspace = request.workspace
    return thread


@workspace_view
@require_safe
def summary(request: WorkspaceRequest, thread_id: int, summary_id: int) -> HttpResponse:
    """One summary and what it stands for, one step down. `?inside` gives that without a heading, `?after=` the rest."""
    context = _summary_context(request, access_thread(request.access, thread_id), summary_id)
    if request.htmx:
        name = "memory/_map_inside.html" if "inside" in request.GET else "memory/_summary.html"
    else:
        name = "memory/summary.html"
    return render(request, name, context)


def _summary_context(request: WorkspaceRequest, thread: Thread, summary_id: int) -> dict[str, Any]:
    """What a summary's templates need. Raises Missing."""
    session, provider = session_of(thread, request.access), provider_for(thread.workspace_id)
    if not isinstance(provider, Explorer):
        raise Missing
    description = provider.describe(session, min(summary_id, MAX_ID))
    expansion = provider.expand(session, description.id, int_param(request.GET, "after"))
    return {
        "thread": thread,
        "summary": description,
        "cost": description.tokens + ENVELOPE_TOKENS,
        "lines": [
            (line, line.entry.summary_id is None and SafeString(render_markdown(line.entry.text)))  # sanitised
            for line in tree_lines(expansion.entries)
        ],
        "may_correct": isinstance(provider, Corrector) and not request.access.is_guest and not description.is_stale,
        "corrections": [(one, parse_stored_time(one.at)) for one in description.corrections],
        "max_tokens": MAX_ENTRY_TOKENS,
        "cursor": expansion.cursor,
        "is_rest": "after" in request.GET,
    }


@workspace_view
@require_POST
def correct(request: WorkspaceRequest, thread_id: int, summary_id: int) -> HttpResponse:
    """The page that puts right what a summary says, on the `version` that was shown. What cannot be saved stays in the
    form."""
    thread, content = access_thread(request.access, thread_id), request.POST.get("content", "")
    try:
        _, rebuild = correct_summary(
            thread=thread,
            by=request.access,
            summary_id=min(summary_id, MAX_ID),
            content=content,
            version=int_param(request.POST, "version") or 0,
        )
    except (Missing, Refused):
        raise
    except Problem as problem:
        context = _summary_context(request, thread, summary_id) | {"problem": problem.message, "unsaved": content}
        return render(request, "memory/summary.html", context, status=problem.status)
    if rebuild is not None:
        enqueue_compaction_on_commit(rebuild.pk)
    messages.info(request, "The summary says what you wrote. Prompts have it from now on.")
    return redirect("thread-memory-summary", request.workspace.slug, thread.pk, summary_id)


@workspace_view
@require_POST
def compact(request: WorkspaceRequest, thread_id: int) -> HttpResponse:
    """The page that asks a worker to compact the thread: a step, or (`full`) everything; `focus` names what to keep in
    most detail."""
    thread = _access_thread(request, thread_id)
    full, focus = request.POST.get("full") == "1", request.POST.get("focus", "")
    trigger = Compaction.Trigger.HAND
    try:
        compaction = request_compaction(thread=thread, trigger=trigger, full=full, by=request.access, focus=focus)
    except (Missing, Refused):
        raise
    except Problem as problem:
        notice = problem.message
    else:
        notice = "" if compaction else "A compaction of this thread is under way already."
        if compaction is not None:
            enqueue_compaction_on_commit(compaction.pk)
    return _state_response(request, thread, notice)


@workspace_view
@require_POST
def resume(request: WorkspaceRequest, thread_id: int) -> HttpResponse:
    """The page that ends the pause after failures: admins, once the endpoint is well again."""
    thread = _access_thread(request, thread_id)
    try:
        compactions = resume_compaction(workspace_id=thread.workspace_id, by=request.access)
    except Conflict as problem:
        notice = problem.message
    else:
        notice = "Compaction goes on."
        for compaction in compactions:
            enqueue_compaction_on_commit(compaction.pk)
    return _state_response(request, thread, notice)


def _state_response(request: WorkspaceRequest, thread: Thread, notice: str) -> HttpResponse:
    """How the memory stands now, with a sentence on what was done."""
    if request.htmx:
        active = active_plugin(thread.workspace_id)
        context = _page_context(thread, active, request.access, is_full_page=False) | {"notice": notice}
        return render(request, PART_TEMPLATES["state"], context)
    if notice:
        messages.info(request, notice)
    return redirect("thread-memory", request.workspace.slug, thread.pk)


def _page_context(
    thread: Thread, active: ActivePlugin, access: Access, *, query: str = "", is_full_page: bool = True
) -> dict[str, Any]:
    """What the map's templates need. Without `is_full_page`, only what the parts need."""
    provider, denied_reason = provider_of(active), compaction_denied_reason(thread, active)
    context: dict[str, Any] = {"thread": thread, "denied_reason": denied_reason, "query": query}
    if thread.access == Thread.Access.HUMAN_ONLY:
        return context
    session = session_of(thread, access)
    budget = context_budget(thread)
    compactions = list(thread.compactions.select_related("requested_by")[:MAX_HISTORY])
    finished = [row for row in compactions if row.is_over]
    shown_compactions = (
        row for row in finished if row.state != Compaction.State.NOTHING or row.trigger in MANUAL_TRIGGERS
    )
    state: dict[str, Any] = {  # sizes in tokens
        "stats": read_stats(provider, session),
        "budget": budget,
        "pause": find_pause(thread.workspace_id, provider),
        "threshold": int(budget * COMPACTION_THRESHOLD),
        "job": next((row for row in compactions if not row.is_over), None),
        "takes_focus": isinstance(provider, Compactor) and takes_focus(provider),
        "last": next(shown_compactions, None),  # one that found nothing to do is shown only to those who asked for it
    }
    context |= {"state": state, "may_search": isinstance(provider, Searcher)}
    if query and isinstance(provider, Searcher):
        hits = provider.search(session, query[:MAX_QUERY_CHARACTERS], limit=MAX_SHOWN_HITS + 1)
        context["hits"] = [(hit, parse_stored_time(hit.at)) for hit in hits[:MAX_SHOWN_HITS]]
        context["has_more_hits"] = len(hits) > MAX_SHOWN_HITS
    if is_full_page and isinstance(provider, Explorer):
        context |= {"tree": build_summary_tree(provider, session, budget)}
    if is_full_page and context["denied_reason"] is None:
        chart = _token_chart(thread, session, finished, tokens=state["stats"].tokens, budget=budget)
        context |= {"history": finished, "chart": chart, "caches": PROMPT_HISTORY.only().charts(thread, access)}
    return context


def _token_chart(
    thread: Thread, session: Session, finished: list[Compaction], *, tokens: int, budget: int
) -> TokenChart | None:
    """The drawing; None before the first compaction that measured something."""
    steps = [
        CompactionStep(row.finished_at, row.tokens_before, row.tokens_after)
        for row in reversed(finished)
        if row.state == Compaction.State.DONE
        and row.trigger != Compaction.Trigger.CHANGED
        and row.finished_at is not None
        and row.tokens_before is not None
        and row.tokens_after is not None
    ]
    if not steps:
        return None
    steps.sort(key=lambda step: step.at)
    starts_at, now = (
        steps[0].at if len(finished) == MAX_HISTORY else min(thread.created_at, steps[0].at),
        timezone.now(),
    )
    return build_token_chart(
        steps,
        _growth(session, starts_at, now),
        starts_at=starts_at,
        now=now,
        tokens=tokens,
        threshold=int(budget * COMPACTION_THRESHOLD),
        target=int(budget * COMPACTION_TARGET),
    )


GROWTH_PARTS = 120


def _growth(session: Session, starts_at: datetime, now: datetime) -> list[Growth]:
    """Tokens of the thread's messages as memory counts them, summed up over parts of the time; those of before stand at
    the start. One statement."""
    start, end = starts_at.timestamp(), max(now.timestamp(), starts_at.timestamp() + 1)
    edges = (Value(start, FloatField()), Value(end, FloatField()), Value(GROWTH_PARTS))
    second = Cast(Extract("created_at", "epoch"), FloatField())
    part = Func(second, *edges, function="width_bucket", output_field=IntegerField())
    rows = prompt_messages(session).annotate(part=part).order_by().values("part").annotate(size=Sum(MESSAGE_COST))
    width = (end - start) / GROWTH_PARTS
    return [
        Growth(starts_at + timedelta(seconds=max(number - 1, 0) * width), tokens)
        for number, tokens in rows.order_by("part").values_list("part", "size")
    ]
