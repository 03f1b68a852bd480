"""What a thread is working on, read as plain values: for prompts, handoffs and the panel. What is closed is not here.

Rows, not prose: no summary can lose a constraint or bring a finished plan back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from django.db.models import Case, IntegerField, Value, When

from memory.models import Approval, ProgressEntry, WorkItem

Kind = WorkItem.Kind

OPEN_PER_KIND = 50
"""Open rows of one kind in one thread; an objective and a plan stand alone."""

TOKENS_OF = {Kind.CONSTRAINT: 500, Kind.PLAN: 800, Kind.OBJECTIVE: 500, Kind.GOAL: 500}
OTHER_TOKENS = 300
"""The most tokens (o200k_base) the text of a row may have, so that the whole state of work fits every prompt."""

CONSTRAINTS_TOGETHER = 1_500
"""Tokens that a thread's open constraints may need in a prompt together: they are in every one, word for word."""

ROW_ENVELOPE = 50
"""Tokens a prompt needs around one row."""

PENDING = 10
"""Approvals of one thread that may wait at the same time."""

APPROVALS_SHOWN, PROGRESS_SHOWN = 20, 5
"""Decided and waiting approvals, lines of the progress log: the newest, approvals that wait before all others."""


class WorkRow(NamedTuple):
    """An open row. `data`: a goal's `done_condition` and `budget`, a plan's `stage`, an artifact's `ref`."""

    pk: int
    kind: str
    text: str
    tokens: int
    data: Mapping[str, Any]
    author: str
    author_kind: str
    message_id: int | None
    version: int
    created_at: datetime


class ApprovalRow(NamedTuple):
    """An approval as fields: who asked for what, and what a person decided. `decided_by` is empty until then."""

    pk: int
    what: str
    reason: str
    state: str
    requested_by: str
    decided_by: str
    decided_at: datetime | None
    note: str
    created_at: datetime


class ProgressRow(NamedTuple):
    """One line of the progress log."""

    pk: int
    checkpoint: str
    changed: str
    evidence: str
    open_issues: str
    next_action: str
    author: str
    created_at: datetime


@dataclass(frozen=True, slots=True)
class WorkState:
    """All that is open in a thread, the oldest first; approvals and progress the newest first."""

    objective: WorkRow | None = None
    constraints: tuple[WorkRow, ...] = ()
    plan: WorkRow | None = None
    goals: tuple[WorkRow, ...] = ()
    todos: tuple[WorkRow, ...] = ()
    artifacts: tuple[WorkRow, ...] = ()
    errors_tried: tuple[WorkRow, ...] = ()
    open_questions: tuple[WorkRow, ...] = ()
    do_not_redo: tuple[WorkRow, ...] = ()
    approvals: tuple[ApprovalRow, ...] = ()
    progress: tuple[ProgressRow, ...] = ()

    @property
    def pending(self) -> tuple[ApprovalRow, ...]:
        """Approvals nobody has decided yet."""
        return tuple(row for row in self.approvals if row.state == Approval.State.REQUESTED)


_ROW = (
    "pk", "kind", "text", "tokens", "data", "author__name", "author__kind", "message_id", "version", "created_at",
)  # fmt: skip
_APPROVAL = (
    "pk", "what", "reason", "state", "requested_by__name", "decided_by__name", "decided_at", "note", "created_at",
)  # fmt: skip
_PROGRESS = (
    "pk", "checkpoint", "changed", "evidence", "open_issues", "next_action", "author__name", "created_at",
)  # fmt: skip


def open_work(thread_id: int) -> WorkState:
    """What holds in a thread now. Three queries. Who asks must have been let into the thread before."""
    rows = [WorkRow(*row) for row in WorkItem.objects.filter(thread=thread_id, state="open").values_list(*_ROW)]
    waits_first = Case(When(state="requested", then=Value(0)), default=Value(1), output_field=IntegerField())
    approvals = Approval.objects.filter(thread=thread_id).order_by(waits_first, "-id").values_list(*_APPROVAL)
    progress = ProgressEntry.objects.filter(thread=thread_id).order_by("-id").values_list(*_PROGRESS)

    def of(kind: str) -> tuple[WorkRow, ...]:
        return tuple(row for row in rows if row.kind == kind)

    return WorkState(
        objective=next(iter(of(Kind.OBJECTIVE)), None),
        constraints=of(Kind.CONSTRAINT),
        plan=next(iter(of(Kind.PLAN)), None),
        goals=of(Kind.GOAL),
        todos=of(Kind.TODO),
        artifacts=of(Kind.ARTIFACT),
        errors_tried=of(Kind.ERROR_TRIED),
        open_questions=of(Kind.OPEN_QUESTION),
        do_not_redo=of(Kind.DO_NOT_REDO),
        approvals=tuple(_approval(row) for row in approvals[:APPROVALS_SHOWN]),
        progress=tuple(ProgressRow(*row) for row in progress[:PROGRESS_SHOWN]),
    )


def _approval(row: tuple[Any, ...]) -> ApprovalRow:
    found = ApprovalRow(*row)
    return found._replace(decided_by=found.decided_by or "")


def row_text(text: str, data: Mapping[str, Any]) -> str:
    """A row's own words, unchanged; what its kind adds in somebody's words stands below them. A plan's stage is no
    words: who shows a row shows it as a field."""
    added = (("Done when", "done_condition"), ("Budget", "budget"), ("Stored as", "ref"))
    return "\n".join([text, *(f"{words}: {data[key]}" for words, key in added if data.get(key))])
