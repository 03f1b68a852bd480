"""Signs that somebody is writing in a thread now: told to the open pages of those who see it, by PostgreSQL's NOTIFY,
and kept nowhere.

Pages show it for a few seconds after they last heard of it: it ends by itself, whatever becomes of the writer."""

import json
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

from django.db import connection

from openvibe.chat.live.batch import LiveEvent, ThreadFacts
from openvibe.chat.models import Thread
from openvibe.chat.services import check_not_archived
from openvibe.workspaces.access import Access

TYPING_CHANNEL = "openvibe_typing"
"""The name under which processes tell one another."""
MIN_SECONDS = 1.0
"""The time between two signs of one person, at least; what comes sooner is not told."""
MAX_WRITERS = 10_000
"""Writers whose last sign a process remembers."""


@dataclass(frozen=True)
class TypingNote:
    """A sign that somebody is writing."""

    workspace_id: int
    channel_id: int
    thread_id: int
    participant_id: int
    handle: str
    name: str

    def as_event(self) -> LiveEvent:
        """An event of its thread, for the rule of who sees what there (`Viewer.sees`)."""
        facts = ThreadFacts(self.channel_id, Thread.Access.OPEN, None, 0, is_archived=False, listed=frozenset())
        ids = (self.channel_id, self.thread_id, None, None)
        return LiveEvent(0, "typing", *ids, None, facts, None, is_first=True, is_outdated=False)


def read_typing_note(payload: str) -> TypingNote:
    return TypingNote(**json.loads(payload))


class _TypingSigns:
    """Keeps when each person last gave a sign in this process."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._told_at: dict[int, float] = {}

    def take(self, participant_id: int) -> bool:
        """Whether this one is told: not the next so soon after it."""
        now = self._clock()
        with self._lock:
            if now - self._told_at.get(participant_id, -MIN_SECONDS) < MIN_SECONDS:
                return False
            if len(self._told_at) >= MAX_WRITERS:
                self._told_at.clear()
            self._told_at[participant_id] = now
            return True


typing_signs = _TypingSigns()


def note_typing(*, thread: Thread, by: Access, handle: str, name: str) -> bool:
    """Tells the others that `by` is writing in a thread that she sees; whether that was told. Raises Refused where
    nobody writes any more."""
    if thread.parent_id is not None:
        return False  # a dive is one person's own
    check_not_archived(thread)
    if not typing_signs.take(by.participant_id):
        return False
    note = TypingNote(by.workspace_id, thread.channel_id, thread.pk, by.participant_id, handle, name)
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_notify(%s, %s)", [TYPING_CHANNEL, json.dumps(asdict(note))])
    return True
