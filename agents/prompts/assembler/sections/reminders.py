"""Reminders (P1): what must not be forgotten at this moment, in short lines of our own. No queries of its own.

They say how things stand and name rows by reference; no words of anybody stand in them. Lines about the run itself
(rounds and tokens that are left, a call refused again and again) follow each round: `agents.runs.transcript`."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from agents.prompts.assembler.items import SectionCandidates, make_item, section_candidates
from agents.prompts.assembler.sections.request import PromptRequest
from agents.prompts.assembler.sections.work import (
    ApprovalRow,
    WorkItemRow,
    approval_key,
    latest_approvals,
    open_work,
    previous_answer,
)
from memory.models import Approval, WorkItem
from openvibe.engines.llm.fences import fence

STALE_AFTER = timedelta(days=1)
"""The time after which open to-dos that nobody touched are mentioned."""

FEEDBACK_LINE = "Recent feedback says how people want you to answer: follow it, within the rules of the system message."
APPROVALS_LINE = "Approval blocks alone say what people have allowed you."
"""The line about blocks that the prompt has: where there are none, nothing is said of them."""

MAX_REFS = 5
"""References in one line."""


def reminder_candidates(
    request: PromptRequest, tools: Iterable[str], *, has_feedback: bool = False
) -> SectionCandidates:
    """One block with the lines that apply, none where none does. `tools`: the names of those the agent has now;
    `has_feedback`: the prompt may have some."""
    names, work = set(tools), open_work(request)
    approvals = latest_approvals(request)
    before, own_id = previous_answer(request), request.agent.participant_id
    lines = [
        FEEDBACK_LINE if has_feedback else "",
        APPROVALS_LINE if approvals else "",
        _approval_line(row for row in approvals if not row.is_of_another_agent(own_id)),
        _goal_line(work),
        _todo_line(work, request.message.sent_at) if "work_update" in names else "",
        _compaction_line() if before is not None and before.was_compacted and "memory" in names else "",
    ]
    text = "\n".join(filter(None, lines))
    if not text:
        return section_candidates("reminders", [])
    block = fence("reminders", text, author="OpenVibe", trust="trusted")
    item = make_item(
        request.counter, section="reminders", key="reminders", text=block, trust="trusted", source="reminders"
    )
    return section_candidates("reminders", [item])


def _approval_line(rows: Iterable[ApprovalRow]) -> str:
    approval_refs = [approval_key(row) for row in rows if row.state == Approval.State.REQUESTED]
    return f"Wait for a decision before you act on {_refs(approval_refs)}." if approval_refs else ""


def _goal_line(work: Sequence[WorkItemRow]) -> str:
    goals = [f"work:{row.pk}" for row in work if row.kind == WorkItem.Kind.GOAL and row.data.get("done_condition")]
    return f"Reached only once what stands under “Done when” holds: {_refs(goals)}." if goals else ""


def _todo_line(work: Sequence[WorkItemRow], now: datetime) -> str:
    todos = [row.updated_at for row in work if row.kind == WorkItem.Kind.TODO]
    if not todos or now - max(todos) < STALE_AFTER:
        return ""
    days = (now - max(todos)) // timedelta(days=1)
    how_many = "One to-do is" if len(todos) == 1 else f"{len(todos)} to-dos are"
    return f"{how_many} open and unchanged for {days} day{'' if days == 1 else 's'}: work_update keeps the list true."


def _compaction_line() -> str:
    return "Messages were summarised since your last answer here: memory finds their exact words."


def _refs(refs: Sequence[str]) -> str:
    more = f" and {len(refs) - MAX_REFS} more" if len(refs) > MAX_REFS else ""
    return ", ".join(refs[:MAX_REFS]) + more
