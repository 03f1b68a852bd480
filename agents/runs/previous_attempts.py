"""Calls of a run's earlier attempts that a new one must know of: what was done outside is not done again, and what
people decided about is carried out once, unless they stopped the run after they had approved it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Exists, OuterRef, Q, QuerySet

from agents.agent.models import Run, ToolCall
from agents.runs.provider_fields import call_fields, may_be_sent, message_fields
from agents.runs.transcript import Round, ToolResult, without_fields
from agents.tools.toolbox import UNKNOWN_OUTCOME
from memory.models import Approval
from openvibe.engines.llm.values import ToolCallRequest

REPEATED_CALL_MESSAGE = "This was carried out already. What it answered is not kept."

READ_BEFORE_MESSAGE = "This was read before the answer was taken up again. Call it again if it is still needed."

Decision = ToolCall.Decision


@dataclass(frozen=True)
class PreviousCall:
    """The record of a call, and what came of it."""

    row: ToolCall
    result: ToolResult


def previous_calls(run: Run) -> list[PreviousCall]:
    """Calls of earlier attempts that acted, or that people decided about, with what came of them, the oldest first.

    A call without an end was sent by a worker that died: nobody knows what came of it.
    """
    rows = run.tool_calls.filter(attempt__lt=run.attempt).exclude(decision=Decision.WAITS)
    has_acted = Q(effect__in=("acts", "external"), decision=Decision.ALLOWED) | Q(approval__isnull=False)
    return [PreviousCall(row, _result_of(row)) for row in rows.filter(has_acted).order_by("id")]


def rounds_of(run: Run, calls: Sequence[PreviousCall], text: str, origin: str) -> list[Round]:
    """The calls as rounds of the new attempt, which begin with what had been said. `origin`: of the client that is
    asked now.

    One round, unless the model's provider wants something back with them: then each turn stands as it was made, with
    all that it had called, or is told where that cannot be sent back.
    """
    if not calls:
        return []
    if not any(call.row.provider_fields for call in calls):
        return [Round(text, tuple(call.result for call in calls))]
    waiting = {row.approval_id: row for row in run.tool_calls.filter(decision=Decision.WAITS) if row.approval_id}
    turns: dict[tuple[int, int], dict[str, PreviousCall]] = {}
    for call in calls:
        made = waiting.get(call.row.approval_id or 0, call.row)
        turns.setdefault((made.attempt, made.round), {})[made.call_id] = call
    rounds: list[Round] = []
    for (attempt, number), by_id in sorted(turns.items()):
        rows = list(run.tool_calls.filter(attempt=attempt, round=number).order_by("id"))
        may_send, fields = may_be_sent(rows, origin), message_fields(rows)
        if may_send:
            made_calls = [by_id[row.call_id].result if row.call_id in by_id else _unread_result(row) for row in rows]
        else:
            made_calls = [call.result for call in by_id.values()]
        said = "" if rounds else text
        if may_send:
            rounds.append(Round(said, tuple(made_calls), fields))
        else:
            rounds.append(Round(said, without_fields(made_calls), is_told=True))
    return rounds


def _unread_result(row: ToolCall) -> ToolResult:
    return ToolResult(request_of(row), READ_BEFORE_MESSAGE, row.decision == Decision.REFUSED)


def _result_of(row: ToolCall) -> ToolResult:
    result = row.result or REPEATED_CALL_MESSAGE
    if row.finished_at is None:
        result = UNKNOWN_OUTCOME
    return ToolResult(request_of(row), result, row.decision == Decision.REFUSED)


def decided_calls(run: Run) -> QuerySet[ToolCall]:
    """Calls that waited, and that people have approved or denied since, as far as nothing came of them yet."""
    settled_calls = ToolCall.objects.filter(run=run, approval=OuterRef("approval")).exclude(decision=Decision.WAITS)
    waiting_calls = run.tool_calls.filter(decision=Decision.WAITS, attempt__lt=run.attempt)
    decided = waiting_calls.filter(approval__state__in=[Approval.State.GRANTED, Approval.State.DENIED])
    return decided.filter(~Exists(settled_calls)).select_related("approval__decided_by").order_by("id")


def request_of(row: ToolCall) -> ToolCallRequest:
    return ToolCallRequest(row.call_id, row.name, row.arguments or "{}", call_fields(row))


def was_stopped_since(run: Run, moment: datetime) -> bool:
    """Whether somebody pressed *Stop* after that: what they had approved by then is approved no more."""
    stops = (step for step in run.steps if step["kind"] in ("stop_requested", "stopped"))
    return any(datetime.fromisoformat(step["at"]) >= moment for step in stops)
