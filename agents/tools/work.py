"""The thread's work as an agent writes it: rows, the progress log, and asking a person."""

from typing import Any

from agents.tools.values import Decision, MadeTool, Outcome, Setting, Tool
from memory.models import Approval, WorkItem
from memory.services.approvals import request_approval as ask_for_approval
from memory.services.progress import log_progress as add_to_log
from memory.services.work import add_work, close_work
from openvibe.base.problems import Problem
from openvibe.llm.values import ToolSpec

TEXT = {"type": "string"}
WORK_UPDATE = ToolSpec(
    "work_update",
    "Keep this thread's work rows, which outlive the conversation: add one (kind, text; a goal's done_condition, an "
    "artifact's ref), or close row id as done or drop it.",
    {
        "type": "object",
        "properties": {
            "action": {"type": "string", "enum": ["add", "done", "drop"]},
            "kind": {"type": "string", "enum": list(WorkItem.Kind.values)},
            "text": TEXT,
            "done_condition": TEXT,
            "ref": TEXT,
            "id": {"type": "integer"},
        },
        "required": ["action"],
    },
)
LOG_PROGRESS = ToolSpec(
    "log_progress",
    "Add a checkpoint to this thread's progress log.",
    {
        "type": "object",
        "properties": {
            "checkpoint": TEXT, "changed": TEXT, "evidence": TEXT, "open_issues": TEXT, "next_action": TEXT,
        },
        "required": ["checkpoint"],
    },
)  # fmt: skip
REQUEST_APPROVAL = ToolSpec(
    "request_approval",
    "Ask people whether you may do something (what: one line). You pause until they have decided.",
    {
        "type": "object",
        "properties": {"what": TEXT, "reason": TEXT},
        "required": ["what"],
    },
)


def work_update(setting: Setting) -> Tool:
    return MadeTool(WORK_UPDATE, lambda arguments: _update(setting, arguments))


def log_progress(setting: Setting) -> Tool:
    return MadeTool(LOG_PROGRESS, lambda arguments: _log(setting, arguments))


def request_approval(setting: Setting) -> Tool:
    return MadeTool(REQUEST_APPROVAL, lambda arguments: _ask(setting, arguments))


def _update(setting: Setting, arguments: dict[str, Any]) -> str:
    action = arguments["action"]
    if action == "add":
        return _add(setting, arguments)
    if "id" not in arguments:
        raise Problem(f"Say which row is {action}, by its id: the number in its ref, work:<id>.")
    rows = WorkItem.objects.filter(thread=setting.thread, pk=_row_id(arguments["id"]))
    row = rows.first()
    if row is None:
        raise Problem(f"There is no row {arguments['id']} in this thread.")
    state = WorkItem.State.DONE if action == "done" else WorkItem.State.DROPPED
    closed = close_work(item=row, by=setting.access, state=state)
    return f"work:{closed.pk} is {closed.state}."


def _row_id(written: int) -> int:
    return written if 0 < written < 2**63 else 0


def _add(setting: Setting, arguments: dict[str, Any]) -> str:
    if "kind" not in arguments or "text" not in arguments:
        raise Problem("To add a row, give its kind and its text.")
    data = {key: arguments[key] for key in ("done_condition", "ref") if arguments.get(key)}
    source = setting.run.trigger if setting.run and not setting.run.trigger.is_deleted else None
    row = add_work(
        thread=setting.thread,
        by=setting.access,
        kind=arguments["kind"],
        text=arguments["text"],
        data=data,
        message=source,
    )
    return f"work:{row.pk} ({row.kind}) stands."


def _log(setting: Setting, arguments: dict[str, Any]) -> str:
    entry = add_to_log(thread=setting.thread, by=setting.access, **arguments)
    return f"Logged as progress:{entry.pk}."


def _ask(setting: Setting, arguments: dict[str, Any]) -> Outcome:
    what = " ".join(str(arguments["what"]).split())
    decided = _decided(setting, what)
    if decided is not None:
        return Outcome(decision_words(decided))
    approval = ask_for_approval(thread=setting.thread, by=setting.access, what=what, reason=arguments.get("reason", ""))
    return Outcome("Waiting for a decision.", Decision.WAITS, f"Waits for an approval: {approval.what}"[:300], approval)


def _decided(setting: Setting, what: str) -> Approval | None:
    """What people decided about the same question since the agent was asked: it is not asked twice in one run."""
    if setting.run is None:
        return None
    asked = Approval.objects.filter(
        thread=setting.thread, requested_by=setting.access.participant_id, what=what,
        created_at__gte=setting.run.trigger.created_at,
    ).exclude(state=Approval.State.REQUESTED)  # fmt: skip
    return asked.select_related("decided_by").order_by("-id").first()


def decision_words(approval: Approval) -> str:
    """The decision's fields in a line."""
    who = approval.decided_by.name if approval.decided_by else "nobody yet"
    note = f" Note: {approval.note}" if approval.note else ""
    return f"approval:{approval.pk} state: {approval.state}, decided by: {who}.{note}"
