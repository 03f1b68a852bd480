"""What is handed over where a conversation was compacted: fourteen sections, filled from rows and never from prose.

The sections and their order are those of the Compaction Handoff format. A handoff keeps the words of work rows as
they were then; of summaries, and of rows taken from a message, it keeps only the reference: their words are read
live, so that nothing deleted lives on here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from memory.plugins.models import Compaction
from memory.work.models import Approval, Handoff, ProgressEntry, WorkItem
from memory.work.queries import WorkState, get_work_state, row_text
from openvibe.chat.models import Thread
from openvibe.chat.queries import scoped_instructions
from openvibe.engines.registers import Register

Kind = WorkItem.Kind

OBJECTIVE = "Current objective"
CONSTRAINTS = "User constraints and preferences"
INSTRUCTIONS = "Authoritative instructions loaded"
PLAN = "Active plan"
WORKFLOW = "Active workflow"
GOAL = "Active goal and done condition"
APPROVALS = "Approval state"
RESOURCES = "Resources inspected"
FACTS = "Key facts and decisions"
ACTIONS = "Actions already taken"
ERRORS = "Errors, blockers, and attempted fixes"
PENDING = "Pending tasks"
NEXT = "Next recommended step"
DO_NOT_REDO = "Do not redo"

SECTIONS = (
    OBJECTIVE,
    CONSTRAINTS,
    INSTRUCTIONS,
    PLAN,
    WORKFLOW,
    GOAL,
    APPROVALS,
    RESOURCES,
    FACTS,
    ACTIONS,
    ERRORS,
    PENDING,
    NEXT,
    DO_NOT_REDO,
)
"""The fourteen, in order."""

MAX_DONE_ITEMS = 20
"""Closed to-dos, plans and goals named among the actions, the newest."""

_MARKUP = re.compile(r"^(\s*\d*)([#>*+=~`<|_.)-])")
"""What would make a line a heading, a list, a fence or HTML."""

FIELD_LABELS = {
    "state": "State",
    "stage": "Stage",
    "requested_by": "Requested by",
    "decided_by": "Decided by",
    "note": "Note",
}
"""What of a line is shown beside its words, so that no words can pass for it."""

DELETED_PLACEHOLDER = "[What this said was deleted or written anew since.]"

HandoffLine = dict[str, Any]
"""One line of a section as it is stored: `ref`, `text`, and for approvals and goals their fields."""

HANDOFF_SOURCES: Register[Callable[[int], Mapping[str, Sequence[HandoffLine]]]] = Register(
    "memory.work.handoff.HANDOFF_SOURCES"
)
"""What upper floors add to the handoff of a thread (its id): a section's title → lines."""


@dataclass(frozen=True, slots=True)
class RenderedLine:
    """A line for people. `ref` names what it came from (`work:12`), `fields` what is more than words."""

    ref: str
    text: str
    fields: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class RenderedSection:
    title: str
    lines: tuple[RenderedLine, ...]


def create_handoff(
    *, thread: Thread, trigger: str, compaction: Compaction | None = None, summary_ids: Iterable[int] = ()
) -> Handoff:
    """Stores the handoff of this moment, with what HANDOFF_SOURCES know (instructions and skills loaded, references
    retrieved, tool calls). A constant number of queries, part of the caller's transaction."""
    sections = _fill_sections(thread, get_work_state(thread.pk), summary_ids)
    for source in HANDOFF_SOURCES:
        for title, lines in source(thread.pk).items():
            sections[title] += [
                {**line, "ref": str(line.get("ref", "")), "text": str(line.get("text", ""))} for line in lines
            ]
    at_seq = compaction.at_seq if compaction is not None and compaction.at_seq else thread.last_seq
    return thread.handoffs.create(compaction=compaction, trigger=trigger, at_seq=at_seq, sections=sections)


def _fill_sections(thread: Thread, state: WorkState, summary_ids: Iterable[int]) -> dict[str, list[HandoffLine]]:
    def of_kind(kind: str) -> list[HandoffLine]:
        return [_work_line(row) for row in state.of_kind(kind)]

    return {
        OBJECTIVE: of_kind(Kind.OBJECTIVE),
        CONSTRAINTS: [*of_kind(Kind.CONSTRAINT), *of_kind(Kind.PREFERENCE)],
        INSTRUCTIONS: _instruction_lines(thread),
        PLAN: of_kind(Kind.PLAN),
        WORKFLOW: [_line(f"progress:{entry.pk}", entry.checkpoint) for entry in state.progress[:1]],
        GOAL: of_kind(Kind.GOAL),
        APPROVALS: [_approval_line(row) for row in state.approvals],
        RESOURCES: [],
        FACTS: [_line(f"summary:{number}", "") for number in summary_ids],
        ACTIONS: [*_done_lines(thread.pk), *map(_progress_line, state.progress), *of_kind(Kind.ARTIFACT)],
        ERRORS: [*of_kind(Kind.ERROR_TRIED), *_blocker_lines(state)],
        PENDING: [*of_kind(Kind.TODO), *of_kind(Kind.OPEN_QUESTION)],
        NEXT: _next_step_lines(state),
        DO_NOT_REDO: of_kind(Kind.DO_NOT_REDO),
    }


def _line(ref: str, text: str, **fields: str) -> HandoffLine:
    return {"ref": ref, "text": text, **fields}


def _work_line(row: WorkItem) -> HandoffLine:
    """A row taken from a message keeps no words here."""
    text = "" if row.message_id else row_text(row.text, row.data)
    stage = "proposed, binds nobody yet" if row.is_proposal else str(row.data.get("stage", ""))
    return _line(f"work:{row.pk}", text, kind=row.kind, stage=stage)


def _approval_line(row: Approval) -> HandoffLine:
    return _line(
        f"approval:{row.pk}",
        row.what,
        state=row.state,
        requested_by=row.requested_by.label,
        decided_by=row.decided_by.label if row.decided_by else "",
        decided_at=row.decided_at.isoformat() if row.decided_at else "",
        note=row.note,
    )


def _progress_line(row: ProgressEntry) -> HandoffLine:
    paragraphs = [row.checkpoint, row.changed, f"Evidence: {row.evidence}" if row.evidence else ""]
    return _line(f"progress:{row.pk}", "\n".join(filter(None, paragraphs)))


def _done_lines(thread_id: int) -> list[HandoffLine]:
    """What was closed as done, the newest: an action taken, never a task again."""
    kinds = (Kind.TODO, Kind.PLAN, Kind.GOAL, Kind.OBJECTIVE)
    rows = WorkItem.objects.filter(thread=thread_id, kind__in=kinds, state=WorkItem.State.DONE).order_by("-closed_at")
    values = rows.values_list("pk", "kind", "text", "message_id")[:MAX_DONE_ITEMS]
    return [_line(f"work:{pk}", "" if message else f"Done: {text}", kind=kind) for pk, kind, text, message in values]


def _blocker_lines(state: WorkState) -> list[HandoffLine]:
    approval_lines = [_line(f"approval:{row.pk}", f"Waits for an approval: {row.what}") for row in state.pending]
    denied_lines = [
        _line(f"approval:{row.pk}", f"Denied: {row.what}")
        for row in state.approvals
        if row.state == Approval.State.DENIED
    ]
    issues = [_line(f"progress:{row.pk}", row.open_issues) for row in state.progress[:1] if row.open_issues]
    return [*approval_lines, *denied_lines, *issues]


def _next_step_lines(state: WorkState) -> list[HandoffLine]:
    """What a person has to decide, else what the log says comes next, else the first thing to do."""
    if state.pending:
        row = state.pending[-1]
        return [_line(f"approval:{row.pk}", f"Wait until a person has decided: {row.what}")]
    if state.progress and state.progress[0].next_action:
        return [_line(f"progress:{state.progress[0].pk}", state.progress[0].next_action)]
    return [_work_line(row) for row in state.of_kind(Kind.TODO)[:1]]


def _instruction_lines(thread: Thread) -> list[HandoffLine]:
    """The trusted instructions that hold here, and the snippets that they include, each with its version. They stand in
    every prompt themselves; those of the whole workspace are named and not quoted: guests read handoffs, too."""
    lines = []
    for scope in scoped_instructions(None, thread.workspace, thread.channel, thread):
        lines.append(_line(scope.ref, f"Instructions of {scope.place}"))
        lines += [
            _line(snippet.ref, f"A snippet in the instructions of {scope.place}") for snippet in scope.expanded.snippets
        ]
    return lines


def render_sections(
    handoff: Handoff, summaries: Callable[[Sequence[int]], Mapping[int, str]]
) -> tuple[RenderedSection, ...]:
    """All fourteen sections with words: summaries' from `summaries` (by id), those of rows taken from a message from
    the row.

    What is gone since says DELETED_PLACEHOLDER. One query more where rows were taken from messages.
    """
    stored: dict[str, list[HandoffLine]] = {title: list(handoff.sections.get(title, ())) for title in SECTIONS}
    lines = [line for section in stored.values() for line in section if not line["text"]]
    summary_texts = summaries(_ref_ids(lines, "summary:")) if lines else {}
    texts = {f"summary:{number}": text for number, text in summary_texts.items()}
    work_ids = _ref_ids(lines, "work:")
    if work_ids:
        rows = WorkItem.objects.filter(pk__in=work_ids, thread=handoff.thread_id)
        texts |= {f"work:{pk}": row_text(text, data) for pk, text, data in rows.values_list("pk", "text", "data")}
    return tuple(
        RenderedSection(title, tuple(_render_line(line, texts) for line in stored[title])) for title in SECTIONS
    )


def _ref_ids(lines: Iterable[HandoffLine], prefix: str) -> list[int]:
    return [int(line["ref"].removeprefix(prefix)) for line in lines if line["ref"].startswith(prefix)]


def _render_line(line: HandoffLine, texts: Mapping[str, str]) -> RenderedLine:
    fields = tuple((name, str(line[key])) for key, name in FIELD_LABELS.items() if line.get(key))
    return RenderedLine(line["ref"], line["text"] or texts.get(line["ref"], DELETED_PLACEHOLDER), fields)


def render_handoff_markdown(sections: Iterable[RenderedSection]) -> str:
    """`# Compaction Handoff` and its fourteen headings, for people and for files."""
    parts = ["# Compaction Handoff"]
    for section in sections:
        parts += [f"## {section.title}", "\n".join(map(_markdown_item, section.lines)) or "Nothing."]
    return "\n\n".join(parts) + "\n"


def _markdown_item(line: RenderedLine) -> str:
    """Fields first, on a line of their own, so that no words can pass for a field; words that are only words."""
    fields = " · ".join(f"{name}: {' '.join(value.replace(' · ', ' - ').split())}" for name, value in line.fields)
    text_lines = [_MARKUP.sub(r"\1\\\2", line_text) for line_text in line.text.split("\n")]
    return "- " + "\n  ".join([fields, *text_lines] if fields else text_lines)
