"""Frames of the event stream as programs take them: ids, and the message as the API gives it where it is asked for."""

import json
from dataclasses import dataclass
from typing import Any, ClassVar

from rest_framework.utils.encoders import JSONEncoder

from openvibe.chat.api.message_serializers import MessageOut
from openvibe.chat.live.batch import EventBatch, LiveEvent
from openvibe.chat.live.subscriber import HEARTBEAT_FRAME
from openvibe.chat.live.typing import TypingNote
from openvibe.chat.live.viewers import Viewer


@dataclass(frozen=True)
class ApiFrames:
    """The frames of a stream with these filters; an empty one lets everything through."""

    kinds: frozenset[str] = frozenset()
    thread_ids: frozenset[int] = frozenset()
    with_data: bool = False
    heartbeat: ClassVar[bytes] = HEARTBEAT_FRAME

    @property
    def is_plain(self) -> bool:
        """Whether the stream is as it was before there were filters: clients that know no `event:` go on."""
        return not (self.kinds or self.thread_ids or self.with_data)

    def shows(self, event: LiveEvent) -> bool:
        return self.with_data and (not self.thread_ids or event.thread_id in self.thread_ids)

    def frame(self, event: LiveEvent, viewer: Viewer, batch: EventBatch) -> bytes:
        if self.thread_ids and event.thread_id not in self.thread_ids:
            return b""
        kind = self._kind(event, viewer)
        if (self.kinds and kind not in self.kinds) or (self.with_data and event.is_outdated):
            return b""
        key = (self, event.position, kind)
        if key not in batch.cache:
            batch.cache[key] = self._encode(event, kind, batch)
        frame: bytes = batch.cache[key]
        return frame

    def typing_frame(self, note: TypingNote) -> bytes:
        """Nothing: it is for people who look on."""
        return b""

    def presence_frame(self, here: frozenset[int], viewer: Viewer) -> bytes:
        """`people/` says it."""
        return b""

    def _kind(self, event: LiveEvent, viewer: Viewer) -> str:
        """`mention` for a post that is meant for the viewer, unless only posts are asked for."""
        if self.is_plain or (self.kinds and "mention" not in self.kinds):
            return event.kind
        return event_kind(event, viewer.participant_id)

    def _encode(self, event: LiveEvent, kind: str, batch: EventBatch) -> bytes:
        data = event_data(event, kind, batch) if self.with_data and not batch.ids_only else {**event.ids, "kind": kind}
        name = "" if self.is_plain else f"event: {kind}\n"
        return f"id: {event.position}\n{name}data: {json.dumps(data, cls=JSONEncoder)}\n\n".encode()


def event_data(event: LiveEvent, kind: str, batch: EventBatch) -> dict[str, Any]:
    """What a program is told of an event, with the message as the API gives it, None where there is none to show."""
    message = batch.messages.get(event.message_id or 0)
    return {**event.ids, "kind": kind, "data": MessageOut(message).data if message else None}


def event_kind(event: LiveEvent, participant_id: int) -> str:
    """The kind of an event as this participant knows it: a post that names them is a `mention`, and so is one that they
    are asked to answer by themselves."""
    is_named = event.kind == "message_posted" and event.message is not None and participant_id in event.message.named
    return "mention" if is_named or event.kind == "run_requested" else event.kind
