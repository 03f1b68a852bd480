"""The event stream: what changed for one viewer, as server-sent events.

Rows of `base.Event` are the truth, read by position; PostgreSQL's NOTIFY is only the wake-up, a read every few seconds
the fallback. Access is looked up again at every read, so a removed member or an agent whose level fell gets nothing
more. A waiting stream holds no database connection: one thread per process listens, one reads, and both end with the
last stream."""

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
from openvibe.chat.queries import visible_ids
from openvibe.workspaces.access import Access

POLL_SECONDS = 5.0
HEARTBEAT_SECONDS = 25.0
STOP_CHECK_SECONDS = 0.5
"""How long the listener goes on at most after the last stream."""
RETRY_MILLISECONDS = 2000
BATCH_SIZE = 200
MAX_STREAMS = 2000
MAX_STREAMS_PER_PARTICIPANT = 40  # tabs of one person, or processes of one agent, in one web process
BUSY_FRAME = "retry: 30000\nevent: busy\ndata: {}\n\n"
T = TypeVar("T")
CurrentAccess = Callable[[], Access | None]
log = structlog.get_logger(__name__)


@dataclass(eq=False)
class StreamSubscriber:
    """One stream waiting in its own event loop."""

    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)
    wakeup: asyncio.Event = field(default_factory=asyncio.Event)
    workspace_id: int | None = None
    participant_id: int | None = None

    def wake(self) -> None:
        with suppress(RuntimeError):  # its loop has ended meanwhile
            self.loop.call_soon_threadsafe(self.wakeup.set)

    async def wait(self, seconds: float) -> None:
        # Not `wait_for`: in Python 3.11 it loses a cancellation that comes with the bell, and the stream never ends.
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.wakeup.wait()
        self.wakeup.clear()


class EventHub:
    """One per process: listens while anybody waits, and wakes the streams of the workspace something happened in."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._subscribers: set[StreamSubscriber] = set()
        self._stop_event: threading.Event | None = None
        self._executor: ThreadPoolExecutor | None = None

    def subscribe(self, subscriber: StreamSubscriber) -> bool:
        """Take a stream in; False when there are too many."""
        with self._lock:
            if len(self._subscribers) >= MAX_STREAMS:
                return False
            self._subscribers.add(subscriber)
            if self._stop_event is None:
                self._stop_event = threading.Event()
                self._executor = ThreadPoolExecutor(1, thread_name_prefix="event-reader")
                threading.Thread(
                    target=self._listen, args=(self._stop_event,), name="event-listener", daemon=True
                ).start()
            return True

    def has_room_for(self, subscriber: StreamSubscriber, participant_id: int) -> bool:
        """Whose stream it is; False when that participant has too many here already."""
        with self._lock:
            subscriber.participant_id = participant_id
            return sum(one.participant_id == participant_id for one in self._subscribers) <= MAX_STREAMS_PER_PARTICIPANT

    def unsubscribe(self, subscriber: StreamSubscriber) -> None:
        """The last one out closes both connections."""
        with self._lock:
            self._subscribers.discard(subscriber)
            if self._subscribers or self._stop_event is None or self._executor is None:
                return
            self._stop_event.set()
            with suppress(RuntimeError):  # the interpreter is shutting down
                self._executor.submit(lambda: connection.close())  # there, not here: each thread has its own
            self._executor.shutdown(wait=False)
            self._stop_event = self._executor = None

    async def read(self, work: Callable[[], T]) -> T:
        """Carry out a reading on the one thread that holds a connection for all streams."""
        if self._executor is None:
            raise RuntimeError("Join before reading.")

        def read_with_connection() -> T:
            close_old_connections()
            return work()

        return await asyncio.get_running_loop().run_in_executor(self._executor, read_with_connection)

    def wake(self, workspace_id: int | None = None) -> None:
        with self._lock:
            subscribers = list(self._subscribers)
        for subscriber in subscribers:
            if workspace_id is None or subscriber.workspace_id in (None, workspace_id):
                subscriber.wake()

    def _listen(self, ended: threading.Event) -> None:
        while not ended.is_set():
            try:
                connection.ensure_connection()
                wire = connection.connection
                wire.execute("LISTEN openvibe_events")
                self.wake()  # something may have happened before
                while not ended.is_set():
                    for notification in wire.notifies(timeout=STOP_CHECK_SECONDS):
                        self.wake(int(notification.payload.partition(":")[0]))
            except (DatabaseError, psycopg.Error, OSError) as error:
                log.warning("listening for events failed, trying again", error=str(error))
                ended.wait(1.0)
            finally:
                connection.close()


hub = EventHub()


@dataclass(frozen=True)
class EventBatch:
    """What one look at the table gave. `position` is where the next one starts; `access` None: no access any more."""

    access: Access | None
    position: int
    events: tuple[Event, ...] = ()
    must_reload: bool = False
    has_more: bool = False


def start_position(access_now: CurrentAccess, after: int | None) -> EventBatch:
    """Where a stream starts: now when `after` is None; now, and reload, when not all that follows `after` is kept."""
    access = access_now()
    if access is None:
        return EventBatch(None, 0)
    events = Event.objects.filter(workspace_id=access.workspace_id)
    retained = events.aggregate(first=Min("position"), last=Max("position"))
    first, last = retained["first"] or 0, retained["last"] or 0
    if after is None:
        return EventBatch(access, last)
    is_retained = after == 0 or first <= after <= last or Event.objects.filter(position=after).exists()
    return EventBatch(access, after) if is_retained else EventBatch(access, last, must_reload=True)


def read_events(access_now: CurrentAccess, workspace_id: int, position: int) -> EventBatch:
    """The next events after `position` the asker may know of. At most four queries, whatever their number."""
    rows = list(
        Event.objects.filter(workspace_id=workspace_id, position__gt=position).order_by("position")[:BATCH_SIZE]
    )
    access = access_now()  # after the rows: what was written since access ended is never among them
    if access is None or access.workspace_id != workspace_id:
        return EventBatch(None, position)
    if not rows:
        return EventBatch(access, position)
    last = rows[-1].position or position
    return EventBatch(access, last, tuple(_visible_events(rows, access)), has_more=len(rows) == BATCH_SIZE)


def _visible_events(rows: Sequence[Event], access: Access) -> list[Event]:
    addressed = [row for row in rows if row.participant_id in (None, access.participant_id)]
    threads = visible_ids(access, Thread, [row.thread_id for row in addressed if row.thread_id])
    channels = visible_ids(
        access, Channel, [row.channel_id for row in addressed if row.channel_id and not row.thread_id]
    )
    permitted = [
        row
        for row in addressed
        if (row.thread_id in threads if row.thread_id else row.channel_id is None or row.channel_id in channels)
    ]
    if not access.is_agent:
        return permitted
    hidden_kinds = {"pins_changed"} if access.reads_dive_results else {"pins_changed", "dive_changed"}
    permitted = [row for row in permitted if row.kind not in hidden_kinds]
    messages = visible_ids(access, Message, [row.message_id for row in permitted if row.message_id])
    return [row for row in permitted if row.message_id is None or row.message_id in messages]


def parse_position(text: str) -> int | None:
    """A position as `Last-Event-ID` names it; None when it is not one."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None


async def event_stream(access_now: CurrentAccess, after: int | None) -> AsyncIterator[str]:
    """Server-sent events after a position, until the reader leaves or loses access.

    `access_now` is asked, on a thread, at every reading; None ends the stream with `event: gone`. `after` is the last
    position the reader has seen, None for "from now on". Data is `{"kind", "channel", "thread", "message"}` (ids or
    null), `id` the position. When not everything after `after` is kept any more: one `event: reload`, then on from now.
    """
    subscriber = StreamSubscriber()
    if not hub.subscribe(subscriber):
        yield BUSY_FRAME
        return
    try:
        yield f"retry: {RETRY_MILLISECONDS}\n: open\n\n"
        async for frame_text in _stream_frames(subscriber, access_now, after):
            yield frame_text
    finally:
        hub.unsubscribe(subscriber)


async def _stream_frames(
    subscriber: StreamSubscriber, access_now: CurrentAccess, after: int | None
) -> AsyncIterator[str]:
    batch = await hub.read(partial(start_position, access_now, after))
    last_sent_at = subscriber.loop.time()
    if batch.access is not None and not hub.has_room_for(subscriber, batch.access.participant_id):
        yield BUSY_FRAME
        return
    if batch.must_reload:
        yield f"id: {batch.position}\nevent: reload\ndata: {{}}\n\n"
    while batch.access is not None:
        subscriber.workspace_id = batch.access.workspace_id
        try:
            batch = await hub.read(partial(read_events, access_now, subscriber.workspace_id, batch.position))
        except DatabaseError as error:
            log.warning("reading events failed, trying again", error=str(error))
            await asyncio.sleep(1.0)
            continue
        for event in batch.events:  # ids, never text
            ids = {"channel": event.channel_id, "thread": event.thread_id, "message": event.message_id}
            yield f"id: {event.position}\ndata: {json.dumps({'kind': event.kind, **ids})}\n\n"
        if batch.events:
            last_sent_at = subscriber.loop.time()
        elif subscriber.loop.time() - last_sent_at >= HEARTBEAT_SECONDS:
            last_sent_at = subscriber.loop.time()
            yield ": still here\n\n"
        if batch.access is not None and not batch.has_more:
            await subscriber.wait(POLL_SECONDS)
    yield "event: gone\ndata: {}\n\n"
