"""What a thread is working on, as plain values for prompts, handoffs and pages; and the rows an asker may see."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from django.db.models import Case, IntegerField, QuerySet, Value, When

from memory.work.models import Approval, ProgressEntry, WorkItem
from openvibe.chat.models import Thread
from openvibe.workspaces.access import Access

Kind = WorkItem.Kind

MAX_OPEN_PER_KIND = 50
"""Open rows of one kind in one thread; an objective and a plan stand alone."""

MAX_TOKENS_BY_KIND = {Kind.CONSTRAINT: 500, Kind.PLAN: 800, Kind.OBJECTIVE: 500, Kind.GOAL: 500}
DEFAULT_MAX_TOKENS = 300
"""The most tokens (o200k_base) the text of a row may have, so that the whole state of work fits every prompt."""

MAX_CONSTRAINT_TOKENS = 1_500
"""Tokens that a thread's open constraints may need in a prompt together: they are in every one, word for word."""

ROW_OVERHEAD_TOKENS = 50
"""Tokens a prompt needs around one row."""

MAX_PENDING_APPROVALS = 10
"""Approvals of one thread that may wait at the same time."""

MAX_APPROVALS, MAX_PROGRESS_ENTRIES = 20, 5
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


_WORK_COLUMNS = (
    "pk",
    "kind",
    "text",
    "tokens",
    "data",
    "author__name",
    "author__kind",
    "message_id",
    "version",
    "created_at",
)
_APPROVAL_COLUMNS = (
    "pk",
    "what",
    "reason",
    "state",
    "requested_by__name",
    "decided_by__name",
    "decided_at",
    "note",
    "created_at",
)
_PROGRESS_COLUMNS = (
    "pk",
    "checkpoint",
    "changed",
    "evidence",
    "open_issues",
    "next_action",
    "author__name",
    "created_at",
)


def get_work_state(thread_id: int) -> WorkState:
    """What holds in a thread now. Three queries. Who asks must have been let into the thread before."""
    rows = [
        WorkRow(*row) for row in WorkItem.objects.filter(thread=thread_id, state="open").values_list(*_WORK_COLUMNS)
    ]
    pending_first = Case(When(state="requested", then=Value(0)), default=Value(1), output_field=IntegerField())
    approvals = Approval.objects.filter(thread=thread_id).order_by(pending_first, "-id").values_list(*_APPROVAL_COLUMNS)
    progress = ProgressEntry.objects.filter(thread=thread_id).order_by("-id").values_list(*_PROGRESS_COLUMNS)

    def rows_of_kind(kind: str) -> tuple[WorkRow, ...]:
        return tuple(row for row in rows if row.kind == kind)

    return WorkState(
        objective=next(iter(rows_of_kind(Kind.OBJECTIVE)), None),
        constraints=rows_of_kind(Kind.CONSTRAINT),
        plan=next(iter(rows_of_kind(Kind.PLAN)), None),
        goals=rows_of_kind(Kind.GOAL),
        todos=rows_of_kind(Kind.TODO),
        artifacts=rows_of_kind(Kind.ARTIFACT),
        errors_tried=rows_of_kind(Kind.ERROR_TRIED),
        open_questions=rows_of_kind(Kind.OPEN_QUESTION),
        do_not_redo=rows_of_kind(Kind.DO_NOT_REDO),
        approvals=tuple(_approval_row(row) for row in approvals[:MAX_APPROVALS]),
        progress=tuple(ProgressRow(*row) for row in progress[:MAX_PROGRESS_ENTRIES]),
    )


def _approval_row(row: tuple[Any, ...]) -> ApprovalRow:
    approval = ApprovalRow(*row)
    return approval._replace(decided_by=approval.decided_by or "")


def row_text(text: str, data: Mapping[str, Any]) -> str:
    """A row's own words, unchanged; what its kind adds in somebody's words stands below them. A plan's stage is no
    words: who shows a row shows it as a field."""
    data_labels = (("Done when", "done_condition"), ("Budget", "budget"), ("Stored as", "ref"))
    return "\n".join([text, *(f"{label}: {data[key]}" for label, key in data_labels if data.get(key))])


def visible_threads(access: Access) -> QuerySet[Thread]:
    threads: QuerySet[Thread] = Thread.objects.visible_to(access)
    return threads


def visible_work_items(access: Access) -> QuerySet[WorkItem]:
    """Rows of the threads the asker sees."""
    rows = WorkItem.objects.filter(thread__in=visible_threads(access))
    return rows.select_related("author", "closed_by")


def visible_approvals(access: Access) -> QuerySet[Approval]:
    """Approvals in the threads the asker sees."""
    return Approval.objects.filter(thread__in=visible_threads(access)).select_related("requested_by", "decided_by")
