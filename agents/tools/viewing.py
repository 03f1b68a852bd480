"""The tool calls of a run as one viewer may see them, and how long their results are kept."""

import json
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Max, Q
from django.utils import timezone

from agents.models import Run, ToolCall
from knowledge.history import restricted_then
from knowledge.models import Entry
from openvibe.chat.models import Message
from openvibe.workspaces.access import Access

KEPT = timedelta(days=30)
DELETED = "A message it may have quoted was deleted since."
NOTES = "Notes about a person are shown to that person and to admins only."
KNOWLEDGE = "It may quote knowledge that you may not read."
LOOKS_UP = "knowledge_search"


@dataclass(frozen=True)
class SeenCall:
    """One call. `hidden` says why arguments and result are withheld; `result` is empty once it is no longer kept."""

    attempt: int
    round: int
    id: str
    name: str
    arguments: str
    decision: str
    decision_words: str
    why: str
    result: str
    result_tokens: int
    milliseconds: int
    created_at: datetime
    hidden: str = ""


def calls_of(run: Run, access: Access) -> tuple[SeenCall, ...]:
    """All calls of all attempts, oldest first. The caller has checked that the run itself is visible.

    At most three queries.
    """
    calls = list(run.tool_calls.order_by("id"))
    if not calls:
        return ()
    deleted = Message.objects.filter(thread=run.thread_id).aggregate(at=Max("deleted_at"))["at"]
    reads_notes = access.administers or access.participant_id in (run.trigger.author_id, run.agent.participant_id)
    reads_all = all(call.name != LOOKS_UP for call in calls) or reads_knowledge_of(run, access)
    return tuple(_seen(call, deleted, reads_notes, reads_all) for call in calls)


def reads_knowledge_of(run: Run, access: Access) -> bool:
    """Whether the asker may read every entry the run had before it, and could at that time."""
    used = set(run.knowledge_uses.values_list("entry", flat=True))
    readable = set(Entry.objects.visible_to(access).filter(pk__in=used).values_list("pk", flat=True))
    return used == readable and not restricted_then(access, used, run.queued_at)


def _seen(call: ToolCall, deleted: datetime | None, reads_notes: bool, reads_knowledge: bool) -> SeenCall:
    hidden = DELETED if deleted is not None and deleted >= call.created_at else ""
    if not hidden and not reads_notes and _is_about_a_person(call):
        hidden = NOTES
    if not hidden and call.name == LOOKS_UP and not reads_knowledge:
        hidden = KNOWLEDGE
    return SeenCall(
        attempt=call.attempt,
        round=call.round,
        id=call.call_id,
        name=call.name,
        arguments="" if hidden else call.arguments,
        decision=call.decision,
        decision_words=call.get_decision_display(),
        why="" if hidden else call.why,
        result="" if hidden else call.result,
        result_tokens=call.result_tokens,
        milliseconds=call.milliseconds,
        created_at=call.created_at,
        hidden=hidden,
    )


def _is_about_a_person(call: ToolCall) -> bool:
    """Whether it read or wrote an agent's notes about whoever asked."""
    if call.name != "memory":
        return False
    try:
        arguments = json.loads(call.arguments)
    except (ValueError, RecursionError):
        return True  # refused, but nobody knows what it says
    return not isinstance(arguments, dict) or str(arguments.get("action", "")).startswith("profile")


def forget_calls(thread_id: int, message_id: int) -> int:
    """A message of the thread was deleted: what nobody is shown any more is not kept either. How many were emptied.

    `message_id` is that message: dives that began from it quote it too.
    """
    quoting = Q(run__thread=thread_id) | Q(run__thread__dive__source=message_id)
    calls = ToolCall.objects.filter(quoting).exclude(arguments="", why="", result="")
    return calls.update(arguments="", why="", result="")


def thin_tool_results() -> int:
    """Empty results past their 30 days; what was called stays on record. Returns how many were emptied."""
    old = ToolCall.objects.filter(created_at__lt=timezone.now() - KEPT).exclude(result="")
    return old.update(result="")
