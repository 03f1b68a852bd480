"""The context viewer: exactly what a run saw, and the preview of what an agent would read.

With numbers, sources and labels; beside an entry of knowledge its freshness now, and the form to flag it as wrong."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.db.models import QuerySet
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST

from agents.access import reply_denied_reason
from agents.assembler.assemble import assemble
from agents.assembler.fit import RequiredPartsTooLarge
from agents.assembler.snapshots.redaction import (
    SectionView,
    SnapshotView,
    previous_snapshot,
    read_snapshot,
    view_of_prompt,
    visible_tool_calls,
)
from agents.assembler.stack import STACK
from agents.models import Agent, Run, Snapshot
from agents.tools.toolbox import Toolbox
from agents.web.runs import access_run
from knowledge.models import Entry
from knowledge.queries import compute_freshness
from knowledge.services import flag_entry, may_manage
from openvibe.base.markdown import mentioned_handles
from openvibe.base.params import MAX_ID
from openvibe.base.problems import Missing, Problem
from openvibe.chat.models import Dive, Draft, Thread
from openvibe.workspaces.access import Access
from openvibe.workspaces.decorators import WorkspaceRequest, workspace_view

TABS = (
    ("sections", "Sections"),
    ("dropped", "Dropped"),
    ("raw", "Raw messages"),
    ("compared", "Compared with previous turn"),
    ("tools", "Tool calls"),
)
RUN_TABS = ("compared", "tools")
"""Tabs that only a run has; a preview has none of them."""

TRUST_LABELS = {"trusted": "Trusted", "semi_trusted": "Semi-trusted", "untrusted": "Untrusted"}
SHORT_LAYER_TITLES = {
    "P0": "SOUL and policy",
    "P1": "Current task",
    "P2": "Feedback",
    "P3": "Knowledge",
    "P4": "Channel",
    "P5": "Dives",
    "P6": "Recall",
}
BAR_UNITS = 1000
"""Units of the segmented bar's drawing, whatever its width on the page."""


@dataclass(frozen=True)
class BarSegment:
    """One piece of the bar: `x` and `width` in BAR units, tokens and % of the ceiling."""

    key: str
    title: str
    tokens: int
    percent: float
    x: float
    width: float


@dataclass(frozen=True)
class LayerRow:
    """One layer of the stack with its sections, for the table."""

    key: str
    title: str
    tokens: int
    sections: tuple[SectionView, ...]


@workspace_view
def run_context(request: WorkspaceRequest, run_id: int, tab: str = "sections") -> HttpResponse:
    """A page, or a fragment for the right panel."""
    if tab not in dict(TABS):
        raise Missing
    run = access_run(request.access, run_id)
    view = read_snapshot(run, request.access)
    page = {"run": run, "tab": tab, "tabs": TABS, "view": view, "calls": visible_tool_calls(run, request.access)}
    page["used"] = used_entries(run, request.access)
    if view is not None:
        page |= viewer_values(view, tab)
    if view is not None and tab == "compared":
        page["comparison"] = _comparison(run, view.snapshot)
    name = "agents/_context.html" if request.htmx else "agents/context.html"
    return render(request, name, page)


def viewer_values(view: SnapshotView, tab: str) -> dict[str, Any]:
    """What the viewer's templates need of a snapshot, for one tab."""
    ceiling = view.snapshot.budget
    return {
        "segments": bar_segments(view),
        "bar": BAR_UNITS,
        "percent": _percent(view.snapshot.tokens, ceiling),
        "prefix_percent": _percent(view.snapshot.prefix_shared, view.snapshot.tokens),
        "shelves": _layer_rows(view.sections) if tab == "sections" else (),
        "trust_words": TRUST_LABELS,
    }


def bar_segments(view: SnapshotView) -> tuple[BarSegment, ...]:
    """P0 to P6, tools, wrappers and free room, in this order; the empty ones are left out."""
    sums: Counter[str] = Counter({key: int(value) for key, value in view.snapshot.layers.items()})
    tools = sum(section.tokens for section in view.sections if section.section == "tools")
    sums["P0"] -= tools
    parts: list[tuple[str, str, int]] = [
        (layer.name, f"{layer.name} {SHORT_LAYER_TITLES[layer.name]}", sums[layer.name]) for layer in STACK
    ]
    parts += [("tools", "Tools", tools), ("frame", "Wrappers", sums["frame"]), ("free", "Free", view.free)]
    total = max(view.snapshot.budget, view.snapshot.tokens, 1)
    segments, x = [], 0.0
    for key, title, tokens in parts:
        if tokens > 0:
            width = round(tokens * BAR_UNITS / total, 2)
            segments.append(BarSegment(key, title, tokens, _percent(tokens, total), round(x, 2), width))
            x += width
    return tuple(segments)


def _layer_rows(sections: Sequence[SectionView]) -> tuple[LayerRow, ...]:
    rows = []
    for layer in STACK:
        own = tuple(section for section in sections if section.layer == layer.name)
        if own:
            rows.append(LayerRow(layer.name, layer.title, sum(section.tokens for section in own), own))
    return tuple(rows)


def _comparison(run: Run, snapshot: Snapshot) -> dict[str, Any]:
    before = previous_snapshot(run)
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


@dataclass(frozen=True)
class UsedEntry:
    """An entry as the viewer's page shows it. `words` say how it stands now, `note` what was said against it.

    `typed` and `problem` are what the form keeps when something was wrong with it.
    """

    entry_id: int
    topic: str
    how: str
    words: str
    owner: str
    is_said_wrong: bool
    may_say_wrong: bool
    note: str = ""
    typed: str = ""
    problem: str = ""


def used_entries(run: Run, access: Access) -> dict[str, UsedEntry]:
    """Entries the run had before it, as far as the asker may read them, by their keys in a prompt. One query.

    The caller has checked that the run itself is visible.
    """
    seen = Entry.objects.visible_to(access).order_by().values("pk")
    uses = run.knowledge_uses.filter(entry__in=seen).select_related("entry__owner").defer("entry__search")
    return {f"knowledge:{use.entry_id}": _used_entry(use.entry, use.how, access) for use in uses.order_by("id")}


def _used_entry(entry: Entry, how: str, access: Access) -> UsedEntry:
    waits = entry.status == Entry.Status.NEEDS_REVIEW
    is_said_wrong = waits and entry.reason == Entry.Reason.WRONG
    return UsedEntry(
        entry_id=entry.pk,
        topic=entry.topic,
        how=how,
        words=compute_freshness(entry).words,
        owner=entry.owner.name,
        is_said_wrong=is_said_wrong,
        may_say_wrong=(waits or entry.status == Entry.Status.ACTIVE) and not is_said_wrong and may_manage(access),
        note=entry.reason_note if is_said_wrong else "",
    )


@require_POST
@workspace_view
def flag_used_entry(request: WorkspaceRequest, run_id: int, entry_id: int) -> HttpResponse:
    """Send an entry to review that this run had before it. Said twice it is said once; what was typed is kept."""
    run = access_run(request.access, run_id)
    key, typed = f"knowledge:{entry_id}", request.POST.get("note", "")
    if key not in used_entries(run, request.access):
        raise Missing
    problem = ""
    try:
        flag_entry(
            entry=Entry.objects.get(pk=entry_id), by=request.access, reason=Entry.Reason.WRONG, note=typed, how="page"
        )
    except Problem as error:
        if not request.htmx:
            raise
        problem = error.message
    if not request.htmx:
        return redirect("run-context", request.workspace.slug, run.pk)
    used = used_entries(run, request.access)[key]
    if problem:
        used = replace(used, problem=problem, typed=typed)
    return render(request, "agents/_knowledge_used.html", {"run": run, "used": used})


MAX_AGENTS = 3
"""Agents previewed for one message; assembling a prompt is not free."""
MAX_TEXT_CHARACTERS = 20_000
"""Characters of unsent text that a preview looks at."""


@dataclass(frozen=True)
class AgentPreview:
    """What one agent would do with the message: read so many tokens, or stay silent for a reason."""

    name: str
    handle: str
    level: int
    tokens: int = 0
    ceiling: int = 0
    silence: str = ""


@workspace_view
def context_preview(request: WorkspaceRequest, thread_id: int) -> HttpResponse:
    """One line for each agent that the text in `?text=` would call."""
    thread = _access_thread(request, thread_id)
    text = request.GET.get("text", "").replace("\x00", "")[:MAX_TEXT_CHARACTERS]
    addressed = _addressed_agents(thread, text)
    outlooks = [_preview_agent(request, agent, thread, text, task) for agent, task in addressed[:MAX_AGENTS]]
    page = {"outlooks": outlooks, "thread": thread, "more": max(len(addressed) - MAX_AGENTS, 0)}
    return render(request, "agents/_preview.html" if request.htmx else "agents/preview.html", page)


@workspace_view
def full_preview(request: WorkspaceRequest, thread_id: int, handle: str, tab: str = "sections") -> HttpResponse:
    """The viewer for a message not sent yet: the asker's stored draft, or the thread as it stands."""
    thread = _access_thread(request, thread_id)
    agent = _workspace_agents(thread).filter(participant__handle=handle).first()
    tabs = tuple(pair for pair in TABS if pair[0] not in RUN_TABS)
    if agent is None or tab not in dict(tabs):
        raise Missing
    draft = Draft.objects.filter(thread=thread, participant_id=request.member.participant_id).first()
    text = draft.body if draft else ""
    default_task = "mention" if thread.parent_id is None else "dive"
    task = next((task for addressed, task in _addressed_agents(thread, text) if addressed.pk == agent.pk), default_task)
    page = {
        "agent": agent,
        "thread": thread,
        "tab": tab,
        "tabs": tabs,
        "silence": reply_denied_reason(agent, thread, task),
    }
    if not page["silence"]:
        prompt = assemble(
            agent=agent,
            thread=thread,
            task=task,
            request=text or None,
            asked_by=request.member.participant,
            tools=Toolbox.for_agent(agent, thread).specs,
        )
        view = view_of_prompt(prompt, request.access)
        page |= {"view": view, "soul_number": prompt.soul_number} | viewer_values(view, tab)
    return render(request, "agents/_context.html" if request.htmx else "agents/context.html", page)


def _access_thread(request: WorkspaceRequest, thread_id: int) -> Thread:
    threads = Thread.objects.visible_to(request.access)
    thread: Thread | None = threads.select_related("workspace", "channel").filter(pk=thread_id).first()
    if thread is None:
        raise Missing
    return thread


def _workspace_agents(thread: Thread) -> QuerySet[Agent]:
    return Agent.objects.filter(workspace_id=thread.workspace_id).select_related(
        "participant", "workspace", "soul", "endpoint"
    )


def _addressed_agents(thread: Thread, text: str) -> list[tuple[Agent, str]]:
    """Agents the text names, then those that follow the thread, each with its task type; in a dive its agent."""
    if thread.parent_id is not None:
        return [(agent, "dive") for agent in _workspace_agents(thread).filter(participant=thread.dive.agent_id)]
    handles = mentioned_handles(text)
    following = list(thread.following_agents.values_list("handle", flat=True))
    all_handles = list(dict.fromkeys([*handles, *following]))
    if not all_handles:
        return []
    agents = {agent.handle: agent for agent in _workspace_agents(thread).filter(participant__handle__in=all_handles)}
    return [(agents[h], "mention" if h in handles else "thread") for h in all_handles if h in agents]


@workspace_view
def dive_budget(request: WorkspaceRequest, dive_id: int) -> HttpResponse:
    """How much of its budget the next prompt of a dive would take, or why its agent would stay silent."""
    dive = Dive.objects.filter(pk=min(dive_id, MAX_ID)).first()
    thread = _access_thread(request, dive.thread_id if dive else 0)
    outlooks = [_preview_agent(request, agent, thread, "", task) for agent, task in _addressed_agents(thread, "")]
    return render(request, "agents/_budget.html", {"thread": thread, "outlook": next(iter(outlooks), None)})


def _preview_agent(request: WorkspaceRequest, agent: Agent, thread: Thread, text: str, task: str) -> AgentPreview:
    silence = reply_denied_reason(agent, thread, task)
    tokens = ceiling = 0
    if silence is None:
        try:
            prompt = assemble(
                agent=agent,
                thread=thread,
                task=task,
                request=text or None,
                asked_by=request.member.participant,
                tools=Toolbox.for_agent(agent, thread).specs,
            )
            tokens, ceiling = prompt.tokens, prompt.ceiling
        except (Problem, RequiredPartsTooLarge) as problem:
            silence = str(problem)
    return AgentPreview(agent.participant.name, agent.handle, agent.level, tokens, ceiling, silence or "")
