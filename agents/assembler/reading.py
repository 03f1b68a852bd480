"""What a prompt reads of the database before it recalls: one statement, one row.

The thread (only if the agent sees it), where it stands, the default endpoint, the newest messages and the agent's
open episodes. The conditions are the querysets' own: `Thread.objects.visible_to`, `Episode.objects.of` and
`usable_in`. Nothing here writes.
"""

from datetime import datetime
from functools import cache
from typing import Any, NamedTuple

from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import Case, Exists, F, Func, JSONField, OuterRef, Q, QuerySet, Value, When
from django.db.models.functions import Coalesce

from agents.assembler.compiled import Compiled
from memory.models import Episode
from openvibe.chat.models import Message, Thread
from openvibe.llm.models import Endpoint
from openvibe.workspaces.access import Access

EPISODES = 40
"""Open episodes looked at, the newest first."""

END = 2**62
"""A number after every message: all of the thread is history."""


class Said(NamedTuple):
    """A stored message as prompts read it; `at` in ISO 8601."""

    pk: int
    seq: int
    kind: str
    body: str
    token_count: int
    at: str
    author_id: int
    author_name: str
    author_kind: str


class Remembered(NamedTuple):
    """An episode as prompts read it. `is_usable`: the audience of this thread may know where it was learned."""

    pk: int
    kind: str
    text: str
    giver: str
    from_feedback: bool
    created_at: datetime
    is_usable: bool


class Window(NamedTuple):
    """What an endpoint says about its model. Sizes in tokens."""

    model: str
    context_window: int
    output_reserve: int


class Place(NamedTuple):
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


class Found(NamedTuple):
    """All of one reading. `newest` are messages, the newest first."""

    place: Place
    default_endpoint: Window | None
    newest: list[Said]
    episodes: list[Remembered]


_PLACE = (
    "pk", "channel_id", "title", "instructions", "last_seq", "channel__name", "channel__description",
    "channel__instructions", "workspace__name", "workspace__description", "workspace__instructions",
    "workspace__budgets",
)  # fmt: skip
_EPISODE = ("pk", "kind", "words", "giver", "from_feedback", "created_at", "is_usable")
_SAID = ("pk", "seq", "kind", "body", "token_count", "created_at", "author_id", "author__name", "author__kind")


def read(access: Access, *, thread_id: int, before: int | None, messages: int) -> Found | None:
    """What the agent may read of the thread, with its newest messages below number `before`, at most so many.

    None when the agent may not see the thread. One query.
    """
    query = _compiled(access.is_agent, access.reads_public_channels, messages)
    rows = query.rows(access.workspace_id, access.participant_id, thread_id, END if before is None else before)
    if not rows:
        return None
    *place, endpoints, newest, episodes = rows[0][0]
    return Found(
        place=Place(*place),
        default_endpoint=next((Window(*row) for row in endpoints), None),
        newest=[Said(*row) for row in newest],
        episodes=[_remembered(row) for row in episodes],
    )


def said_in(thread_id: int, *, before: int | None, messages: int) -> list[Said]:
    """The newest messages of a thread below number `before` that prompts may hold, the newest first. One query."""
    rows = _compiled_history(messages).rows(thread_id, END if before is None else before)
    return [Said(*row[0]) for row in rows]


def _remembered(row: list[Any]) -> Remembered:
    row[5] = datetime.fromisoformat(row[5])
    return Remembered(*row)


# --- the statement ------------------------------------------------------------------------------------------
@cache
def _compiled(is_agent: bool, reads_public_channels: bool, messages: int) -> Compiled:
    """For each kind of access its own SQL: which conditions there are depends on it."""

    def statement(workspace_id: int, participant_id: int, thread_id: int, before: int) -> QuerySet[Any, Any]:
        access = Access(workspace_id, participant_id, is_agent=is_agent, reads_public_channels=reads_public_channels)
        endpoints = Endpoint.objects.filter(workspace_id=OuterRef("workspace_id"), is_default=True).order_by()
        parts = (
            _listed(endpoints, "model", "context_window", "output_reserve"),
            _listed(_history(OuterRef("pk"), before)[:messages], *_SAID),
            _listed(_open_episodes(participant_id), *_EPISODE),
        )
        seen = Thread.objects.visible_to(access).filter(pk=thread_id).order_by()
        return seen.values_list(_json(*_PLACE, *parts))

    return Compiled(statement, 4)


@cache
def _compiled_history(messages: int) -> Compiled:
    return Compiled(lambda thread_id, before: _history(thread_id, before)[:messages].values_list(_json(*_SAID)), 2)


def _history(thread: int | OuterRef, before: int) -> QuerySet[Message]:
    return (
        Message.objects.filter(thread=thread, deleted_at=None, state__in=("complete", "stopped"), seq__lt=before)
        .exclude(kind=Message.Kind.SYSTEM)
        .exclude(body="")
        .order_by("-seq")
    )


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
