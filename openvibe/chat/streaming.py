"""The event stream: what changed for one viewer, as server-sent events.

Rows of `base.Event` are the truth, read by position; PostgreSQL's NOTIFY is only the wake-up, a read every few seconds
the fallback. Whoever reads is asked again for their access at every reading, so a removed member or an agent
whose level fell gets nothing more. A waiting stream holds no database connection: one thread per process
listens, one reads, and both end with the last stream.
"""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

import psycopg
import structlog
from django.db import DatabaseError, close_old_connections, connection
from django.db.models import Max, Min

from openvibe.base.models import Event
from openvibe.chat.models import Channel, Message, Thread
from openvibe.chat.querysets import visible_ids
from openvibe.workspaces.access import Access

POLL_SECONDS = 5.0
HEARTBEAT_SECONDS = 25.0
RETRY_MILLISECONDS = 2000
BATCH = 200
MAX_STREAMS = 2000
MAX_STREAMS_OF_ONE = 40  # tabs of one person, or processes of one agent, in one web process
BUSY = "retry: 30000\nevent: busy\ndata: {}\n\n"
T = TypeVar("T")
AccessNow = Callable[[], Access | None]
log = structlog.get_logger(__name__)


# --- waking up ----------------------------------------------------------------------------------------------
@dataclass(eq=False)
class Sleeper:
    """One stream waiting in its own event loop."""

    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)
    bell: asyncio.Event = field(default_factory=asyncio.Event)
    workspace_id: int | None = None
    participant_id: int | None = None

    def wake(self) -> None:
        with suppress(RuntimeError):  # its loop has ended meanwhile
            self.loop.call_soon_threadsafe(self.bell.set)

    async def sleep(self, seconds: float) -> None:
        # Not `wait_for`: in Python 3.11 it loses a cancellation that comes with the bell, and the stream never ends.
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.bell.wait()
        self.bell.clear()


class Hub:
    """One per process: listens while anybody waits, and wakes the streams of the workspace something happened in."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sleepers: set[Sleeper] = set()
        self._ended: threading.Event | None = None
        self._reader: ThreadPoolExecutor | None = None

    def join(self, sleeper: Sleeper) -> bool:
        """Take a stream in; False when there are too many."""
        with self._lock:
            if len(self._sleepers) >= MAX_STREAMS:
                return False
            self._sleepers.add(sleeper)
            if self._ended is None:
                self._ended = threading.Event()
                self._reader = ThreadPoolExecutor(1, thread_name_prefix="event-reader")
                threading.Thread(target=self._listen, args=(self._ended,), name="event-listener", daemon=True).start()
            return True

    def has_room_for(self, sleeper: Sleeper, participant_id: int) -> bool:
        """Whose stream it is; False when that participant has too many here already."""
        with self._lock:
            sleeper.participant_id = participant_id
            return sum(one.participant_id == participant_id for one in self._sleepers) <= MAX_STREAMS_OF_ONE

    def leave(self, sleeper: Sleeper) -> None:
        """The last one out closes both connections."""
        with self._lock:
            self._sleepers.discard(sleeper)
            if self._sleepers or self._ended is None or self._reader is None:
                return
            self._ended.set()
            with suppress(RuntimeError):  # the interpreter is shutting down
                self._reader.submit(lambda: connection.close())  # there, not here: each thread has its own
            self._reader.shutdown(wait=False)
            self._ended = self._reader = None

    async def read(self, work: Callable[[], T]) -> T:
        """Carry out a reading on the one thread that holds a connection for all streams."""
        if self._reader is None:
            raise RuntimeError("Join before reading.")
        return await asyncio.get_running_loop().run_in_executor(self._reader, partial(_with_connection, work))

    def wake(self, workspace_id: int | None = None) -> None:
        with self._lock:
            sleepers = list(self._sleepers)
        for sleeper in sleepers:
            if workspace_id is None or sleeper.workspace_id in (None, workspace_id):
                sleeper.wake()

    def _listen(self, ended: threading.Event) -> None:
        while not ended.is_set():
            try:
                connection.ensure_connection()
                wire = connection.connection
                wire.execute("LISTEN openvibe_events")
                self.wake()  # something may have happened before
                while not ended.is_set():
                    for notification in wire.notifies(timeout=0.5):
                        self.wake(int(notification.payload.partition(":")[0]))
            except (DatabaseError, psycopg.Error, OSError) as error:
                log.warning("listening for events failed, trying again", error=str(error))
                ended.wait(1.0)
            finally:
                connection.close()


def _with_connection(work: Callable[[], T]) -> T:
    close_old_connections()
    return work()


hub = Hub()


# --- reading ------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Reading:
    """What one look at the table gave. `position` is where the next one starts; `access` None: no access any more."""

    access: Access | None
    position: int
    events: tuple[Event, ...] = ()
    must_reload: bool = False
    has_more: bool = False


def begin(access_now: AccessNow, after: int | None) -> Reading:
    """Where a stream starts: now when `after` is None; told to reload when what follows `after` is not all kept."""
    access = access_now()
    if access is None:
        return Reading(None, 0)
    events = Event.objects.filter(workspace_id=access.workspace_id)
    kept = events.aggregate(first=Min("position"), last=Max("position"))
    first, last = kept["first"] or 0, kept["last"] or 0
    if after is None:
        return Reading(access, last)
    known = after == 0 or first <= after <= last or Event.objects.filter(position=after).exists()
    return Reading(access, after) if known else Reading(access, last, must_reload=True)


def read(access_now: AccessNow, workspace_id: int, position: int) -> Reading:
    """The next events after `position` the asker may know of. At most four queries, whatever their number."""
    rows = list(Event.objects.filter(workspace_id=workspace_id, position__gt=position).order_by("position")[:BATCH])
    access = access_now()  # after the rows: what was written since access ended is never among them
    if access is None or access.workspace_id != workspace_id:
        return Reading(None, position)
    if not rows:
        return Reading(access, position)
    last = rows[-1].position or position
    return Reading(access, last, tuple(_permitted(rows, access)), has_more=len(rows) == BATCH)


def _permitted(rows: Sequence[Event], access: Access) -> list[Event]:
    mine = [row for row in rows if row.participant_id in (None, access.participant_id)]
    threads = visible_ids(access, Thread, [row.thread_id for row in mine if row.thread_id])
    channels = visible_ids(access, Channel, [row.channel_id for row in mine if row.channel_id and not row.thread_id])
    permitted = [
        row
        for row in mine
        if (row.thread_id in threads if row.thread_id else row.channel_id is None or row.channel_id in channels)
    ]
    if not access.is_agent:
        return permitted
    permitted = [row for row in permitted if row.kind != "pins_changed"]  # what is known, they are told elsewhere
    if not access.reads_dive_results:
        permitted = [row for row in permitted if row.kind != "dive_changed"]
    messages = visible_ids(access, Message, [row.message_id for row in permitted if row.message_id])
    return [row for row in permitted if row.message_id is None or row.message_id in messages]


# --- the stream ---------------------------------------------------------------------------------------------
async def event_stream(access_now: AccessNow, after: int | None) -> AsyncIterator[str]:
    """Server-sent events after a position, until the reader leaves or loses access.

    `access_now` is asked, on a thread, at every reading; None ends the stream with `event: gone`. `after` is the last
    position the reader has seen, None for "from now on". Data is `{"kind", "channel", "thread", "message"}` (ids or
    null), `id` the position. When not everything after `after` is kept any more: one `event: reload`, then on from now.
    """
    sleeper = Sleeper()
    if not hub.join(sleeper):
        yield BUSY
        return
    try:
        yield f"retry: {RETRY_MILLISECONDS}\n: open\n\n"
        async for part in _told(sleeper, access_now, after):
            yield part
    finally:
        hub.leave(sleeper)


async def _told(sleeper: Sleeper, access_now: AccessNow, after: int | None) -> AsyncIterator[str]:
    reading = await hub.read(partial(begin, access_now, after))
    said_at = sleeper.loop.time()
    if reading.access is not None and not hub.has_room_for(sleeper, reading.access.participant_id):
        yield BUSY
        return
    if reading.must_reload:
        yield f"id: {reading.position}\nevent: reload\ndata: {{}}\n\n"
    while reading.access is not None:
        sleeper.workspace_id = reading.access.workspace_id
        try:
            reading = await hub.read(partial(read, access_now, sleeper.workspace_id, reading.position))
        except DatabaseError as error:
            log.warning("reading events failed, trying again", error=str(error))
            await asyncio.sleep(1.0)
            continue
        for event in reading.events:
            yield frame(event)
        if reading.events:
            said_at = sleeper.loop.time()
        elif sleeper.loop.time() - said_at >= HEARTBEAT_SECONDS:
            said_at = sleeper.loop.time()
            yield ": still here\n\n"
        if reading.access is not None and not reading.has_more:
            await sleeper.sleep(POLL_SECONDS)
    yield "event: gone\ndata: {}\n\n"


def frame(event: Event) -> str:
    """One event on the wire: ids, never text."""
    data = {"kind": event.kind, "channel": event.channel_id, "thread": event.thread_id, "message": event.message_id}
    return f"id: {event.position}\ndata: {json.dumps(data)}\n\n"
