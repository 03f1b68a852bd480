"""What is handed over where a conversation was compacted: fourteen sections, filled from rows and never from prose.

The sections and their order are those of the Compaction Handoff format. A handoff keeps the words of work rows as
they were then; of summaries, and of rows taken from a message, it keeps only the reference: their words are read
live, so that nothing deleted lives on here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from django.conf import settings
from django.utils.module_loading import import_string

from memory.models import Approval, Compaction, Handoff, WorkItem
from memory.work import ApprovalRow, ProgressRow, WorkRow, WorkState, open_work, row_text
from openvibe.chat.models import Thread

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
    OBJECTIVE, CONSTRAINTS, INSTRUCTIONS, PLAN, WORKFLOW, GOAL, APPROVALS, RESOURCES, FACTS, ACTIONS, ERRORS, PENDING,
    NEXT, DO_NOT_REDO,
)  # fmt: skip
"""The fourteen, in order."""

DONE_SHOWN = 20
"""Closed to-dos, plans and goals named among the actions, the newest."""

_MARKUP = re.compile(r"^(\s*\d*)([#>*+=~`<|_.)-])")
"""What would make a line a heading, a list, a fence or HTML."""

FIELDS = {
    "state": "State", "stage": "Stage", "requested_by": "Requested by", "decided_by": "Decided by", "note": "Note",
}  # fmt: skip
"""What of a line is shown beside its words, so that no words can pass for it."""

GONE = "[What this said was deleted or written anew since.]"

Line = dict[str, Any]
"""One line of a section as it is stored: `ref`, `text`, and for approvals and goals their fields."""

Extras = Mapping[str, Sequence[Line]]
"""What upper floors add: a section's title → lines."""

Summaries = Callable[[Sequence[int]], Mapping[int, str]]
"""The words of summaries by id; those that are gone are missing."""


@dataclass(frozen=True, slots=True)
class ShownLine:
    """A line for people. `ref` names what it came from (`work:12`), `fields` what is more than words."""

    ref: str
    text: str
    fields: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class ShownSection:
    title: str
    lines: tuple[ShownLine, ...]


def write_handoff(
    *,
    thread: Thread,
    trigger: str,
    compaction: Compaction | None = None,
    summary_ids: Iterable[int] = (),
    extra: Extras | None = None,
) -> Handoff:
    """Store the handoff of this moment. A constant number of queries, part of the caller's transaction.

    `extra` is what upper floors know (instructions and skills loaded, references retrieved, tool calls); without it
    each function named in the setting HANDOFF_EXTRAS is asked: `(thread_id) -> {section title: [lines]}`.
    """
    sections = _filled(thread, open_work(thread.pk), summary_ids)
    for title, lines in (_extras(thread.pk) if extra is None else extra).items():
        sections[title] += [
            {**line, "ref": str(line.get("ref", "")), "text": str(line.get("text", ""))} for line in lines
        ]
    at_seq = compaction.at_seq if compaction is not None and compaction.at_seq else thread.last_seq
    return Handoff.objects.create(
        thread=thread, compaction=compaction, trigger=trigger, at_seq=at_seq, sections=sections
    )


@cache
def _sources(paths: tuple[str, ...]) -> tuple[Callable[[int], Extras], ...]:
    return tuple(import_string(path) for path in paths)


def _extras(thread_id: int) -> Extras:
    found: dict[str, list[Line]] = {}
    for source in _sources(tuple(settings.HANDOFF_EXTRAS)):
        for title, lines in source(thread_id).items():
            found.setdefault(title, []).extend(lines)
    return found


# --- from rows to sections ----------------------------------------------------------------------------------
def _filled(thread: Thread, state: WorkState, summary_ids: Iterable[int]) -> dict[str, list[Line]]:
    filled: dict[str, list[Line]] = {title: [] for title in SECTIONS}
    filled[OBJECTIVE] = _rows([state.objective])
    filled[CONSTRAINTS] = _rows(state.constraints)
    filled[INSTRUCTIONS] = _instructions(thread)
    filled[PLAN] = _rows([state.plan])
    filled[WORKFLOW] = [_line(f"progress:{entry.pk}", entry.checkpoint) for entry in state.progress[:1]]
    filled[GOAL] = _rows(state.goals)
    filled[APPROVALS] = [_approval(row) for row in state.approvals]
    filled[FACTS] = [_line(f"summary:{number}", "") for number in summary_ids]
    filled[ACTIONS] = [*_done(thread.pk), *map(_progress, state.progress), *_rows(state.artifacts)]
    filled[ERRORS] = [*_rows(state.errors_tried), *_blockers(state)]
    filled[PENDING] = [*_rows(state.todos), *_rows(state.open_questions)]
    filled[NEXT] = _next_step(state)
    filled[DO_NOT_REDO] = _rows(state.do_not_redo)
    return filled


def _line(ref: str, text: str, **fields: str) -> Line:
    return {"ref": ref, "text": text, **fields}


def _rows(rows: Iterable[WorkRow | None]) -> list[Line]:
    """A row taken from a message keeps no words here."""
    return [
        _line(
            f"work:{row.pk}",
            "" if row.message_id else row_text(row.text, row.data),
            kind=row.kind,
            stage=str(row.data.get("stage", "")),
        )
        for row in rows
        if row is not None
    ]


def _approval(row: ApprovalRow) -> Line:
    return _line(
        f"approval:{row.pk}",
        row.what,
        state=row.state,
        requested_by=row.requested_by,
        decided_by=row.decided_by,
        decided_at=row.decided_at.isoformat() if row.decided_at else "",
        note=row.note,
    )


def _progress(row: ProgressRow) -> Line:
    said = [row.checkpoint, row.changed, f"Evidence: {row.evidence}" if row.evidence else ""]
    return _line(f"progress:{row.pk}", "\n".join(filter(None, said)))


def _done(thread_id: int) -> list[Line]:
    """What was closed as done, the newest: an action taken, never a task again."""
    kinds = (WorkItem.Kind.TODO, WorkItem.Kind.PLAN, WorkItem.Kind.GOAL, WorkItem.Kind.OBJECTIVE)
    rows = WorkItem.objects.filter(thread=thread_id, kind__in=kinds, state=WorkItem.State.DONE).order_by("-closed_at")
    found = rows.values_list("pk", "kind", "text", "message_id")[:DONE_SHOWN]
    return [_line(f"work:{pk}", "" if message else f"Done: {text}", kind=kind) for pk, kind, text, message in found]


def _blockers(state: WorkState) -> list[Line]:
    waiting = [_line(f"approval:{row.pk}", f"Waits for an approval: {row.what}") for row in state.pending]
    denied = [
        _line(f"approval:{row.pk}", f"Denied: {row.what}")
        for row in state.approvals
        if row.state == Approval.State.DENIED
    ]
    issues = [_line(f"progress:{row.pk}", row.open_issues) for row in state.progress[:1] if row.open_issues]
    return [*waiting, *denied, *issues]


def _next_step(state: WorkState) -> list[Line]:
    """What a person has to decide, else what the log says comes next, else the first thing to do."""
    if state.pending:
        row = state.pending[-1]
        return [_line(f"approval:{row.pk}", f"Wait until a person has decided: {row.what}")]
    if state.progress and state.progress[0].next_action:
        return [_line(f"progress:{state.progress[0].pk}", state.progress[0].next_action)]
    return _rows(state.todos[:1])


def _instructions(thread: Thread) -> list[Line]:
    """Which trusted instructions hold here; they stand in every prompt themselves."""
    places = (
        ("workspace", thread.workspace_id, "the workspace", thread.workspace.instructions),
        ("channel", thread.channel_id, f"the channel #{thread.channel.name}", thread.channel.instructions),
        ("thread", thread.pk, "this thread", thread.instructions),
    )
    return [_line(f"{kind}:{pk}", f"Instructions of {name}") for kind, pk, name, said in places if said.strip()]


# --- for people ---------------------------------------------------------------------------------------------
def shown(handoff: Handoff, summaries: Summaries) -> tuple[ShownSection, ...]:
    """All fourteen sections with words: summaries' from `summaries`, those of rows taken from a message from the row.

    What is gone since says GONE. One query more where rows were taken from messages.
    """
    stored: dict[str, list[Line]] = {title: list(handoff.sections.get(title, ())) for title in SECTIONS}
    lines = [line for section in stored.values() for line in section if not line["text"]]
    said = summaries(_numbers(lines, "summary:")) if lines else {}
    words = {f"summary:{number}": text for number, text in said.items()}
    taken = _numbers(lines, "work:")
    if taken:
        rows = WorkItem.objects.filter(pk__in=taken, thread=handoff.thread_id)
        words |= {f"work:{pk}": row_text(text, data) for pk, text, data in rows.values_list("pk", "text", "data")}
    return tuple(ShownSection(title, tuple(_shown(line, words) for line in stored[title])) for title in SECTIONS)


def _numbers(lines: Iterable[Line], prefix: str) -> list[int]:
    return [int(line["ref"].removeprefix(prefix)) for line in lines if line["ref"].startswith(prefix)]


def _shown(line: Line, words: Mapping[str, str]) -> ShownLine:
    fields = tuple((name, str(line[key])) for key, name in FIELDS.items() if line.get(key))
    return ShownLine(line["ref"], line["text"] or words.get(line["ref"], GONE), fields)


def as_markdown(sections: Iterable[ShownSection]) -> str:
    """`# Compaction Handoff` and its fourteen headings, for people and for files."""
    parts = ["# Compaction Handoff"]
    for section in sections:
        parts.append(f"## {section.title}")
        parts.append("\n".join(_item(line) for line in section.lines) or "Nothing.")
    return "\n\n".join(parts) + "\n"


def _item(line: ShownLine) -> str:
    """Fields first, on a line of their own, so that no words can pass for a field; words that are only words."""
    fields = " · ".join(f"{name}: {' '.join(value.replace(' · ', ' - ').split())}" for name, value in line.fields)
    words = [_MARKUP.sub(r"\1\\\2", said) for said in line.text.split("\n")]
    return "- " + "\n  ".join([fields, *words] if fields else words)
