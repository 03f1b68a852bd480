"""The context viewer: exactly what a run saw, with numbers, sources and labels."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.http import HttpResponse
from django.shortcuts import render

from agents.assembler.stack import STACK
from agents.assembler.viewing import SeenSection, SnapshotView, compared_with_previous, read_snapshot
from agents.models import Run, Snapshot
from agents.tools.viewing import calls_of
from agents.web.knowledge_used import used_in
from agents.web.runs import visible_run
from openvibe.base.problems import Missing
from openvibe.workspaces.web.doors import WorkspaceRequest, in_workspace

TABS = (
    ("sections", "Sections"),
    ("dropped", "Dropped"),
    ("raw", "Raw messages"),
    ("compared", "Compared with previous turn"),
    ("tools", "Tool calls"),
)
OF_RUNS = ("compared", "tools")
"""Tabs that only a run has; a preview has none of them."""

TRUST_WORDS = {"trusted": "Trusted", "semi_trusted": "Semi-trusted", "untrusted": "Untrusted"}
SHORT = {
    "P0": "SOUL and policy",
    "P1": "Current task",
    "P2": "Feedback",
    "P3": "Knowledge",
    "P4": "Channel",
    "P5": "Dives",
    "P6": "Recall",
}
BAR = 1000
"""Units of the segmented bar's drawing, whatever its width on the page."""


@dataclass(frozen=True)
class Segment:
    """One piece of the bar: `x` and `width` in BAR units, tokens and % of the ceiling."""

    key: str
    title: str
    tokens: int
    percent: float
    x: float
    width: float


@dataclass(frozen=True)
class Shelf:
    """One layer of the stack with its sections, for the table."""

    key: str
    title: str
    tokens: int
    sections: tuple[SeenSection, ...]


@in_workspace
def context(request: WorkspaceRequest, run_id: int, tab: str = "sections") -> HttpResponse:
    """A page, or a fragment for the right panel."""
    if tab not in dict(TABS):
        raise Missing
    run = visible_run(request.access, run_id)
    view = read_snapshot(run, request.access)
    page = {"run": run, "tab": tab, "tabs": TABS, "view": view, "calls": calls_of(run, request.access)}
    page["used"] = used_in(run, request.access)
    if view is not None:
        page |= shown(view, tab)
    if view is not None and tab == "compared":
        page["comparison"] = _comparison(run, view.snapshot)
    name = "agents/_context.html" if request.htmx else "agents/context.html"
    return render(request, name, page)


def shown(view: SnapshotView, tab: str) -> dict[str, Any]:
    """What the viewer's templates need of a snapshot, for one tab."""
    ceiling = view.snapshot.budget
    return {
        "segments": segments(view),
        "bar": BAR,
        "percent": _percent(view.snapshot.tokens, ceiling),
        "prefix_percent": _percent(view.snapshot.prefix_shared, view.snapshot.tokens),
        "shelves": _shelves(view.sections) if tab == "sections" else (),
        "trust_words": TRUST_WORDS,
    }


def segments(view: SnapshotView) -> tuple[Segment, ...]:
    """P0 to P6, tools, wrappers and free room, in this order; the empty ones are left out."""
    sums: Counter[str] = Counter({key: int(value) for key, value in (view.layers or {}).items()})
    tools = sum(section.tokens for section in view.sections if section.section == "tools")
    sums["P0"] -= tools
    parts: list[tuple[str, str, int]] = [
        (layer.name, f"{layer.name} {SHORT[layer.name]}", sums[layer.name]) for layer in STACK
    ]
    parts += [("tools", "Tools", tools), ("frame", "Wrappers", sums["frame"]), ("free", "Free", view.free)]
    whole = max(view.snapshot.budget, view.snapshot.tokens, 1)
    made, x = [], 0.0
    for key, title, tokens in parts:
        if tokens > 0:
            width = round(tokens * BAR / whole, 2)
            made.append(Segment(key, title, tokens, _percent(tokens, whole), round(x, 2), width))
            x += width
    return tuple(made)


def _shelves(sections: Sequence[SeenSection]) -> tuple[Shelf, ...]:
    shelves = []
    for layer in STACK:
        own = tuple(section for section in sections if section.layer == layer.name)
        if own:
            shelves.append(Shelf(layer.name, layer.title, sum(section.tokens for section in own), own))
    return tuple(shelves)


def _comparison(run: Run, snapshot: Snapshot) -> dict[str, Any]:
    before = compared_with_previous(run)
    if before is None:
        return {}
    layers = [layer.name for layer in STACK]
    return {
        "before": before,
        "shared": snapshot.prefix_shared,
        "shared_percent": _percent(snapshot.prefix_shared, snapshot.tokens),
        "new": max(snapshot.tokens - snapshot.prefix_shared, 0),
        "layers": [(name, before.layers.get(name, 0), snapshot.layers.get(name, 0)) for name in layers],
    }


def _percent(part: int, whole: int) -> float:
    return round(100 * part / whole, 1) if whole else 0.0
