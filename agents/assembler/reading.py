"""What a prompt reads of the database besides the conversation itself: one statement, one row.

The thread (only if the agent sees it), where it stands, the default endpoint, the memory plugin, the agent's open
episodes, its blocks, its notes about the asker, the work that is open and what its tools answered last. The
conditions are the querysets' own: `Thread.objects.visible_to`, `Episode.objects.of` and `usable_in`. Nothing here
writes.
"""

from datetime import datetime
from functools import cache
from typing import Any

from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import Case, Exists, F, Func, JSONField, OuterRef, Q, QuerySet, Value, When
from django.db.models.functions import Coalesce

from agents.assembler.found import (
    Asking,
    Carried,
    Found,
    Logged,
    Notes,
    Observed,
    Place,
    Published,
    Remembered,
    Window,
    Work,
)
from agents.models import Agent, LoadedSkill, Snapshot, ToolCall, TrustChange
from knowledge.models import Entry
from memory.models import (
    DEFAULT_PLUGIN,
    Approval,
    Block,
    Episode,
    MemoryPlugin,
    ProfileNote,
    ProgressEntry,
    WorkItem,
)
from openvibe.base.compiled import Compiled
from openvibe.chat.models import DiveResult, Message, Thread
from openvibe.llm.models import Endpoint
from openvibe.workspaces.access import Access

EPISODES = 40
"""Open episodes looked at, the newest first."""

WORK = 100
"""Rows of open work looked at."""

ASKED, LOGGED, OBSERVED = 10, 3, 4
"""Approvals, lines of the progress log and answers of tools that prompts show, the newest first."""

WORK_ORDER = (
    "constraint", "objective", "plan", "goal", "do_not_redo", "todo", "open_question", "error_tried", "artifact",
)  # fmt: skip
"""Kinds of work in the order prompts show them: many to-dos do not keep out what must not be done again."""

_PLACE = (
    "pk", "channel_id", "title", "instructions", "last_seq", "channel__name", "channel__description",
    "channel__instructions", "workspace__name", "workspace__description", "workspace__instructions",
    "workspace__budgets", "dive__source",
)  # fmt: skip
_EPISODE = ("pk", "kind", "words", "giver", "from_feedback", "created_at", "is_usable")
_BLOCK = ("pk", "label", "description", "content", "readonly")
_NOTES = ("pk", "person_id", "person__name", "content")
_WORK = ("pk", "kind", "text", "data", "author__name", "author_id", "author__kind")
_APPROVAL = ("pk", "what", "state", "requested_by__name", "decider", "note", "at")
_PROGRESS = (
    "pk", "checkpoint", "changed", "evidence", "open_issues", "next_action", "author__name", "author_id",
    "author__kind", "created_at",
)  # fmt: skip
_OBSERVED = ("pk", "name", "arguments", "result", "created_at", "is_changed")


RESULTS = 40
"""Results of dives whose headlines prompts show, the newest first."""

_RESULT = ("message_id", "message__seq", "headline", "published_by__name", "published_at")


def read(access: Access, *, thread_id: int, person_id: int | None) -> Found | None:
    """What the agent may read around the conversation; `person_id` is the participant who asks.

    None when the agent may not see the thread. One query.
    """
    query = _compiled(access.shape)
    rows = query.rows(access.workspace_id, access.participant_id, thread_id, person_id or 0)
    if not rows:
        return None
    (*place, endpoints, plugins, episodes, blocks, notes, work, approvals, progress, observed, skills,
     tools_before, results, entries) = rows[0][0]  # fmt: skip
    return Found(
        place=Place(*place),
        default_endpoint=next((Window(*row) for row in endpoints), None),
        plugin=next(((name, config) for name, config in plugins), (DEFAULT_PLUGIN, {})),
        episodes=[_remembered(row) for row in episodes],
        blocks=[Carried(*row) for row in blocks],
        notes=[Notes(*row) for row in notes],
        work=[Work(*row) for row in work],
        approvals=[Asking(*row) for row in approvals],
        progress=[Logged(*row) for row in progress],
        observed=[Observed(*row) for row in observed],
        skills=[name for (name,) in skills],
        tools_before=next((names for (names,) in tools_before), None),
        results=[Published(*row) for row in results],
        knows_anything=bool(entries),
    )


def _remembered(row: list[Any]) -> Remembered:
    row[5] = datetime.fromisoformat(row[5])
    return Remembered(*row)


# --- the statement ------------------------------------------------------------------------------------------
@cache
def _compiled(shape: Access) -> Compiled:
    """For each kind of access its own SQL: which conditions there are depends on it."""

    def statement(workspace_id: int, participant_id: int, thread_id: int, person_id: int) -> QuerySet[Any, Any]:
        access = shape.held_by(workspace_id, participant_id)
        endpoints = Endpoint.objects.filter(workspace_id=OuterRef("workspace_id"), is_default=True).order_by()
        plugins = MemoryPlugin.objects.filter(workspace_id=OuterRef("workspace_id"), enabled=True).order_by()
        notes = ProfileNote.objects.filter(agent=participant_id, person=person_id).exclude(content="").order_by()
        skills = LoadedSkill.objects.filter(agent__participant=participant_id, thread=OuterRef("pk")).order_by("id")
        parts = (
            _listed(endpoints, "model", "context_window", "output_reserve"),
            _listed(plugins, "name", "config"),
            _listed(_open_episodes(participant_id), *_EPISODE),
            _listed(Block.objects.filter(agent=participant_id).exclude(content="").order_by("label"), *_BLOCK),
            _listed(notes, *_NOTES),
            _listed(_open_work(), *_WORK),
            _listed(_approvals(), *_APPROVAL),
            _listed(ProgressEntry.objects.filter(thread=OuterRef("pk")).order_by("-id")[:LOGGED], *_PROGRESS),
            _listed(_observed(participant_id), *_OBSERVED),
            _listed(skills, "name"),
            _listed(_snapshots(participant_id)[:1], "tool_names"),
            _listed(_results(shape.reads_dive_results), *_RESULT),
            _listed(_any_entry(), "pk"),
        )
        seen = Thread.objects.visible_to(access).filter(pk=thread_id).order_by()
        return seen.values_list(_json(*_PLACE, *parts))

    return Compiled(statement, 4)


def _results(reads_dive_results: bool) -> QuerySet[Any, Any]:
    """What dives of this thread brought; nothing for those whose level keeps results out."""
    results = DiveResult.objects.filter(dive__parent=OuterRef("pk"), message__deleted_at=None)
    seen = results if reads_dive_results else results.filter(pk__lt=0)
    return seen.order_by("-message_id")[:RESULTS]


def _any_entry() -> QuerySet[Any, Any]:
    """One entry of the workspace. Its order is that of an index: without one, PostgreSQL expects to meet an entry soon
    and reads the entries of all others where this workspace has none."""
    return Entry.objects.filter(workspace_id=OuterRef("workspace_id")).order_by("status", "-id")[:1]


def _open_work() -> QuerySet[Any, Any]:
    """What still holds, kinds in the order prompts show them."""
    place = Case(*[When(kind=kind, then=Value(at)) for at, kind in enumerate(WORK_ORDER)], default=Value(99))
    rows = WorkItem.objects.filter(thread=OuterRef("pk"), state=WorkItem.State.OPEN)
    return rows.annotate(place=place).order_by("place", "id")[:WORK]


def _approvals() -> QuerySet[Any, Any]:
    waiting_first = Case(When(state=Approval.State.REQUESTED, then=Value(0)), default=Value(1))
    rows = Approval.objects.filter(thread=OuterRef("pk")).order_by(waiting_first, "-id")
    decider = Coalesce("decided_by__name", Value(""))
    return rows.annotate(decider=decider, at=Coalesce("decided_at", "created_at"))[:ASKED]


def _of_runs_here(participant_id: int) -> Q:
    """Of the agent's runs in the thread. The agent is looked up apart, so that an index has them in order."""
    agent = Agent.objects.filter(participant=participant_id).values("pk")[:1]
    return Q(run__agent=agent, run__thread=OuterRef("pk"))


def _snapshots(participant_id: int) -> QuerySet[Any, Any]:
    return Snapshot.objects.filter(_of_runs_here(participant_id)).order_by("-run_id")


def _observed(participant_id: int) -> QuerySet[Any, Any]:
    """The newest tool calls that were carried out. What quotes a message that changed since is not shown again.

    What was looked up in knowledge is not among them: an entry that holds no more would stand in prompts by that.
    Nor is what an agent read before its trust level was lowered: it may no longer see that.
    """
    calls = ToolCall.objects.filter(_of_runs_here(participant_id), decision=ToolCall.Decision.ALLOWED)
    lowered = TrustChange.objects.filter(agent__participant=participant_id, level_after__lt=F("level_before"))
    calls = calls.exclude(name="knowledge_search").exclude(
        Exists(lowered.filter(created_at__gte=OuterRef("created_at")))
    )
    ever_changed = Q(edited_at__isnull=False) | Q(deleted_at__isnull=False)  # few, found by an index
    changed = Message.objects.filter(ever_changed, thread=OuterRef(OuterRef("pk"))).filter(
        Q(edited_at__gt=OuterRef("created_at")) | Q(deleted_at__gt=OuterRef("created_at"))
    )
    return calls.annotate(is_changed=Exists(changed)).order_by("-run_id", "-id")[:OBSERVED]


def _open_episodes(participant_id: int) -> QuerySet[Any, Any]:
    own = Episode.objects.of(participant_id).filter(applied_at=None)
    usable = Episode.objects.usable_in(OuterRef(OuterRef("channel_id")))  # type: ignore[arg-type]
    return own.order_by("-created_at", "-id").annotate(
        words=Case(When(learning="", then=F("summary")), default=F("learning")),
        giver=Coalesce("feedback__participant__name", Value("")),
        from_feedback=Q(feedback__isnull=False),
        is_usable=Exists(usable.filter(pk=OuterRef("pk"))),
    )[:EPISODES]


def _listed(rows: QuerySet[Any, Any], *fields: str) -> Func:
    """The rows as one JSON list of lists, in their order."""
    return Func(ArraySubquery(rows.values(row=_json(*fields))), function="to_json", output_field=JSONField())


def _json(*fields: str | Func) -> Func:
    return Func(*fields, function="json_build_array", output_field=JSONField())
