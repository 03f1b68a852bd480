"""Calls of a run's earlier attempts that a new one must know of: what was done outside is not done again, and what
people decided about is carried out once, unless they stopped the run after they had approved it."""

from datetime import datetime

from django.db.models import Exists, OuterRef, Q, QuerySet

from agents.models import Run, ToolCall
from agents.runs.transcript import ToolResult
from agents.tools.toolbox import UNKNOWN_OUTCOME
from memory.models import Approval
from openvibe.llm.values import ToolCallRequest

REPEATED_CALL_MESSAGE = "This was carried out already. What it answered is not kept."

Decision = ToolCall.Decision


def previous_results(run: Run) -> list[ToolResult]:
    """Calls of earlier attempts that acted, or that people decided about, with what came of them, the oldest first.

    A call without an end was sent by a worker that died: nobody knows what came of it.
    """
    rows = run.tool_calls.filter(attempt__lt=run.attempt).exclude(decision=Decision.WAITS)
    has_acted = Q(effect__in=("acts", "external"), decision=Decision.ALLOWED) | Q(approval__isnull=False)
    return [_result_of(row) for row in rows.filter(has_acted).order_by("id")]


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
    return ToolCallRequest(row.call_id, row.name, row.arguments or "{}")


def was_stopped_since(run: Run, moment: datetime) -> bool:
    """Whether somebody pressed *Stop* after that: what they had approved by then is approved no more."""
    stops = (step for step in run.steps if step["kind"] in ("stop_requested", "stopped"))
    return any(datetime.fromisoformat(step["at"]) >= moment for step in stops)
