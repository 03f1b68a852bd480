"""Frames of the event stream as pages take them: a message as its row's HTML, a reply that is being written as its new
words, the row of a thread in a list as HTML, and what the sidebar says as data.

HTML is made once for all who see the same: their workspace, role and time zone, and for those to whom the message
shows something of their own (who wrote it, is named in it, judged it, reacted to it or saved it), once more."""

import json
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import ClassVar
from zoneinfo import ZoneInfo

from django.utils import timezone

from openvibe.chat.live.batch import EventBatch, LiveEvent, MessageFacts
from openvibe.chat.live.growing import NewWords
from openvibe.chat.live.typing import TypingNote
from openvibe.chat.live.viewers import Viewer, is_muted, is_notified
from openvibe.chat.models import Message, Thread
from openvibe.chat.queries import ThreadItem
from openvibe.chat.web.presenters import (
    ListedMessage,
    decorate_messages,
    dive_chips,
    is_draft_start,
    reacted_by,
    render_message,
    result_cards,
)
from openvibe.chat.web.thread_lists import thread_rows
from openvibe.chat.wiring import PERSONAL_MESSAGE_VIEWS
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Workspace

MAX_FRAME_BYTES = 1_000_000
"""A page fetches what is larger."""
NEW_THREAD_SEQ = 1


@dataclass(frozen=True)
class LiveReader:
    """A reader of the HTML of a frame."""

    access: Access
    workspace: Workspace


@dataclass(frozen=True)
class PageFrames:
    """The frames of a page that shows these threads, to somebody in this time zone."""

    slug: str
    zone: str
    thread_ids: frozenset[int]
    heartbeat: ClassVar[bytes] = b"event: heartbeat\ndata: {}\n\n"
    """No comment: scripts are not told of those."""

    def shows(self, event: LiveEvent) -> bool:
        return event.thread_id in self.thread_ids

    def frame(self, event: LiveEvent, viewer: Viewer, batch: EventBatch) -> bytes:
        if event.is_superseded:
            return b""
        facts, personal = _sidebar_facts(event, viewer, batch), 0
        message = batch.messages.get(event.message_id or 0) if self.shows(event) and event.is_first else None
        if message is not None and not batch.ids_only:
            personal = viewer.participant_id if _is_personal(message, viewer, event, batch) else 0
        role = viewer.access.role if viewer.access else None
        key = (self, event.position, tuple(facts.items()), role if message else None, personal)
        if key not in batch.cache:
            batch.cache[key] = self._encode(event, facts, message, viewer, personal, batch)
        frame: bytes = batch.cache[key]
        return frame

    def presence_frame(self, here: frozenset[int], viewer: Viewer) -> bytes:
        """The frame of who is here; not for guests, who know only some of them: their sidebar says it when it is
        loaded."""
        if viewer.access is None or viewer.access.is_guest:
            return b""
        return f"event: presence\ndata: {json.dumps(sorted(here))}\n\n".encode()

    def typing_frame(self, note: TypingNote) -> bytes:
        """The frame of who is writing in a thread that the page shows."""
        if note.thread_id not in self.thread_ids:
            return b""
        data = {"thread": note.thread_id, "handle": note.handle, "name": note.name}
        return f"event: typing\ndata: {json.dumps(data)}\n\n".encode()

    def _encode(
        self,
        event: LiveEvent,
        facts: dict[str, object],
        message: Message | None,
        viewer: Viewer,
        personal: int,
        batch: EventBatch,
    ) -> bytes:
        data = {**event.ids, **facts}
        if "notify" in facts:
            data["notify"] = batch.notification_texts[event.message_id or 0]._asdict()
        if not self.thread_ids and event.kind == "message_posted" and event.message is not None:
            data["row"] = self._thread_row(event, event.message)
        if message is None:
            return _encode(event.position, data)
        row = {"fetch": True} if batch.ids_only else self._row(event, message, viewer, personal, batch)
        frame = _encode(event.position, data | row)
        return frame if len(frame) <= MAX_FRAME_BYTES else _encode(event.position, {**data, "fetch": True})

    def _row(
        self, event: LiveEvent, message: Message, viewer: Viewer, personal: int, batch: EventBatch
    ) -> dict[str, object]:
        news = batch.new_words.get(message.pk)
        if news is None:
            return {"html": self._html(event, message, viewer, personal, batch)}
        place = {"at": message.seq, "from": news.start, "to": news.end}
        if isinstance(news, NewWords):
            return {**place, "words": news.words}
        rendered = {name: getattr(news, name) for name in ("was", "kept", "done", "html")}
        given = {name: value for name, value in rendered.items() if value}
        return {**place, "base": news.base, **given, **({"draft": True} if is_draft_start(message.body) else {})}

    def _thread_row(self, event: LiveEvent, message: MessageFacts) -> str:
        """The thread's row in a list, as the post left it: only what all see alike, which the page takes from it."""
        assert event.thread is not None
        thread = ThreadItem(
            pk=event.thread_id or 0,
            title="",
            channel="",
            last_seq=event.thread.last_seq,
            access=event.thread.access,
            at=event.created_at or timezone.now(),
            unread=False,
            author=message.author,
            preview=message.preview,
        )
        with timezone.override(ZoneInfo(self.zone)):
            return thread_rows([thread], slug=self.slug)

    def _html(self, event: LiveEvent, message: Message, viewer: Viewer, personal: int, batch: EventBatch) -> str:
        assert viewer.access is not None
        assert event.thread is not None
        access = replace(viewer.access, participant_id=personal)
        reader_access = (
            access if personal in _decorated_for(batch).get(message.pk, ()) else replace(access, participant_id=0)
        )
        messages = list(batch.messages.values())
        with timezone.override(ZoneInfo(self.zone)):
            if "chips" not in batch.cache:
                batch.cache["chips"], batch.cache["cards"] = dive_chips(messages), result_cards(messages)
            if reader_access not in batch.cache:
                batch.cache[reader_access] = decorate_messages(messages, reader_access)
            row = ListedMessage(
                message,
                previous=batch.previous.get(message.pk),
                extras=batch.cache[reader_access][message.pk],
                dives=batch.cache["chips"].get(message.pk, ()),
                result=batch.cache["cards"].get(message.pk),
            )
            thread = Thread(pk=message.thread_id, parent_id=event.thread.parent_id)
            reader = LiveReader(access, Workspace(slug=self.slug))
            return render_message(row, thread=thread, request=reader, csrf_token="")  # htmx sends it as a header


def _encode(position: int, data: dict[str, object]) -> bytes:
    return f"id: {position}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n".encode()


def _sidebar_facts(event: LiveEvent, viewer: Viewer, batch: EventBatch) -> dict[str, object]:
    """What the sidebar needs to know of an event, for this viewer."""
    if event.thread is None:
        return {}
    notify: dict[str, object] = {}
    if not batch.ids_only and is_notified(viewer, event, batch):
        notify = {"notify": True, "push": True} if viewer.has_push else {"notify": True}
    if event.kind == "message_posted" and event.message is not None:
        return {
            **notify,
            **({"muted": True} if is_muted(viewer, event, batch) else {}),
            "mine": event.message.author_id == viewer.participant_id,
            "named": viewer.participant_id in event.message.named,
            "dive": event.thread.parent_id is not None,
            "seq": event.thread.last_seq,
            **_work_facts(event),
        }
    if event.kind == "message_changed" and event.message is not None and not event.message.is_writing:
        return {**notify, **_work_facts(event)}
    if event.kind == "read_changed":
        unread, mention_count = batch.channel_unread.get((viewer.participant_id, event.thread.channel_id), (False, 0))
        return {"unread": unread, "mentions": mention_count}
    if event.kind == "thread_changed":
        return {"new": event.thread.last_seq <= NEW_THREAD_SEQ}
    return notify


def _work_facts(event: LiveEvent) -> dict[str, object]:
    """Whether an agent is writing this answer now; nothing for what people say."""
    message = event.message
    if message is None or message.is_writing is None:
        return {}
    return {"agent": message.author_id, "writing": message.is_writing}


def _is_personal(message: Message, viewer: Viewer, event: LiveEvent, batch: EventBatch) -> bool:
    """Whether the message shows this viewer something of their own: they wrote it, it names them, they
    reacted to it or saved it, or an upper floor says so."""
    is_own = viewer.participant_id == message.author_id
    is_named = event.message is not None and viewer.participant_id in event.message.named
    is_marked = viewer.participant_id in message.savers or reacted_by(message, viewer.participant_id)
    return is_own or is_named or is_marked or viewer.participant_id in _decorated_for(batch).get(message.pk, ())


def _decorated_for(batch: EventBatch) -> dict[int, set[int]]:
    """The people for whom decorators have something of their own, by message id."""
    if "decorated for" not in batch.cache:
        participants_by_message: defaultdict[int, set[int]] = defaultdict(set)
        for source in PERSONAL_MESSAGE_VIEWS:
            for message_id, participants in source(list(batch.messages.values())).items():
                participants_by_message[message_id].update(participants)
        batch.cache["decorated for"] = dict(participants_by_message)
    views: dict[int, set[int]] = batch.cache["decorated for"]
    return views
