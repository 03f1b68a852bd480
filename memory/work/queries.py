"""What a thread is working on, for handoffs and pages; and the rows an asker may see."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Case, Count, QuerySet, Value, When

from memory.work.models import Approval, ProgressEntry, WorkItem
from openvibe.chat.models import Message, Thread
from openvibe.chat.queries import access_by
from openvibe.engines.database.compiled_queries import CompiledQuery, array_literal
from openvibe.engines.llm.transcripts import indent_text
from openvibe.engines.registers import Register
from openvibe.engines.text.preferences import may_hold_preferences
from openvibe.workspaces.access import Access

MAX_APPROVALS, MAX_PROGRESS_ENTRIES = 20, 5
"""Decided and waiting approvals, lines of the progress log: the newest, approvals that wait before all others."""


@dataclass(frozen=True, slots=True)
class WorkState:
    """All that is open in a thread, the oldest first; approvals and progress the newest first."""

    open_items: tuple[WorkItem, ...]
    approvals: tuple[Approval, ...]
    progress: tuple[ProgressEntry, ...]

    def of_kind(self, kind: str) -> tuple[WorkItem, ...]:
        return tuple(item for item in self.open_items if item.kind == kind)

    @property
    def pending(self) -> tuple[Approval, ...]:
        """Approvals nobody has decided yet."""
        return tuple(row for row in self.approvals if row.state == Approval.State.REQUESTED)


@dataclass(frozen=True, slots=True)
class PermissionCall:
    """A call of its own tools that an agent elsewhere asks leave for, as people read it. `diff_lines`: kind and text of
    the first lines; `unkept_lines` of the diff are shown nowhere. `outside_paths` lead out of the agent's folder.

    `always_pattern`: of the rule that *Always* would make, None where it is not offered; `has_pattern`: whether calls
    of this kind have any. `hidden`: why its texts are gone.
    """

    approval_id: int
    run_id: int
    agent: str
    kind: str
    words: str
    title: str
    command: str
    paths: tuple[str, ...]
    outside_paths: frozenset[str]
    arguments: str
    diff: str
    diff_lines: tuple[tuple[str, str], ...]
    added: int
    removed: int
    unkept_lines: int
    unshown_lines: int
    expires_at: datetime | None
    channel: str
    always_pattern: str | None
    has_pattern: bool
    hidden: str = ""


@dataclass(frozen=True, slots=True)
class ApprovalCall:
    """The call of a tool that an approval is about. `arguments`: JSON, indented; empty where the asker may not read
    them, or where they went with a deleted message, as `hidden` says. `permission`: of one that an agent elsewhere
    makes with its own tools."""

    tool: str
    arguments: str
    hidden: str = ""
    permission: PermissionCall | None = None


APPROVAL_CALLS: Register[Callable[[Collection[int], Access], Mapping[int, ApprovalCall]]] = Register(
    "memory.work.queries.APPROVAL_CALLS"
)
"""The calls of tools that approvals are about, by approval id, as the asker may see them. Two queries at most."""


@dataclass(frozen=True, slots=True)
class AgentPlanView:
    """What an agent elsewhere plans in a thread; `entries` of `content`, `status` and `priority`."""

    agent: str
    entries: Sequence[Mapping[str, str]]
    done: int
    updated_at: datetime


AGENT_PLANS: Register[Callable[[int], Sequence[AgentPlanView]]] = Register("memory.work.queries.AGENT_PLANS")
"""The plans that agents elsewhere told of in a thread, by its id. One query. Who asks has been let into the thread."""


def approval_calls(approvals: Collection[Approval], access: Access) -> Mapping[int, ApprovalCall]:
    """The calls that these approvals are about, by approval id; nothing for those that are about something else."""
    return APPROVAL_CALLS.only()([row.pk for row in approvals], access) if approvals else {}


def get_work_state(thread_id: int) -> WorkState:
    """What holds in a thread now. Three queries. Who asks must have been let into the thread before."""
    pending_first = Case(When(state=Approval.State.REQUESTED, then=Value(0)), default=Value(1))
    approvals = Approval.objects.filter(thread=thread_id).select_related("requested_by", "decided_by")
    progress = ProgressEntry.objects.filter(thread=thread_id).select_related("author").order_by("-id")
    return WorkState(
        tuple(
            WorkItem.objects.filter(thread=thread_id, state=WorkItem.State.OPEN).select_related(
                "author", "confirmed_by"
            )
        ),
        tuple(approvals.order_by(pending_first, "-id")[:MAX_APPROVALS]),
        tuple(progress[:MAX_PROGRESS_ENTRIES]),
    )


def row_text(text: str, data: Mapping[str, Any]) -> str:
    """A row's own words; what its kind adds in somebody's words stands below them, each with its label, and further
    lines of either are indented: none can pass for a label. A plan's stage is no words: who shows a row shows it as a
    field."""
    data_labels = (("Done when", "done_condition"), ("Budget", "budget"), ("Stored as", "ref"))
    additions = (f"{label}: {indent_text(data[key])}" for label, key in data_labels if data.get(key))
    return "\n".join([indent_text(text), *additions])


def visible_threads(access: Access) -> QuerySet[Thread]:
    threads: QuerySet[Thread] = Thread.objects.visible_to(access)
    return threads


def visible_work_items(access: Access) -> QuerySet[WorkItem]:
    """Rows of the threads the asker sees."""
    rows = WorkItem.objects.filter(thread__in=visible_threads(access))
    return rows.select_related("author", "closed_by", "confirmed_by")


access_work_item = access_by("pk", visible_work_items)


def count_pending_approvals(thread: Thread) -> int:
    """Counts the approvals that wait. Whoever asks must have been let into the thread before."""
    rows = _pending_approvals.rows(thread.pk)
    return int(rows[0][0]) if rows else 0


@CompiledQuery
def _pending_approvals(thread_id: int) -> QuerySet[Any, Any]:
    """One row, none without any."""
    pending = Approval.objects.filter(thread=thread_id, state=Approval.State.REQUESTED)
    return pending.order_by().values("thread").annotate(count=Count("pk")).values_list("count")


def visible_approvals(access: Access) -> QuerySet[Approval]:
    """Approvals in the threads the asker sees."""
    return Approval.objects.filter(thread__in=visible_threads(access)).select_related("requested_by", "decided_by")


access_approval = access_by("pk", visible_approvals)


@dataclass(frozen=True, slots=True)
class StandingPreference:
    """An open preference, as the menu of the message it was said in offers to make it binding."""

    item_id: int
    version: int
    text: str


def preferences_by_message(messages: Sequence[Message], access: Access) -> dict[int, dict[str, object]]:
    """`preferences` for messages in which people ask for something once and for all that does not bind yet; nothing for
    those who may bind nobody. One query, none where no message has words for it."""
    if access.is_agent or access.is_guest:
        return {}
    ids = [
        message.pk
        for message in messages
        if not message.author.is_agent and not message.is_deleted and may_hold_preferences(message.body)
    ]
    if not ids:
        return {}
    by_message: defaultdict[int, tuple[StandingPreference, ...]] = defaultdict(tuple)
    for message_id, *row in _open_preferences.rows(array_literal(ids)):
        by_message[message_id] += (StandingPreference(*row),)
    return {message_id: {"preferences": preferences} for message_id, preferences in by_message.items()}


@CompiledQuery
def _open_preferences(ids: int) -> QuerySet[Any, Any]:
    rows = WorkItem.objects.open().filter(kind=WorkItem.Kind.PREFERENCE, message__id__any_of=ids)
    writable = rows.filter(thread__archived_at=None, thread__channel__archived_at=None)
    return writable.order_by("id").values_list("message_id", "pk", "version", "text")
