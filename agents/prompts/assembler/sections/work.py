"""The thread's work (P1): rows and not prose, so that no summary can lose them.

It comes as far as it fits: objective, plan, goals, what not to do again, to-dos, constraints that nobody confirmed yet,
approvals, then what tools answered last and whether the tools have changed. What binds is `sections.constraints`."""

import json
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple

from django.db.models import Case, Exists, OuterRef, Q, QuerySet, Value, When
from django.db.models.functions import Coalesce

from agents.agent.audience import reusable_calls
from agents.agent.models import Run, Snapshot, ToolCall
from agents.prompts.assembler.items import (
    DroppedItem,
    Item,
    SectionCandidates,
    TrustLabel,
    format_minute,
    make_dropped_item,
    make_item,
    section_candidates,
)
from agents.prompts.assembler.sections.request import PromptRequest, author_trust, read_once
from agents.prompts.assembler.stack import FIND_TOOL, MORE_TOOLS
from memory.models import Approval, Compaction, ProgressEntry, WorkItem
from memory.queries import row_text
from openvibe.chat.models import Message
from openvibe.chat.queries import AccessQuery
from openvibe.engines.database.compiled_queries import CompiledQuery, row_columns
from openvibe.engines.llm.fences import fence
from openvibe.engines.llm.tokens import TokenCounter, truncate_middle
from openvibe.engines.llm.transcripts import indent_text, one_line
from openvibe.engines.text.masking import mask_secrets
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Participant

MAX_WORK_ITEMS = 100
"""Rows of open work looked at."""

MAX_APPROVALS, MAX_PROGRESS_ENTRIES, MAX_TOOL_RESULTS = 10, 3, 4
"""Approvals, lines of the progress log and answers of tools that prompts show, the newest first."""

WORK_KIND_ORDER = (
    "objective",
    "plan",
    "goal",
    "do_not_redo",
    "todo",
    "open_question",
    "error_tried",
    "artifact",
    "constraint",
)
"""Kinds of work in the order prompts show them: many to-dos do not keep out what must not be done again."""

WORK_CAP_DIVISOR = 3
"""Work takes at most one in so many tokens of P1, and at least MIN_WORK_TOKENS."""

MIN_WORK_TOKENS = 1_000

TOOL_RESULT_TOKENS = 250
"""Tokens of one answer of a tool that stand in a later prompt."""

MAX_CHANGED_TOOLS = 20
"""Tools that are named as new or gone."""

SELF_REPORTING_TOOLS = (
    "log_progress",
    "work_update",
    "request_approval",
    "update_context_block",
    "load_skill",
    "unload_skill",
    MORE_TOOLS,
    FIND_TOOL,
)
"""What they did stands in prompts itself: their answers would keep out what other tools found."""

CHANGED_NOTICE = "[Left out: a message it may have quoted was edited or deleted since.]"


class WorkItemRow(NamedTuple):
    """A row of the thread's open work."""

    pk: int
    kind: str
    text: str
    data: Any
    author: str
    author_id: int
    author_kind: str
    updated_at: datetime


@read_once
def open_work(request: PromptRequest) -> list[WorkItemRow]:
    """What still holds and binds nobody, kinds in the order prompts show them. In a dive also what must not be done
    again in the thread that it started in."""
    rows = map(WorkItemRow._make, _open_work.rows(request.thread.thread_id, request.thread.parent_id or 0))
    return [row._replace(data=json.loads(row.data)) for row in rows]


@CompiledQuery
def _open_work(thread_id: int, parent_id: int) -> QuerySet[Any, Any]:
    place = Case(*[When(kind=kind, then=Value(at)) for at, kind in enumerate(WORK_KIND_ORDER)], default=Value(99))
    is_of_thread = Q(thread=thread_id) | Q(thread=parent_id, kind=WorkItem.Kind.DO_NOT_REDO)
    rows = WorkItem.objects.filter(is_of_thread, state=WorkItem.State.OPEN)
    rows = rows.exclude(kind=WorkItem.Kind.CONSTRAINT, confirmed_by__isnull=False)
    rows = rows.exclude(kind=WorkItem.Kind.PREFERENCE)
    columns = row_columns(WorkItemRow, author="author__label", author_kind="author__kind")
    return rows.order_by(place, "id").values_list(*columns)[:MAX_WORK_ITEMS]


class ApprovalRow(NamedTuple):
    """An approval: what it is for, and who decided."""

    pk: int
    what: str
    state: str
    requested_by: str
    requested_by_id: int
    requested_by_kind: str
    decided_by: str
    note: str
    at: datetime

    def is_of_another_agent(self, own_id: int) -> bool:
        """What it asked for is allowed to it alone; what people ask for is everybody's."""
        return self.requested_by_kind == Participant.Kind.AGENT and self.requested_by_id != own_id


@read_once
def latest_approvals(request: PromptRequest) -> list[ApprovalRow]:
    """Those that wait first, then the newest."""
    return list(map(ApprovalRow._make, _latest_approvals.rows(request.thread.thread_id)))


@CompiledQuery
def _latest_approvals(thread_id: int) -> QuerySet[Any, Any]:
    waiting_first = Case(When(state=Approval.State.REQUESTED, then=Value(0)), default=Value(1))
    rows = Approval.objects.filter(thread=thread_id).order_by(waiting_first, "-id")
    decider, at = Coalesce("decided_by__label", Value("")), Coalesce("decided_at", "created_at")
    columns = row_columns(
        ApprovalRow, requested_by="requested_by__label", requested_by_kind="requested_by__kind", decided_by="decider"
    )
    return rows.annotate(decider=decider, at=at).values_list(*columns)[:MAX_APPROVALS]


class ProgressRow(NamedTuple):
    """A line of the progress log."""

    pk: int
    checkpoint: str
    changed: str
    evidence: str
    open_issues: str
    next_action: str
    author: str
    author_id: int
    author_kind: str
    created_at: datetime


@CompiledQuery
def _latest_progress(thread_id: int) -> QuerySet[Any, Any]:
    entries = ProgressEntry.objects.filter(thread=thread_id).order_by("-id")
    columns = row_columns(ProgressRow, author="author__label", author_kind="author__kind")
    return entries.values_list(*columns)[:MAX_PROGRESS_ENTRIES]


class ToolResultRow(NamedTuple):
    """What a tool answered in an earlier run here. `is_changed`: a message was edited or deleted since; `is_for_all`:
    everybody who reads the answer may see it."""

    pk: int
    name: str
    arguments: str
    result: str
    is_changed: bool
    is_for_all: bool
    created_at: datetime


@AccessQuery
def _tool_results(access: Access, agent_id: int, asker_id: int, thread_id: int, source_id: int) -> QuerySet[Any, Any]:
    """The newest tool calls that were executed, of those that may be shown again (`agents.agent.audience`) and whose
    answers are still kept. What quotes a message that changed since is not."""
    calls = reusable_calls(access.shown_to(""), asker_id)
    is_for_all: Any = Value(True)
    if access.knowledge == "restricted":
        is_for_all = Exists(reusable_calls(access, asker_id).filter(pk=OuterRef("pk")).order_by())
    calls = calls.filter(run__agent=agent_id, run__thread=thread_id, decision=ToolCall.Decision.ALLOWED)
    calls = calls.exclude(name__in=SELF_REPORTING_TOOLS).exclude(result="")  # an empty answer is kept as "(empty)"
    calls = calls.annotate(is_changed=changed_since_call(thread_id, source_id), is_for_all=is_for_all)
    return calls.order_by("-run_id", "-id").values_list(*row_columns(ToolResultRow))[:MAX_TOOL_RESULTS]


def changed_since_call(thread_id: int, source_id: int) -> Exists:
    """The condition for calls since which a message of their thread, or the one its dive starts from, was changed: it
    may be quoted."""
    ever_changed = Q(edited_at__isnull=False) | Q(deleted_at__isnull=False)  # few, and an index has them
    changed_messages = Message.objects.filter(ever_changed, Q(thread=thread_id) | Q(pk=source_id)).filter(
        Q(edited_at__gt=OuterRef("created_at")) | Q(deleted_at__gt=OuterRef("created_at"))
    )
    return Exists(changed_messages)


class PreviousAnswerRow(NamedTuple):
    """The agent's last answer here: the tools it had, where recalled messages stood (`recall_blocks`), the first of the
    messages that ran up to the request, and whether messages were summarised since."""

    tool_names: list[str]
    recall: Any
    history_start: int | None
    was_compacted: bool


@read_once
def previous_answer(request: PromptRequest) -> PreviousAnswerRow | None:
    """The agent's last answer here that was no draft: for those it has no tools."""
    for row in _newest_snapshot.rows(request.agent.pk, request.thread.thread_id):
        answer = PreviousAnswerRow._make(row)
        return answer._replace(tool_names=json.loads(row[0]), recall=json.loads(row[1]))
    return None


@CompiledQuery
def _newest_snapshot(agent_id: int, thread_id: int) -> QuerySet[Any, Any]:
    answers = Snapshot.objects.filter(run__agent=agent_id, run__thread=thread_id).exclude(task=Run.Task.PUBLISH)
    since = Compaction.objects.filter(
        thread=OuterRef("run__thread"), state=Compaction.State.DONE, finished_at__gt=OuterRef("created_at")
    )
    compacted = since.exclude(trigger=Compaction.Trigger.CHANGED).order_by()
    newest = answers.annotate(was_compacted=Exists(compacted)).order_by("-run_id")
    return newest.values_list(*row_columns(PreviousAnswerRow))[:1]


def work_candidates(request: PromptRequest, tools: Iterable[str]) -> tuple[SectionCandidates, list[DroppedItem]]:
    """All work in the order of its weight, and what tools answered that not everybody here may see. `tools`: the names
    of those the agent has now, or could ask for."""
    counter, own_id, thread = request.counter, request.agent.participant_id, request.thread
    before = None if request.task == "publish" else previous_answer(request)
    progress = map(ProgressRow._make, reversed(_latest_progress.rows(thread.thread_id)))
    result_rows = _tool_results.rows(
        request.access, request.agent.pk, request.asker_id, thread.thread_id, thread.dive_source_id or 0
    )
    results = [
        (row, _tool_result_item(counter, row, format_minute(row.created_at)))
        for row in map(ToolResultRow._make, reversed(result_rows))
    ]
    items = [
        *(_work_item(counter, row, is_own=row.author_id == own_id) for row in open_work(request)),
        *(_approval_item(counter, row, own_id) for row in reversed(latest_approvals(request))),
        *_tool_change_items(counter, before, tools),
        *(
            _progress_item(counter, row, format_minute(row.created_at), is_own=row.author_id == own_id)
            for row in progress
        ),
        *(item for row, item in results if row.is_for_all),
    ]
    numbered_items = [replace(item, order=order) for order, item in enumerate(items)]
    cap = max((request.budget.caps["P1"] or request.budget.ceiling) // WORK_CAP_DIVISOR, MIN_WORK_TOKENS)
    dropped_items = [make_dropped_item(item, "not for everybody here") for row, item in results if not row.is_for_all]
    return section_candidates("work", numbered_items, cap=cap), dropped_items


@lru_cache(maxsize=4_096)
def _row_item(
    counter: TokenCounter,
    text: str,
    kind: str,
    ref: str,
    author: str,
    trust: TrustLabel,
    *,
    stage: str = "",
    time: str = "",
) -> Item:
    fields = {"time": time or None, "trust": trust, "stage": stage or None}
    block = fence("data", mask_secrets(text), source=kind, ref=ref, author=author, **fields)
    source = str(WorkItem.Kind(kind).label).lower() if kind in WorkItem.Kind.values else kind
    return make_item(counter, section="work", key=ref, text=block, trust=trust, source=source, author=author, ref=ref)


def _work_item(counter: TokenCounter, row: WorkItemRow, *, is_own: bool) -> Item:
    """The row's own words, with what its kind adds; a stage is a field, which no words can pass for."""
    trust = author_trust(row.author_kind, is_own=is_own)
    stage = "proposed" if row.kind == WorkItem.Kind.CONSTRAINT else str(row.data.get("stage", ""))
    return _row_item(counter, row_text(row.text, row.data), row.kind, f"work:{row.pk}", row.author, trust, stage=stage)


def approval_key(row: ApprovalRow) -> str:
    return f"approval:{row.pk}"


def _approval_item(counter: TokenCounter, row: ApprovalRow, own_id: int) -> Item:
    """State, who decided and when are fields; only what was asked for, and the note, are words.

    Words are trusted once a person has granted them: who denies a request does not stand up for what it says.
    """
    ref = approval_key(row)
    trust: TrustLabel = "trusted" if row.state == Approval.State.GRANTED else "semi_trusted"
    block = fence(
        "approval",
        mask_secrets("\n".join(filter(None, (one_line(row.what), row.note and f"Note: {indent_text(row.note)}")))),
        ref=ref,
        state=row.state,
        asked_by=row.requested_by + (", another agent" if row.is_of_another_agent(own_id) else ""),
        decided_by=row.decided_by or None,
        time=format_minute(row.at),
        trust=trust,
    )
    return make_item(
        counter, section="work", key=ref, text=block, trust=trust, source="approval", author=row.requested_by, ref=ref
    )


def _progress_item(counter: TokenCounter, row: ProgressRow, time: str, *, is_own: bool) -> Item:
    """One checkpoint of the progress log, and when it was written."""
    parts = (("Changed", row.changed), ("Evidence", row.evidence), ("Open", row.open_issues), ("Next", row.next_action))
    lines = "\n".join([one_line(row.checkpoint), *(f"{name}: {indent_text(text)}" for name, text in parts if text)])
    text = truncate_middle(mask_secrets(lines), TOOL_RESULT_TOKENS, counter, " … ")
    trust = author_trust(row.author_kind, is_own=is_own)
    return _row_item(counter, text, "progress", f"progress:{row.pk}", row.author, trust, time=time)


def _tool_result_item(counter: TokenCounter, row: ToolResultRow, time: str) -> Item:
    """What a tool answered and when, in short; nothing once a message changed that it may have quoted."""
    result = CHANGED_NOTICE if row.is_changed else mask_secrets(row.result)
    arguments = "" if row.is_changed else truncate_middle(one_line(mask_secrets(row.arguments)), 80, counter, " … ")
    answer = indent_text(truncate_middle(result, TOOL_RESULT_TOKENS, counter, " … "))
    text = f"{one_line(row.name)} {arguments}".rstrip() + f"\n{answer}"
    return _row_item(counter, text, "tool", f"observation:{row.pk}", row.name, "untrusted", time=time)


def _some_names(names: set[str]) -> str:
    """The names, the first MAX_CHANGED_TOOLS of them."""
    others = len(names) - MAX_CHANGED_TOOLS
    return ", ".join([*sorted(names)[:MAX_CHANGED_TOOLS], *([f"and {others} more"] if others > 0 else [])])


def _tool_change_items(counter: TokenCounter, before: PreviousAnswerRow | None, now: Iterable[str]) -> list[Item]:
    """A line when the agent has other tools than when it answered here last."""
    if before is None:
        return []
    current, previous = set(map(one_line, now)), set(map(one_line, before.tool_names))
    if current == previous:
        return []
    gain_text = f"you now have {_some_names(current - previous)}" if current - previous else ""
    loss_text = f"you no longer have {_some_names(previous - current)}" if previous - current else ""
    changes = "; ".join(filter(None, (gain_text, loss_text)))
    text = f"Your tools have changed since your last answer here: {changes}."
    return [_row_item(counter, text, "tools", "tools", "OpenVibe", "semi_trusted")]
