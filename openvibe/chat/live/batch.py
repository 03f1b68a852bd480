"""A batch of events, read once for all who listen in a workspace, with what their frames need of it."""

from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from textwrap import shorten
from typing import Any, NamedTuple

from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import Max, Min, OuterRef, Q
from django.db.models.functions import Left
from django.utils import timezone

from openvibe.base.models import Event
from openvibe.chat.live.growing import NewHtml, NewWords, ReplyProgress, advance_reply, begin_reply
from openvibe.chat.models import Mention, Message, NotificationPreference, Thread
from openvibe.chat.queries import message_preview, read_channel_unread, with_authors_and_mentions
from openvibe.engines.text.markdown import plain_text
from openvibe.workspaces.models import Participant

BATCH_SIZE = 200
"""Events."""
MESSAGE_CHANGED = "message_changed"
NEWS_AGE = timedelta(minutes=2)
"""Nobody is notified of what is older: a page that was asleep is told of all that it missed."""
NOTICE_CHARACTERS = 160
SPOKEN_KINDS = (Message.Kind.TEXT, Message.Kind.DIVE_RESULT)


class ThreadFacts(NamedTuple):
    """A thread as it is now. `listed`: the agents it lists, or the thread it started in does, when it is a dive."""

    channel_id: int
    access: str
    parent_id: int | None
    last_seq: int
    is_archived: bool
    listed: frozenset[int]


class MessageFacts(NamedTuple):
    """A message as it is now. `named`: whom it names; `author` and `preview` as lists of threads show it.

    `is_complete`: nothing of it is still to come; `is_changed`: edited or deleted; `is_writing`: of an agent's answer,
    whether it is being written, None for what people say."""

    author_id: int
    kind: str
    named: frozenset[int]
    author: str
    preview: str
    is_complete: bool = True
    is_changed: bool = False
    is_writing: bool | None = None


class EventRow(NamedTuple):
    """What a row of `base.Event` says."""

    position: int
    kind: str
    channel_id: int | None
    thread_id: int | None
    message_id: int | None
    participant_id: int | None
    created_at: datetime | None = None


@dataclass(eq=False)
class LiveEvent:
    """A row of `base.Event`, and what it is about. `is_first`: no earlier event of the batch is about its message;
    `is_outdated`: a later one tells of another change of it."""

    position: int
    kind: str
    channel_id: int | None
    thread_id: int | None
    message_id: int | None
    participant_id: int | None
    created_at: datetime | None
    thread: ThreadFacts | None
    message: MessageFacts | None
    is_first: bool
    is_outdated: bool

    @property
    def ids(self) -> dict[str, int | str | None]:
        return {"kind": self.kind, "channel": self.channel_id, "thread": self.thread_id, "message": self.message_id}

    @cached_property
    def announces(self) -> bool:
        """Whether it is the news of a message that stands: said just now in no dive, or an answer that is finished."""
        message, thread = self.message, self.thread
        if message is None or thread is None or thread.parent_id is not None or self.created_at is None:
            return False
        is_news = self.kind == "message_posted" or (self.kind == MESSAGE_CHANGED and not message.is_changed)
        is_recent = timezone.now() - self.created_at < NEWS_AGE
        return is_news and is_recent and message.is_complete and message.kind in SPOKEN_KINDS

    @property
    def is_superseded(self) -> bool:
        """Whether an earlier event of the batch told already how the message is now."""
        return self.kind == MESSAGE_CHANGED and not self.is_first


class NotificationText(NamedTuple):
    """What a notification of a message shows."""

    title: str
    body: str


@dataclass
class EventBatch:
    """Events after a position. `position` is where the next batch starts. `cache` is what formats share;
    with `ids_only`, they show nothing else."""

    workspace_id: int
    position: int
    events: Sequence[LiveEvent] = ()
    has_more: bool = False
    progress: dict[int, ReplyProgress] = field(default_factory=dict)
    wanted_ids: frozenset[int] = frozenset()
    cache: dict[Hashable, Any] = field(default_factory=dict)
    ids_only: bool = False

    @cached_property
    def retold_ids(self) -> frozenset[int]:
        """Messages of which an event tells more than new words, such as what their agent does now: shown whole."""
        return frozenset(
            event.message_id for event in self.events if event.message_id and event.kind != MESSAGE_CHANGED
        )

    @cached_property
    def messages(self) -> dict[int, Message]:
        """The messages that somebody is shown in full, as they are now, by id."""
        return with_authors_and_mentions(Message.objects.all()).in_bulk(self.wanted_ids) if self.wanted_ids else {}

    @cached_property
    def previous(self) -> dict[int, Message]:
        """The message just ahead of each of those, by the id of the later one."""
        places = {(m.thread_id, m.seq): m for m in self.messages.values()}
        missing_places = {(thread, seq - 1) for thread, seq in places} - places.keys()
        for thread_id in {thread for thread, _ in missing_places}:
            seqs = [seq for thread, seq in missing_places if thread == thread_id]
            rows = Message.objects.filter(thread=thread_id, seq__in=seqs).select_related("author")
            places |= {(row.thread_id, row.seq): row for row in rows}
        message_by_pk = {m.pk: places.get((m.thread_id, m.seq - 1)) for m in self.messages.values()}
        return {pk: message for pk, message in message_by_pk.items() if message}

    @cached_property
    def new_words(self) -> dict[int, NewWords | NewHtml]:
        """What replies gained since the batch before, by message id; only where they did nothing but grow."""
        words_by_message: dict[int, NewWords | NewHtml] = {}
        for pk, message in self.messages.items():
            progress = self.progress.pop(pk, None)
            if message.state != Message.State.WRITING:
                continue
            if progress and message.body.startswith(progress.body) and pk not in self.retold_ids:
                self.progress[pk], words_by_message[pk] = advance_reply(progress, message.body)
            else:
                self.progress[pk] = begin_reply(message.body)
        return words_by_message

    @cached_property
    def notification_levels(self) -> dict[tuple[int, int | None, int | None], str]:
        """What people chose for the threads of posted and announced messages and their channels: by participant,
        channel and thread, one of them None. One query, none without any."""
        events = [event for event in self.events if event.kind == "message_posted" or event.announces]
        threads = {event.thread_id: event.thread.channel_id for event in events if event.thread}
        if not threads:
            return {}
        rows = NotificationPreference.objects.filter(Q(thread__in=threads) | Q(channel__in=set(threads.values())))
        level_rows = rows.values_list("participant_id", "channel_id", "thread_id", "level").order_by()
        return {(participant, channel, thread): level for participant, channel, thread, level in level_rows}

    @cached_property
    def notification_texts(self) -> dict[int, NotificationText]:
        """What notifications of announced messages show, by message id. One query."""
        ids = {event.message_id or 0 for event in self.events if event.announces}
        rows = Message.objects.filter(pk__in=ids).annotate(beginning=Left("body", 8 * NOTICE_CHARACTERS))
        values = rows.values_list("pk", "author__label", "thread__title", "beginning").order_by()
        return {
            pk: NotificationText(f"{author} · {title}", shorten(plain_text(body), NOTICE_CHARACTERS, placeholder=" …"))
            for pk, author, title, body in values
        }

    @cached_property
    def channel_unread(self) -> dict[tuple[int, int], tuple[bool, int]]:
        """The unread state by participant and channel, for those who read on: whether anything is unread, and how often
        they are named there. One query."""
        pairs = {
            (event.participant_id, event.thread.channel_id)
            for event in self.events
            if event.kind == "read_changed" and event.participant_id and event.thread
        }
        return read_channel_unread(pairs)


def read_batch(workspace_id: int, *, after: int, until: int | None = None) -> EventBatch:
    """The next events of the workspace, all of them: who may know of each is the viewer's to say. At most four
    queries, whatever their number."""
    rows = Event.objects.filter(workspace_id=workspace_id, position__gt=after)
    if until is not None:
        rows = rows.filter(position__lte=until)
    event_rows = [EventRow(*row) for row in rows.order_by("position").values_list(*EventRow._fields)[:BATCH_SIZE]]
    return make_batch(workspace_id, event_rows, after=after) if event_rows else EventBatch(workspace_id, after)


def position_before_news(workspace_id: int, *, after: int) -> int:
    """The position ahead of the first event after `after` that is news still, for whoever did not follow meanwhile; the
    last event's where none is."""
    events = Event.objects.filter(workspace_id=workspace_id, position__gt=after)
    first = events.filter(created_at__gte=timezone.now() - NEWS_AGE).aggregate(first=Min("position"))["first"]
    if first is not None:
        return int(first) - 1
    return events.aggregate(last=Max("position"))["last"] or after


def make_batch(workspace_id: int, rows: Sequence[EventRow], *, after: int = 0) -> EventBatch:
    """A batch of these events as things are now, in their order. At most three queries, whatever their number."""
    threads = _thread_facts({row.thread_id for row in rows if row.thread_id})
    messages = _message_facts({row.message_id for row in rows if row.message_id})
    last_changes = {row.message_id: row.position for row in rows if row.kind == MESSAGE_CHANGED}
    events, message_ids = [], set()
    position = after
    for row in rows:
        position = row.position or position
        thread, message = threads.get(row.thread_id or 0), messages.get(row.message_id or 0)
        is_outdated = row.kind == MESSAGE_CHANGED and position != last_changes[row.message_id]
        events.append(
            LiveEvent(position, *row[1:], thread, message, row.message_id not in message_ids, is_outdated=is_outdated)
        )
        message_ids.add(row.message_id)
    return EventBatch(workspace_id, position, events, has_more=len(rows) == BATCH_SIZE)


def _thread_facts(ids: set[int]) -> dict[int, ThreadFacts]:
    if not ids:
        return {}
    names = ("pk", "channel_id", "access", "parent_id", "last_seq", "archived_at")
    rows = list(Thread.objects.filter(pk__in=ids).values_list(*names))
    restricted = {row[0] for row in rows if row[2] == Thread.Access.AGENT_RESTRICTED}
    restricted |= {row[3] for row in rows if row[0] in restricted and row[3]}
    agents_by_thread: dict[int | None, set[int]] = defaultdict(set)
    if restricted:
        pairs = Thread.allowed_agents.through.objects.filter(thread__in=restricted)
        for thread_id, agent_id in pairs.values_list("thread_id", "participant_id"):
            agents_by_thread[thread_id].add(agent_id)
    return {
        pk: ThreadFacts(
            channel,
            access,
            parent,
            seq,
            archived is not None,
            frozenset(agents_by_thread[pk] | agents_by_thread[parent]),
        )
        for pk, channel, access, parent, seq, archived in rows
    }


def _message_facts(ids: set[int]) -> dict[int, MessageFacts]:
    if not ids:
        return {}
    named_ids = Mention.objects.filter(message=OuterRef("pk")).order_by().values("participant_id")
    rows = Message.objects.filter(pk__in=ids).annotate(named=ArraySubquery(named_ids), words=Left("body", 400))
    columns = ("pk", "author_id", "kind", "named", "author__label", "words", "state", "edited_at", "deleted_at")
    message_rows = rows.values_list(*columns, "author__kind")
    return {
        pk: MessageFacts(
            author_id,
            kind,
            frozenset(names),
            author,
            message_preview(words, kind, state, is_deleted=deleted_at is not None),
            is_complete=state == Message.State.COMPLETE,
            is_changed=bool(edited_at or deleted_at),
            is_writing=state == Message.State.WRITING if author_kind == Participant.Kind.AGENT else None,
        )
        for pk, author_id, kind, names, author, words, state, edited_at, deleted_at, author_kind in message_rows
    }
