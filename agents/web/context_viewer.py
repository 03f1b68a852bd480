"""The context viewer: exactly what a run saw."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse

from agents.agent.models import Run, WatchLook
from agents.prompts.comparison import ItemChange, WordRun, compare_items
from agents.prompts.descriptions import SECTION_TITLES, count_left_out, read_parts
from agents.prompts.snapshots.redaction import (
    ItemView,
    SnapshotView,
    previous_snapshot,
    read_snapshot,
    visible_tool_calls,
)
from agents.prompts.snapshots.store import key_ids
from agents.statistics.charts import SEGMENT_TITLES, segment_tokens
from agents.web.answer_words import answer_sources, mark_answer
from agents.web.knowledge_uses import used_entries
from agents.web.prompt_items import ItemRow, layer_rows, section_shares, written_text
from agents.web.runs import access_run
from memory.queries import visible_work_items
from openvibe.base.problems import Missing
from openvibe.workspaces.access import Access
from openvibe.workspaces.decorators import WorkspaceRequest, workspace_view
from openvibe.workspaces.services import note_opened_context

PREVIEW_TABS = (("sections", "Sections"), ("dropped", "Dropped"), ("raw", "Raw messages"))
RUN_TABS = (*PREVIEW_TABS, ("compared", "Compared with the one before"), ("tools", "Tool calls"))
BAR_UNITS = 1000
"""Units of the segmented bar's drawing, whatever its width on the page."""
MAX_SAME_CHARACTERS = 120
"""Characters shown on either side of words that changed, where more of a text stayed the same."""


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
        "look": _look_before(run),
    }
    if view is not None:
        page |= viewer_values(view, tab) | {"work_links": work_links(request, view, tab)}
    if view is not None and tab == "sections" and run.reply is not None and view.messages:
        sources = answer_sources(run, view)
        page |= {"sources": sources, "answer": mark_answer(run.reply.body, sources)}
    if view is not None and tab == "compared":
        page["comparison"] = _comparison(run, view, request.access)
    return render(request, "agents/_context.html" if request.htmx else "agents/context.html", page)


def _look_before(run: Run) -> WatchLook | None:
    """The look that had the run speak up unasked. One query, none for other runs."""
    if run.task != Run.Task.PROACTIVE:
        return None
    return WatchLook.objects.filter(line=run.trigger_id).defer("content").first()


def viewer_values(view: SnapshotView, tab: str) -> dict[str, Any]:
    """What the viewer's templates need of a snapshot, for one tab."""
    return {
        "segments": bar_segments(view),
        "bar": BAR_UNITS,
        "percent": _percent(view.snapshot.tokens, view.snapshot.budget),
        "prefix_percent": _percent(view.snapshot.prefix_shared or 0, view.snapshot.tokens),
        "shares": section_shares(view) if tab == "sections" else [],
        "layers": layer_rows(view) if tab == "sections" else [],
        "section_titles": SECTION_TITLES,
        "read_parts": read_parts([item for section in view.sections for item in section.items]),
        "left_out": count_left_out(view.dropped),
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


@dataclass(frozen=True)
class ChangeRow:
    """A line of the comparison: an item that was added, is gone or was changed, with its words; or how many in a row
    stayed the same."""

    change: ItemChange[ItemView] | None
    same_count: int = 0

    @property
    def row(self) -> ItemRow:
        assert self.change is not None
        return ItemRow(self.change.item)

    @property
    def words(self) -> list[WordRun]:
        """What became of its words; where many stayed the same, those beside a change."""
        runs = self.change.words if self.change else ()
        last = len(runs) - 1
        return [
            run if run.kind != "same" else WordRun("same", _shorten(run.text, is_first=at == 0, is_last=at == last))
            for at, run in enumerate(runs)
        ]


def _shorten(text: str, *, is_first: bool, is_last: bool) -> str:
    """The beginning and the end of words that stayed the same, as far as they stand beside a change."""
    head = "" if is_first else text[:MAX_SAME_CHARACTERS]
    tail = "" if is_last else text[-MAX_SAME_CHARACTERS:]
    return text if len(text) <= len(head) + len(tail) + 1 else f"{head} … {tail}"


def _change_rows(changes: Sequence[ItemChange[ItemView]]) -> list[ChangeRow]:
    rows: list[ChangeRow] = []
    for change in changes:
        if change.kind != "same":
            rows.append(ChangeRow(change))
        elif rows and rows[-1].change is None:
            rows[-1] = ChangeRow(None, rows[-1].same_count + 1)
        else:
            rows.append(ChangeRow(None, 1))
    return rows


def _comparison(run: Run, view: SnapshotView, access: Access) -> dict[str, Any]:
    """Values for this prompt beside the one before it, each as the viewer may see it. Of a session that goes on all is
    new."""
    before = previous_snapshot(run)
    if before is None:
        return {}
    snapshot = view.snapshot
    shared = snapshot.prefix_shared or 0
    parts, parts_before = (
        segment_tokens(one.layers, tools=one.sections.get("tools", 0), free=0) for one in (snapshot, before)
    )
    comparison = {
        "before": before,
        "shared": shared,
        "shared_percent": _percent(shared, snapshot.tokens),
        "new": max(snapshot.tokens - shared, 0),
        "parts": [(SEGMENT_TITLES[key], parts_before[key], parts[key]) for key in parts if key != "free"],
    }
    earlier = read_snapshot(before.run, access)
    if earlier is None or not (earlier.messages and view.messages):
        return comparison
    items, earlier_items = ([item for section in one.sections for item in section.items] for one in (view, earlier))
    changes = compare_items([] if snapshot.continues_id else earlier_items, items, written_text)
    counts = Counter(change.kind for change in changes)
    return comparison | {"rows": _change_rows(changes), "counts": counts, "is_readable": True}


def _percent(part: int, whole: int) -> float:
    return round(100 * part / whole, 1) if whole else 0.0
