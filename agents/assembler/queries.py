"""What a prompt reads of the database besides the conversation: `PromptContext`, in one statement and one row."""

from datetime import datetime
from functools import cache
from typing import Any, NamedTuple

from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import Case, Exists, F, Func, JSONField, OuterRef, Q, QuerySet, Value, When
from django.db.models.functions import Coalesce

from agents.models import Agent, LoadedSkill, Snapshot, ToolCall, TrustChange
from knowledge.models import Entry
from memory.models import DEFAULT_PLUGIN, Approval, Block, Episode, MemoryPlugin, ProfileNote, ProgressEntry, WorkItem
from openvibe.base.query_cache import CompiledQuery
from openvibe.chat.models import DiveResult, Message, Thread
from openvibe.llm.models import Endpoint
from openvibe.workspaces.access import Access


class EpisodeRow(NamedTuple):
    """An episode as prompts read it. `is_usable`: the audience of this thread may know where it was learned."""

    pk: int
    kind: str
    text: str
    feedback_author: str
    from_feedback: bool
    created_at: datetime
    is_usable: bool


class ModelWindow(NamedTuple):
    """What an endpoint says about its model. Sizes in tokens."""

    model: str
    context_window: int
    output_reserve: int


class ThreadContext(NamedTuple):
    """Where a prompt is for: the thread, its channel, its workspace."""

    thread_id: int
    channel_id: int
    title: str
    instructions: str
    last_seq: int
    channel_name: str
    channel_description: str
    channel_instructions: str
    workspace_name: str
    workspace_description: str
    workspace_instructions: str
    budgets: Any
    dive_source_id: int | None = None
    """Of a dive: the message it started from."""


class BlockRow(NamedTuple):
    """A context block that says something."""

    pk: int
    label: str
    description: str
    content: str
    readonly: bool = False


class ProfileNoteRow(NamedTuple):
    """What the agent noted about the asker."""

    pk: int
    person_id: int
    person: str
    content: str


class WorkItemRow(NamedTuple):
    """A row of the thread's open work."""

    pk: int
    kind: str
    text: str
    data: Any
    author: str
    author_id: int
    author_kind: str


class ApprovalRow(NamedTuple):
    """An approval: what it is for, and who decided."""

    pk: int
    what: str
    state: str
    requested_by: str
    decided_by: str
    note: str
    at: str


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
    at: str


class ToolResultRow(NamedTuple):
    """What a tool answered in an earlier run here. `is_changed`: a message was edited or deleted since."""

    pk: int
    name: str
    arguments: str
    result: str
    at: str
    is_changed: bool


class DiveResultRow(NamedTuple):
    """The result of a dive of this thread."""

    message_id: int
    seq: int
    headline: str
    publisher: str
    at: str


class PromptContext(NamedTuple):
    """All of one reading."""

    thread: ThreadContext
    default_endpoint: ModelWindow | None
    plugin: tuple[str, dict[str, Any]]
    episodes: list[EpisodeRow]
    blocks: list[BlockRow]
    notes: list[ProfileNoteRow]
    work_items: list[WorkItemRow]
    approvals: list[ApprovalRow]
    progress: list[ProgressRow]
    tool_results: list[ToolResultRow]
    loaded_skills: list[str]
    previous_tool_names: list[str] | None
    results: list[DiveResultRow]
    has_knowledge: bool


MAX_EPISODES = 40
"""Open episodes looked at, the newest first."""

MAX_WORK_ITEMS = 100
"""Rows of open work looked at."""

MAX_APPROVALS, MAX_PROGRESS_ENTRIES, MAX_TOOL_RESULTS = 10, 3, 4
"""Approvals, lines of the progress log and answers of tools that prompts show, the newest first."""

WORK_KIND_ORDER = (
    "constraint",
    "objective",
    "plan",
    "goal",
    "do_not_redo",
    "todo",
    "open_question",
    "error_tried",
    "artifact",
)
"""Kinds of work in the order prompts show them: many to-dos do not keep out what must not be done again."""

_THREAD_FIELDS = (
    "pk",
    "channel_id",
    "title",
    "instructions",
    "last_seq",
    "channel__name",
    "channel__description",
    "channel__instructions",
    "workspace__name",
    "workspace__description",
    "workspace__instructions",
    "workspace__budgets",
    "dive__source",
)
_EPISODE_FIELDS = ("pk", "kind", "words", "giver", "from_feedback", "created_at", "is_usable")
_BLOCK_FIELDS = ("pk", "label", "description", "content", "readonly")
_PROFILE_NOTE_FIELDS = ("pk", "person_id", "person__name", "content")
_WORK_ITEM_FIELDS = ("pk", "kind", "text", "data", "author__name", "author_id", "author__kind")
_APPROVAL_FIELDS = ("pk", "what", "state", "requested_by__name", "decider", "note", "at")
_PROGRESS_FIELDS = (
    "pk",
    "checkpoint",
    "changed",
    "evidence",
    "open_issues",
    "next_action",
    "author__name",
    "author_id",
    "author__kind",
    "created_at",
)
_TOOL_RESULT_FIELDS = ("pk", "name", "arguments", "result", "created_at", "is_changed")


MAX_DIVE_RESULTS = 40
"""Results of dives whose headlines prompts show, the newest first."""

_DIVE_RESULT_FIELDS = ("message_id", "message__seq", "headline", "published_by__name", "published_at")


def read_prompt_context(access: Access, *, thread_id: int, person_id: int | None) -> PromptContext | None:
    """What the agent may read around the conversation; `person_id` is the participant who asks.

    None when the agent may not see the thread. One query.
    """
    query = _context_query(access.shape)
    rows = query.rows(access.workspace_id, access.participant_id, thread_id, person_id or 0)
    if not rows:
        return None
    (
        *place,
        endpoints,
        plugins,
        episodes,
        blocks,
        notes,
        work,
        approvals,
        progress,
        observed,
        skills,
        tools_before,
        results,
        entries,
    ) = rows[0][0]
    return PromptContext(
        thread=ThreadContext(*place),
        default_endpoint=next((ModelWindow(*row) for row in endpoints), None),
        plugin=next(((name, config) for name, config in plugins), (DEFAULT_PLUGIN, {})),
        episodes=[_episode_row(row) for row in episodes],
        blocks=[BlockRow(*row) for row in blocks],
        notes=[ProfileNoteRow(*row) for row in notes],
        work_items=[WorkItemRow(*row) for row in work],
        approvals=[ApprovalRow(*row) for row in approvals],
        progress=[ProgressRow(*row) for row in progress],
        tool_results=[ToolResultRow(*row) for row in observed],
        loaded_skills=[name for (name,) in skills],
        previous_tool_names=next((names for (names,) in tools_before), None),
        results=[DiveResultRow(*row) for row in results],
        has_knowledge=bool(entries),
    )


def _episode_row(row: list[Any]) -> EpisodeRow:
    row[5] = datetime.fromisoformat(row[5])
    return EpisodeRow(*row)


# --- the statement ------------------------------------------------------------------------------------------
@cache
def _context_query(shape: Access) -> CompiledQuery:
    """For each kind of access its own SQL: which conditions there are depends on it."""

    def statement(workspace_id: int, participant_id: int, thread_id: int, person_id: int) -> QuerySet[Any, Any]:
        access = shape.with_ids(workspace_id, participant_id)
        endpoints = Endpoint.objects.filter(workspace_id=OuterRef("workspace_id"), is_default=True).order_by()
        plugins = MemoryPlugin.objects.filter(workspace_id=OuterRef("workspace_id"), enabled=True).order_by()
        notes = ProfileNote.objects.filter(agent=participant_id, person=person_id).exclude(content="").order_by()
        skills = LoadedSkill.objects.filter(agent__participant=participant_id, thread=OuterRef("pk")).order_by("id")
        fragments = (
            _json_rows(endpoints, "model", "context_window", "output_reserve"),
            _json_rows(plugins, "name", "config"),
            _json_rows(_open_episodes(participant_id), *_EPISODE_FIELDS),
            _json_rows(
                Block.objects.filter(agent=participant_id).exclude(content="").order_by("label"), *_BLOCK_FIELDS
            ),
            _json_rows(notes, *_PROFILE_NOTE_FIELDS),
            _json_rows(_open_work(), *_WORK_ITEM_FIELDS),
            _json_rows(_latest_approvals(), *_APPROVAL_FIELDS),
            _json_rows(
                ProgressEntry.objects.filter(thread=OuterRef("pk")).order_by("-id")[:MAX_PROGRESS_ENTRIES],
                *_PROGRESS_FIELDS,
            ),
            _json_rows(_tool_results(participant_id), *_TOOL_RESULT_FIELDS),
            _json_rows(skills, "name"),
            _json_rows(_own_snapshots(participant_id)[:1], "tool_names"),
            _json_rows(_dive_results(shape.reads_dive_results), *_DIVE_RESULT_FIELDS),
            _json_rows(_any_entry(), "pk"),
        )
        visible_threads = Thread.objects.visible_to(access).filter(pk=thread_id).order_by()
        return visible_threads.values_list(_json_array(*_THREAD_FIELDS, *fragments))

    return CompiledQuery(statement, 4)


def _dive_results(reads_dive_results: bool) -> QuerySet[Any, Any]:
    """What dives of this thread brought; nothing for those whose level keeps results out."""
    results = DiveResult.objects.filter(dive__parent=OuterRef("pk"), message__deleted_at=None)
    visible = results if reads_dive_results else results.filter(pk__lt=0)
    return visible.order_by("-message_id")[:MAX_DIVE_RESULTS]


def _any_entry() -> QuerySet[Any, Any]:
    """One entry of the workspace. Its order is that of an index: without one, PostgreSQL expects to meet an entry soon
    and reads the entries of all others where this workspace has none."""
    return Entry.objects.filter(workspace_id=OuterRef("workspace_id")).order_by("status", "-id")[:1]


def _open_work() -> QuerySet[Any, Any]:
    """What still holds, kinds in the order prompts show them."""
    place = Case(*[When(kind=kind, then=Value(at)) for at, kind in enumerate(WORK_KIND_ORDER)], default=Value(99))
    rows = WorkItem.objects.filter(thread=OuterRef("pk"), state=WorkItem.State.OPEN)
    return rows.annotate(place=place).order_by("place", "id")[:MAX_WORK_ITEMS]


def _latest_approvals() -> QuerySet[Any, Any]:
    waiting_first = Case(When(state=Approval.State.REQUESTED, then=Value(0)), default=Value(1))
    rows = Approval.objects.filter(thread=OuterRef("pk")).order_by(waiting_first, "-id")
    decider = Coalesce("decided_by__name", Value(""))
    return rows.annotate(decider=decider, at=Coalesce("decided_at", "created_at"))[:MAX_APPROVALS]


def _own_runs_in_thread(participant_id: int) -> Q:
    """Of the agent's runs in the thread. The agent is looked up apart, so that an index has them in order."""
    agent = Agent.objects.filter(participant=participant_id).values("pk")[:1]
    return Q(run__agent=agent, run__thread=OuterRef("pk"))


def _own_snapshots(participant_id: int) -> QuerySet[Any, Any]:
    return Snapshot.objects.filter(_own_runs_in_thread(participant_id)).order_by("-run_id")


def _tool_results(participant_id: int) -> QuerySet[Any, Any]:
    """The newest tool calls that were carried out. What quotes a message that changed since is not shown again.

    What was looked up in knowledge is not among them: an entry that holds no more would stand in prompts by that.
    Nor is what an agent read before its trust level was lowered: it may no longer see that.
    """
    calls = ToolCall.objects.filter(_own_runs_in_thread(participant_id), decision=ToolCall.Decision.ALLOWED)
    lowered = TrustChange.objects.filter(agent__participant=participant_id, level_after__lt=F("level_before"))
    calls = calls.exclude(name="knowledge_search").exclude(
        Exists(lowered.filter(created_at__gte=OuterRef("created_at")))
    )
    ever_changed = Q(edited_at__isnull=False) | Q(deleted_at__isnull=False)  # few, found by an index
    changed = Message.objects.filter(ever_changed, thread=OuterRef(OuterRef("pk"))).filter(
        Q(edited_at__gt=OuterRef("created_at")) | Q(deleted_at__gt=OuterRef("created_at"))
    )
    return calls.annotate(is_changed=Exists(changed)).order_by("-run_id", "-id")[:MAX_TOOL_RESULTS]


def _open_episodes(participant_id: int) -> QuerySet[Any, Any]:
    own = Episode.objects.of(participant_id).filter(applied_at=None)
    usable = Episode.objects.usable_in(OuterRef(OuterRef("channel_id")))  # type: ignore[arg-type]
    return own.order_by("-created_at", "-id").annotate(
        words=Case(When(learning="", then=F("summary")), default=F("learning")),
        giver=Coalesce("feedback__participant__name", Value("")),
        from_feedback=Q(feedback__isnull=False),
        is_usable=Exists(usable.filter(pk=OuterRef("pk"))),
    )[:MAX_EPISODES]


def _json_rows(rows: QuerySet[Any, Any], *fields: str) -> Func:
    """The rows as one JSON list of lists, in their order."""
    return Func(ArraySubquery(rows.values(row=_json_array(*fields))), function="to_json", output_field=JSONField())


def _json_array(*fields: str | Func) -> Func:
    return Func(*fields, function="json_build_array", output_field=JSONField())
