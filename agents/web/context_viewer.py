"""The context viewer: exactly what a run saw."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse

from agents.agent.models import Run, Snapshot
from agents.prompts.answer_sources import SharedPassage, find_sources, unescaped_text
from agents.prompts.assembler.stack import STACK
from agents.prompts.descriptions import SECTION_TITLES, read_parts
from agents.prompts.snapshots.redaction import (
    ItemView,
    SectionView,
    SnapshotView,
    previous_snapshot,
    read_snapshot,
    visible_tool_calls,
)
from agents.prompts.snapshots.store import key_ids
from agents.statistics.charts import SEGMENT_TITLES, segment_tokens
from agents.web.knowledge_uses import used_entries
from agents.web.runs import access_run
from memory.queries import visible_work_items
from openvibe.base.problems import Missing
from openvibe.chat.models import Message
from openvibe.workspaces.decorators import WorkspaceRequest, workspace_view
from openvibe.workspaces.services import note_opened_context

PREVIEW_TABS = (("sections", "Sections"), ("dropped", "Dropped"), ("raw", "Raw messages"))
RUN_TABS = (*PREVIEW_TABS, ("compared", "Compared with previous turn"), ("tools", "Tool calls"))
TRUST_LABELS = {"trusted": "Trusted", "semi_trusted": "Semi-trusted", "untrusted": "Untrusted"}
BAR_UNITS = 1000
"""Units of the segmented bar's drawing, whatever its width on the page."""


@dataclass(frozen=True)
class BarSegment:
    """One piece of the bar: `x` and `width` in BAR_UNITS, tokens and % of the ceiling."""

    key: str
    title: str
    tokens: int
    percent: float
    x: float
    width: float


@workspace_view
def run_context(request: WorkspaceRequest, run_id: int, tab: str = "sections") -> HttpResponse:
    """A page, or a fragment for the right panel."""
    if tab not in dict(RUN_TABS):
        raise Missing
    run = access_run(request.access, run_id)
    note_opened_context(request.member)
    view = read_snapshot(run, request.access)
    page = {
        "run": run,
        "tab": tab,
        "tabs": RUN_TABS,
        "view": view,
        "calls": visible_tool_calls(run, request.access),
        "used": used_entries(run, request.access),
    }
    if view is not None:
        page |= viewer_values(view, tab) | {"work_links": work_links(request, view, tab)}
    if view is not None and tab == "sections":
        page["sources"] = _answer_sources(run, view)
    if view is not None and tab == "compared":
        page["comparison"] = _comparison(run, view.snapshot)
    return render(request, "agents/_context.html" if request.htmx else "agents/context.html", page)


@dataclass(frozen=True)
class AnswerSource:
    """An item that the answer shares words with, and which. `is_own`: an earlier message of the agent itself."""

    item: ItemView
    passage: SharedPassage
    is_own: bool


def _answer_sources(run: Run, view: SnapshotView) -> list[AnswerSource]:
    """What of the prompt the answer's words come from, but for the question; nothing while there is no answer. What the
    agent said itself is the last. One query."""
    items = [
        item
        for section in view.sections
        if section.section not in ("request", "tools", "policy")
        for item in section.items
        if not item.hidden
    ]
    texts = [unescaped_text(item.text, is_message=item.message_id is not None) for item in items]
    messages = Message.objects.filter(pk__in=[item.message_id for item in items if item.message_id])
    own_ids = set(messages.filter(author=run.agent.participant_id).values_list("pk", flat=True))
    own = {place for place, item in enumerate(items) if item.message_id in own_ids}
    passages = find_sources(run.reply.body if run.reply else "", texts, own)
    return [AnswerSource(items[passage.place], passage, passage.place in own) for passage in passages]


def viewer_values(view: SnapshotView, tab: str) -> dict[str, Any]:
    """What the viewer's templates need of a snapshot, for one tab."""
    return {
        "segments": bar_segments(view),
        "bar": BAR_UNITS,
        "percent": _percent(view.snapshot.tokens, view.snapshot.budget),
        "prefix_percent": _percent(view.snapshot.prefix_shared or 0, view.snapshot.tokens),
        "layers": _layer_rows(view.sections) if tab == "sections" else [],
        "trust_labels": TRUST_LABELS,
        "section_titles": SECTION_TITLES,
        "read_parts": read_parts([item for section in view.sections for item in section.items]),
    }


class WorkLink(NamedTuple):
    """The address of a row of the work page, and whether it is a preference that binds nobody yet."""

    address: str
    is_preference: bool


def work_links(request: WorkspaceRequest, view: SnapshotView, tab: str) -> dict[str, WorkLink]:
    """The places where what a thread works on is changed, as far as it is still open, by the keys of its items. One
    query, none where the tab shows no items."""
    keys = [item.key for section in view.sections for item in section.items if not item.hidden]
    ids = key_ids(keys, "work") if tab == "sections" else set()
    rows = visible_work_items(request.access).filter(pk__in=ids, state="open").values_list("pk", "thread_id", "kind")
    return {
        f"work:{pk}": WorkLink(
            f"{reverse('thread-work', args=[request.workspace.slug, thread_id])}#work-row-{pk}", kind == "preference"
        )
        for pk, thread_id, kind in (rows if ids else ())
    }


def bar_segments(view: SnapshotView) -> tuple[BarSegment, ...]:
    """P0 to P6, tools, wrappers and free room, in this order; the empty ones are left out."""
    tools = view.snapshot.sections.get("tools") or sum(
        section.tokens for section in view.sections if section.section == "tools"
    )
    parts = segment_tokens(view.snapshot.layers, tools=tools, free=view.free)
    total = max(view.snapshot.budget, view.snapshot.tokens, 1)
    segments, x = [], 0.0
    for key, tokens in parts.items():
        if tokens > 0:
            width = round(tokens * BAR_UNITS / total, 2)
            segments.append(BarSegment(key, SEGMENT_TITLES[key], tokens, _percent(tokens, total), round(x, 2), width))
            x += width
    return tuple(segments)


def _layer_rows(sections: Sequence[SectionView]) -> list[dict[str, Any]]:
    """The layers that hold something, each with its sections, for the table."""
    rows = []
    for layer in STACK:
        own = [section for section in sections if section.layer == layer.name]
        if own:
            tokens = sum(section.tokens for section in own)
            rows.append({"key": layer.name, "title": layer.title, "tokens": tokens, "sections": own})
    return rows


def _comparison(run: Run, snapshot: Snapshot) -> dict[str, Any]:
    before = previous_snapshot(run)
    if before is None:
        return {}
    shared = snapshot.prefix_shared or 0
    parts, parts_before = (
        segment_tokens(one.layers, tools=one.sections.get("tools", 0), free=0) for one in (snapshot, before)
    )
    return {
        "before": before,
        "shared": shared,
        "shared_percent": _percent(shared, snapshot.tokens),
        "new": max(snapshot.tokens - shared, 0),
        "parts": [(SEGMENT_TITLES[key], parts_before[key], parts[key]) for key in parts if key != "free"],
    }


def _percent(part: int, whole: int) -> float:
    return round(100 * part / whole, 1) if whole else 0.0
