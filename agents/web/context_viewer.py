"""The context viewer: exactly what a run saw, and the preview of what an agent would read.

Beside an entry of knowledge stand its freshness now and the form to flag it as wrong."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.db.models import QuerySet
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST

from agents.access import reply_denied_reason
from agents.assembler.assemble import Prompt, assemble
from agents.assembler.fit import RequiredPartsTooLarge
from agents.assembler.snapshots.redaction import (
    ItemView,
    SectionView,
    SnapshotView,
    previous_snapshot,
    read_snapshot,
    view_of_prompt,
    visible_tool_calls,
)
from agents.assembler.stack import STACK
from agents.models import Agent, Run, Snapshot
from agents.prompts.answer_sources import SharedPassage, find_sources
from agents.prompts.chart import SEGMENT_TITLES, segment_tokens
from agents.prompts.words import SECTION_TITLES, read_parts
from agents.tools.toolbox import Toolbox
from agents.web.runs import access_run
from knowledge.models import Entry
from knowledge.queries import compute_freshness
from knowledge.services import flag_entry, may_manage
from openvibe.base.markdown import mentioned_handles
from openvibe.base.problems import Missing, Problem
from openvibe.chat.models import Draft, Message, Thread
from openvibe.chat.queries import access_dive, access_thread
from openvibe.workspaces.access import Access
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
        page |= viewer_values(view, tab)
    if view is not None and tab == "sections":
        page["sources"] = _answer_sources(run, view)
    if view is not None and tab == "compared":
        page["comparison"] = _comparison(run, view.snapshot)
    return render(request, "agents/_context.html" if request.htmx else "agents/context.html", page)


_FENCE_LINE = re.compile(r"^</?[a-z_]+(?: [^\n]*)?>$", re.MULTILINE)


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
    texts = [_FENCE_LINE.sub("", item.text) for item in items]
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
    return {
        "before": before,
        "shared": shared,
        "shared_percent": _percent(shared, snapshot.tokens),
        "new": max(snapshot.tokens - shared, 0),
        "layers": [
            (SEGMENT_TITLES[layer.name], before.layers.get(layer.name, 0), snapshot.layers.get(layer.name, 0))
            for layer in STACK
        ],
    }


def _percent(part: int, whole: int) -> float:
    return round(100 * part / whole, 1) if whole else 0.0


@dataclass(frozen=True)
class UsedEntry:
    """An entry that a run had before it, for the viewer. `note` is what the form keeps when it has a `problem`."""

    entry: Entry
    how: str
    may_manage: bool
    note: str = ""
    problem: str = ""

    @property
    def freshness(self) -> str:
        return compute_freshness(self.entry).words

    @property
    def is_flagged(self) -> bool:
        return self.entry.status == Entry.Status.NEEDS_REVIEW and self.entry.reason == Entry.Reason.WRONG

    @property
    def may_flag(self) -> bool:
        is_in_use = self.entry.status in (Entry.Status.ACTIVE, Entry.Status.NEEDS_REVIEW)
        return is_in_use and not self.is_flagged and self.may_manage


def used_entries(run: Run, access: Access) -> dict[str, UsedEntry]:
    """Entries the run had before it, as far as the asker may read them, by their keys in a prompt. One query.

    The caller has checked that the run itself is visible.
    """
    readable = Entry.objects.visible_to(access).order_by().values("pk")
    uses = run.knowledge_uses.filter(entry__in=readable).select_related("entry__owner").defer("entry__search")
    return {
        f"knowledge:{use.entry_id}": UsedEntry(use.entry, use.how, may_manage(access)) for use in uses.order_by("id")
    }


@require_POST
@workspace_view
def flag_used_entry(request: WorkspaceRequest, run_id: int, entry_id: int) -> HttpResponse:
    """Send an entry to review that this run had before it. Said twice it is said once; a refused note is kept."""
    run = access_run(request.access, run_id)
    key, note = f"knowledge:{entry_id}", request.POST.get("note", "")
    if key not in used_entries(run, request.access):
        raise Missing
    entry, problem = Entry.objects.get(pk=entry_id), ""
    try:
        flag_entry(entry=entry, by=request.access, reason=Entry.Reason.WRONG, note=note, how="page")
    except Problem as error:
        if not request.htmx:
            raise
        problem = error.message
    if not request.htmx:
        return redirect("run-context", request.workspace.slug, run.pk)
    used = replace(used_entries(run, request.access)[key], problem=problem, note=note)
    return render(request, "agents/_knowledge_used.html", {"run": run, "used": used})


MAX_AGENTS = 3
"""Agents previewed for one message; assembling a prompt is not free."""
MAX_TEXT_CHARACTERS = 20_000
"""Characters of unsent text that a preview looks at."""


@dataclass(frozen=True)
class AgentPreview:
    """What one agent would do with the message: read so many tokens, or not answer for a reason."""

    agent: Agent
    tokens: int = 0
    ceiling: int = 0
    denied_reason: str = ""


@workspace_view
def context_preview(request: WorkspaceRequest, thread_id: int) -> HttpResponse:
    """One line for each agent that the text in `?text=` would call."""
    thread = access_thread(request.access, thread_id)
    text = request.GET.get("text", "").replace("\x00", "")[:MAX_TEXT_CHARACTERS]
    addressed = _addressed_agents(thread, text)
    previews = [_preview_agent(request, agent, thread, text, task) for agent, task in addressed[:MAX_AGENTS]]
    page = {"previews": previews, "thread": thread, "more": max(len(addressed) - MAX_AGENTS, 0)}
    return render(request, "agents/_preview.html" if request.htmx else "agents/preview.html", page)


@workspace_view
def full_preview(request: WorkspaceRequest, thread_id: int, handle: str, tab: str = "sections") -> HttpResponse:
    """The viewer for a message not sent yet: the asker's stored draft, or the thread as it stands."""
    thread = access_thread(request.access, thread_id)
    agent = _workspace_agents(thread).filter(participant__handle=handle).first()
    if agent is None or tab not in dict(PREVIEW_TABS):
        raise Missing
    draft = Draft.objects.filter(thread=thread, participant_id=request.member.participant_id).first()
    text = draft.body if draft else ""
    default_task = "mention" if thread.parent_id is None else "dive"
    task = next((task for addressed, task in _addressed_agents(thread, text) if addressed.pk == agent.pk), default_task)
    denied_reason = reply_denied_reason(agent, thread, task)
    page = {"agent": agent, "thread": thread, "tab": tab, "tabs": PREVIEW_TABS, "denied_reason": denied_reason}
    if denied_reason is None:
        prompt = _assemble_preview(request, agent, thread, text, task)
        view = view_of_prompt(prompt, request.access)
        page |= {"view": view, "soul_number": prompt.soul_number} | viewer_values(view, tab)
    return render(request, "agents/_context.html" if request.htmx else "agents/context.html", page)


def _workspace_agents(thread: Thread) -> QuerySet[Agent]:
    agents = Agent.objects.filter(workspace_id=thread.workspace_id)
    return agents.select_related("participant", "workspace", "soul", "endpoint")


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
    """How much of its budget the next prompt of a dive would take, or why its agent would not answer."""
    thread = access_dive(request.access, dive_id).thread
    previews = [_preview_agent(request, agent, thread, "", task) for agent, task in _addressed_agents(thread, "")]
    return render(request, "agents/_budget.html", {"thread": thread, "preview": next(iter(previews), None)})


def _preview_agent(request: WorkspaceRequest, agent: Agent, thread: Thread, text: str, task: str) -> AgentPreview:
    denied_reason = reply_denied_reason(agent, thread, task)
    if denied_reason is not None:
        return AgentPreview(agent, denied_reason=denied_reason)
    try:
        prompt = _assemble_preview(request, agent, thread, text, task)
    except (Problem, RequiredPartsTooLarge) as problem:
        return AgentPreview(agent, denied_reason=str(problem))
    return AgentPreview(agent, prompt.tokens, prompt.ceiling)


def _assemble_preview(request: WorkspaceRequest, agent: Agent, thread: Thread, text: str, task: str) -> Prompt:
    return assemble(
        agent=agent,
        thread=thread,
        task=task,
        request=text or None,
        asked_by=request.member.participant,
        tools=Toolbox.for_agent(agent, thread).specs,
    )
