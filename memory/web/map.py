"""The memory map of a thread: what is remembered of it, down to the messages, and how that came about.

Whoever sees the thread sees its map; the summaries and messages are asked for through a session each time.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from memory.models import Compaction
from memory.providers.base import Explorer, Found, Searcher, Stats
from memory.providers.budgets import GOAL, THRESHOLD, context_budget
from memory.providers.opening import open_session
from memory.providers.registry import provider_for
from memory.services.compaction import request_compaction, why_not
from memory.tasks import send_compaction_after_commit
from memory.web.plot import Plot, Step, token_plot
from memory.web.shelves import BAR, contents_of, lines_of
from openvibe.base.problems import Conflict, Missing
from openvibe.chat.markdown import render as render_markdown
from openvibe.chat.models import Thread
from openvibe.chat.web.finding import thread_of
from openvibe.chat.web.numbers import LARGEST_ID, number
from openvibe.workspaces.access import Access
from openvibe.workspaces.web.doors import WorkspaceRequest, in_workspace

HISTORY = 60
"""Compactions in the drawing and in the table, the newest."""

LONGEST_QUERY = 500  # characters
PARTS = {"state": "memory/_map_state.html", "search": "memory/_map_search.html"}


@dataclass(frozen=True)
class State:
    """How things stand. Sizes in tokens.

    `now` waits or runs; `last` is the newest that is over, where nothing to do is told to those who asked only.
    """

    stats: Stats
    budget: int
    threshold: int
    now: Compaction | None
    last: Compaction | None


@in_workspace
@require_safe
def thread_memory(request: WorkspaceRequest, thread_id: int) -> HttpResponse:
    """A page, or a fragment for the right panel; `?part=` gives one part of it anew, `?q=` searches."""
    thread = thread_of(request, thread_id)
    part = PARTS.get(request.GET.get("part", ""))
    page = _page(thread, request.access, query=request.GET.get("q", ""), whole=part is None)
    name = part if part and request.htmx else "memory/_map.html" if request.htmx else "memory/map.html"
    return render(request, name, page)


@in_workspace
@require_safe
def summary(request: WorkspaceRequest, thread_id: int, summary_id: int) -> HttpResponse:
    """One summary and what it stands for, one step down. `?inside` gives that without a heading, `?after=` the rest."""
    thread = thread_of(request, thread_id)
    session, provider = open_session(request.access, thread.pk), provider_for(thread.workspace_id)
    if not isinstance(provider, Explorer):
        raise Missing
    found = provider.describe(session, min(summary_id, LARGEST_ID))
    below = provider.expand(session, found.id, number(request.GET, "after"))
    page = {
        "thread": thread,
        "summary": found,
        "lines": [(line, _html(line.entry.kind, line.entry.text)) for line in lines_of(below.entries)],
        "cursor": below.cursor,
        "is_rest": "after" in request.GET,
    }
    if request.htmx:
        return render(request, "memory/_map_inside.html" if "inside" in request.GET else "memory/_summary.html", page)
    return render(request, "memory/summary.html", page)


@in_workspace
@require_POST
def compact(request: WorkspaceRequest, thread_id: int) -> HttpResponse:
    """Ask a worker to compact the thread: a step, or (`full`) everything. The map shows how far it is."""
    thread = thread_of(request, thread_id)
    full, said = request.POST.get("full") == "1", ""
    try:
        asked = request_compaction(thread=thread, trigger=Compaction.Trigger.HAND, full=full, by=request.access)
        said = "" if asked else "A compaction of this thread is under way already."
    except Conflict as problem:
        asked, said = None, problem.message
    if asked is not None:
        send_compaction_after_commit(asked.pk)
    if request.htmx:
        return render(request, "memory/_map_state.html", _page(thread, request.access, whole=False) | {"said": said})
    if said:
        messages.info(request, said)
    return redirect("thread-memory", request.workspace.slug, thread.pk)


def _page(thread: Thread, access: Access, *, query: str = "", whole: bool = True) -> dict[str, Any]:
    """What the map's templates need. Without `whole`, only what the parts need."""
    page: dict[str, Any] = {"thread": thread, "why_not": why_not(thread), "query": query}
    if thread.access == Thread.Access.HUMAN_ONLY:
        return page
    session, provider = open_session(access, thread.pk), provider_for(thread.workspace_id)
    budget = context_budget(thread)
    compactions = list(thread.compactions.select_related("requested_by")[:HISTORY])
    now = next((row for row in compactions if not row.is_over), None)
    over = [row for row in compactions if row.is_over]
    last = next((row for row in over if row.state != Compaction.State.NOTHING or row.trigger == row.Trigger.HAND), None)
    state = State(provider.stats(session), budget, int(budget * THRESHOLD), now, last)
    page |= {"state": state, "may_search": isinstance(provider, Searcher)}
    if query and isinstance(provider, Searcher):
        page["found"] = [_hit(hit) for hit in provider.search(session, query[:LONGEST_QUERY])]
    if whole and isinstance(provider, Explorer):
        page |= {"contents": contents_of(provider, session, budget), "bar": BAR}
    if whole and page["why_not"] is None:
        page |= {"history": over, "plot": _plot(thread, over, state)}
    return page


def _plot(thread: Thread, over: list[Compaction], state: State) -> Plot | None:
    """The drawing; None before the first compaction that measured something."""
    steps = [
        Step(row.finished_at, row.tokens_before, row.tokens_after)
        for row in reversed(over)
        if row.state == Compaction.State.DONE and row.trigger != Compaction.Trigger.CHANGED
        and row.finished_at is not None and row.tokens_before is not None and row.tokens_after is not None
    ]  # fmt: skip
    if not steps:
        return None
    steps.sort(key=lambda step: step.at)
    begins = steps[0].at if len(over) == HISTORY else min(thread.created_at, steps[0].at)
    return token_plot(
        steps, begins=begins, now=timezone.now(), tokens=state.stats.tokens, threshold=state.threshold,
        target=int(state.budget * GOAL),
    )  # fmt: skip


def _hit(found: Found) -> dict[str, Any]:
    return {"found": found, "at": datetime.fromisoformat(found.at)}


def _html(kind: str, text: str) -> str:
    """A message as the thread shows it; "" for a summary, which is shown as it was written."""
    return "" if kind == "summary" else render_markdown(text)
