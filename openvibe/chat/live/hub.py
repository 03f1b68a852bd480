"""One hub per process: it listens while anybody does, reads what is new in a workspace once, and hands everybody's
frames to their streams.

Rows of `base.Event` are the truth, read by position; PostgreSQL's NOTIFY is only the wake-up, a read every few seconds
the fallback. A batch, what its frames show and who may see it are read in one snapshot: whatever a frame holds was
written before anything that took access from its reader, or the reader does not get it. One thread listens, one
reads, each with one database connection; both end with the last stream."""

import asyncio
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from math import inf

import psycopg
import structlog
from django.db import DatabaseError, close_old_connections, connection, transaction
from django.db.models import Max, Min

from openvibe.api.auth import LAST_USED_INTERVAL
from openvibe.api.services import note_tokens_used
from openvibe.base.models import Event
from openvibe.chat.live.batch import EventBatch, LiveEvent, read_batch
from openvibe.chat.live.growing import ReplyProgress
from openvibe.chat.live.subscriber import RELOAD_FRAME, FrameFormat, StreamSubscriber
from openvibe.chat.live.typing import TYPING_CHANNEL, read_typing_note
from openvibe.chat.live.viewers import ACCESS_KINDS, Viewer, refresh_viewers
from openvibe.engines.serving.file_limit import open_file_limit
from openvibe.engines.serving.logs import LogThrottle
from openvibe.workspaces.queries import here_by_workspace
from openvibe.workspaces.services import NOTE_SECONDS, note_presence

POLL_SECONDS = 5.0
REFRESH_SECONDS = 2.0
"""How often it is asked who may still listen."""
PRESENCE_POLL_SECONDS = 15.0
"""How often it is asked who is here, in other processes too."""
RECONNECT_SECONDS = 1.0
"""How long the listener waits before it connects anew."""
STOP_CHECK_SECONDS = 0.5
"""How long the listener goes on at most after the last stream."""
REPLAYED_BYTES = 1_000_000
"""The number of bytes, about, that a stream is given at a time of what it missed; it asks for more once that is
sent."""
MAX_STREAMS = 2000
"""The most streams in one web process, and no more than half of the files it may have open: pages want connections,
too."""
FULL_LOG_SECONDS = 60.0
"""How often at most the log says that there is no room for another stream."""
MAX_STREAMS_PER_PARTICIPANT = 40  # tabs of one person, or processes of one agent, in one web process
log = structlog.get_logger(__name__)


@contextmanager
def _snapshot() -> Iterator[None]:
    """All reads inside see the database as it is at the first of them."""
    close_old_connections()
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        yield


class EventReader:
    """Reads for the streams of one process, on a thread of its own. `submit`, `stop` and what ends in `_soon` may be
    called from elsewhere."""

    def __init__(self) -> None:
        self.stop_event = threading.Event()
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="event-reader")
        self._feeds: dict[int, WorkspaceFeed] = {}
        self._due: set[int] = set()
        self._joining: deque[tuple[StreamSubscriber, int | None]] = deque()
        self._noted_at: dict[int, float] = {}
        self._token_noted_at: dict[int, float] = {}
        self._next_presence = 0.0

    def submit(self, work: Callable[..., None], *values: object) -> None:
        with suppress(RuntimeError):  # the last stream has ended, or the interpreter is shutting down
            self._executor.submit(self._run, work, *values)

    def stop(self) -> None:
        self.stop_event.set()
        self.submit(lambda: connection.close())  # there, not here: each thread has its own
        self._executor.shutdown(wait=False)

    def _run(self, work: Callable[..., None], *values: object) -> None:
        try:
            work(*values)
        except Exception as error:  # the next poll tries again
            log.warning("reading events failed, trying again", error=str(error), exc_info=True)

    def read_soon(self, workspace_id: int) -> None:
        """Reads what is new there; once for any number of wake-ups that come meanwhile."""
        if workspace_id not in self._due:
            self._due.add(workspace_id)
            self.submit(self._read_news, workspace_id)

    def read_all_soon(self) -> None:
        for workspace_id in list(self._feeds):
            self.read_soon(workspace_id)

    def _read_news(self, workspace_id: int) -> None:
        self._due.discard(workspace_id)
        feed = self._feeds.get(workspace_id)
        while feed and feed.read_news():
            pass

    def join_soon(self, subscriber: StreamSubscriber, after: int | None) -> None:
        """Says where a stream starts: now when `after` is None; now, and reload, when what follows is not all kept.
        Those that come at once are asked for together."""
        self._joining.append((subscriber, after))
        self.submit(self._join_waiting)

    def _join_waiting(self) -> None:
        joining = [self._joining.popleft() for _ in range(len(self._joining))]
        subscribers = [subscriber for subscriber, _ in joining]
        try:
            with _snapshot():
                _refresh(subscribers)
                workspace_ids = {subscriber.viewer.workspace_id for subscriber in subscribers}
                positions = {workspace_id: _retained_positions(workspace_id) for workspace_id in workspace_ids}
                for subscriber, after in joining:
                    self._join(subscriber, after, *positions[subscriber.viewer.workspace_id])
        except Exception:
            for subscriber in subscribers:
                subscriber.end()  # its reader comes back
            raise
        _wake(subscribers)
        self._tell_presence()

    def _join(self, subscriber: StreamSubscriber, after: int | None, first: int, last: int) -> None:
        is_kept = after in (0, None) or first <= after <= last or Event.objects.filter(position=after).exists()
        workspace_id = subscriber.viewer.workspace_id
        feed = self._feeds.setdefault(workspace_id, WorkspaceFeed(workspace_id, last))
        subscriber.opened_at = last if after is None else after
        subscriber.position = subscriber.opened_at if is_kept else last
        if not is_kept:
            subscriber.put(RELOAD_FRAME % last)
        subscriber.is_live = subscriber.position >= feed.position
        feed.subscribers.add(subscriber)
        subscriber.is_joined = True

    def replay(self, subscriber: StreamSubscriber) -> None:
        """The next batch of what a stream missed. Afterwards it is live, or has something to send."""
        if feed := self._feeds.get(subscriber.viewer.workspace_id):
            feed.replay(subscriber)

    def leave(self, subscriber: StreamSubscriber) -> None:
        if feed := self._feeds.get(subscriber.viewer.workspace_id):
            feed.subscribers.discard(subscriber)
            if not feed.subscribers:
                del self._feeds[feed.workspace_id]

    def tell_typing(self, payload: str) -> None:
        """Tells the pages that show the thread to others who see it that somebody is writing there."""
        note = read_typing_note(payload)
        feed, event, frames = self._feeds.get(note.workspace_id), note.as_event(), {}
        for subscriber in feed.subscribers if feed else ():
            viewer = subscriber.viewer
            if viewer.participant_id != note.participant_id and subscriber.is_live and viewer.sees(event):
                frames[subscriber] = subscriber.format.typing_frame(note)
        _put(frames)

    def refresh_all(self) -> None:
        """Streams of those who may not listen any more end; others see what they may see now."""
        with _snapshot():
            _refresh([subscriber for feed in self._feeds.values() for subscriber in feed.subscribers])
        self._note_tokens()
        self._tell_presence()

    def _note_tokens(self) -> None:
        """Notes that programs listen: of each token once a minute, and once it was told that it is meant."""
        now, asked_ids, open_ids = time.monotonic(), set[int](), set[int]()
        for subscriber in (one for feed in self._feeds.values() for one in feed.subscribers):
            token_id = subscriber.viewer.token_id
            if token_id is None or subscriber.viewer.access is None:
                continue
            open_ids.add(token_id)
            if subscriber.is_asked:
                asked_ids.add(token_id)
                subscriber.is_asked = False
        interval = LAST_USED_INTERVAL.total_seconds()
        due_ids = asked_ids | {pk for pk in open_ids if self._token_noted_at.get(pk, -inf) + interval <= now}
        if due_ids:
            note_tokens_used(due_ids, at_once=asked_ids)
        self._token_noted_at = {pk: now if pk in due_ids else self._token_noted_at[pk] for pk in open_ids}

    def _tell_presence(self) -> None:
        """Notes who has a page open in this process, and tells all pages who is here where that has changed."""
        now = time.monotonic()
        open_pages = {
            one.viewer.participant_id
            for feed in self._feeds.values()
            for one in feed.subscribers
            if one.viewer.session_key is not None and one.viewer.access is not None
        }
        participant_ids = {pk for pk in open_pages if self._noted_at.get(pk, -inf) + NOTE_SECONDS <= now}
        if not participant_ids and now < self._next_presence:
            return
        note_presence(participant_ids)
        self._noted_at = {pk: now if pk in participant_ids else self._noted_at[pk] for pk in open_pages}
        self._next_presence = now + PRESENCE_POLL_SECONDS
        here = here_by_workspace(self._feeds)
        _put({one: frame for feed in self._feeds.values() for one, frame in feed.presence_frames(here)})


def _retained_positions(workspace_id: int) -> tuple[int, int]:
    """The positions of the first and the last event that is kept; 0 without any."""
    positions = Event.objects.filter(workspace_id=workspace_id).aggregate(first=Min("position"), last=Max("position"))
    return positions["first"] or 0, positions["last"] or 0


class WorkspaceFeed:
    """The streams of one workspace, and up to which event those that are live were told."""

    def __init__(self, workspace_id: int, position: int) -> None:
        self.workspace_id = workspace_id
        self.position = position
        self.subscribers: set[StreamSubscriber] = set()
        self._progress: dict[int, ReplyProgress] = {}

    def presence_frames(self, here: Mapping[int, frozenset[int]]) -> Iterator[tuple[StreamSubscriber, bytes]]:
        """Frames for those who were last told something else."""
        now_here = here[self.workspace_id]
        for subscriber in self.subscribers:
            if subscriber.told_here != now_here:
                subscriber.told_here = now_here
                yield subscriber, subscriber.format.presence_frame(now_here, subscriber.viewer)

    def read_news(self) -> bool:
        """Tells everybody what is new; returns whether there is more."""
        try:
            batch = self._tell_news()
        except Exception as error:  # what cannot be shown must not hold up what follows
            log.warning("making frames failed, sending ids", error=str(error), exc_info=True)
            batch = self._tell_news(ids_only=True)
        self.position, self._progress = batch.position, batch.progress
        return batch.has_more

    def _tell_news(self, *, ids_only: bool = False) -> EventBatch:
        frames: dict[StreamSubscriber, bytes] = {}
        with _snapshot():
            batch = read_batch(self.workspace_id, after=self.position)
            batch.progress, batch.ids_only = dict(self._progress), ids_only
            if batch.events:
                self._refresh_changed(batch)
                live, first = [each for each in self.subscribers if each.is_live], batch.events[0].position
                frames = _make_frames(batch, [each for each in live if each.position < first])
                frames |= self._make_rest(batch, [each for each in live if each.position >= first])
        _put(frames)
        for subscriber in frames:  # after its frames: a sign of life tells how far it was told
            subscriber.position = batch.position
        return batch

    def _make_rest(self, batch: EventBatch, subscribers: Collection[StreamSubscriber]) -> dict[StreamSubscriber, bytes]:
        """Makes the frames for those who joined in the midst of the batch: what is the first of a message may have been
        before."""
        frames: dict[StreamSubscriber, bytes] = {}
        for after in {subscriber.position for subscriber in subscribers if subscriber.position < batch.position}:
            rest = read_batch(self.workspace_id, after=after, until=batch.position)
            rest.ids_only = batch.ids_only
            frames |= _make_frames(rest, [subscriber for subscriber in subscribers if subscriber.position == after])
        return frames

    def _refresh_changed(self, batch: EventBatch) -> None:
        """Asks again who may see what has changed in this snapshot: also by an event that stands behind the batch."""
        changes = [(event.kind, event.participant_id) for event in batch.events if event.kind in ACCESS_KINDS]
        if batch.has_more:
            later = Event.objects.filter(workspace_id=self.workspace_id, position__gt=batch.position)
            changes += later.filter(kind__in=ACCESS_KINDS).values_list("kind", "participant_id")
        ids = {participant for kind, participant in changes if kind == "access_changed"}
        is_for_everybody = any(kind != "access_changed" for kind, _ in changes)
        _refresh([one for one in self.subscribers if is_for_everybody or one.viewer.participant_id in ids])

    def replay(self, subscriber: StreamSubscriber) -> None:
        if subscriber.is_live or subscriber.is_ended:
            return
        position, missed_frames = subscriber.position, b""
        with _snapshot():
            _refresh([subscriber])
            if position < self.position and not subscriber.is_ended:
                batch = read_batch(self.workspace_id, after=position, until=self.position)
                position, missed_frames = _make_some(batch, subscriber)
                if position == batch.position and not batch.has_more:
                    position = self.position
        subscriber.put(missed_frames)
        subscriber.position, subscriber.is_live = position, position >= self.position
        _wake([subscriber])


def _refresh(subscribers: Collection[StreamSubscriber]) -> None:
    if not subscribers:
        return
    refresh_viewers([subscriber.viewer for subscriber in subscribers])
    for subscriber in subscribers:
        if subscriber.viewer.access is None:
            subscriber.end_access()


def _make_frames(batch: EventBatch, subscribers: Collection[StreamSubscriber]) -> dict[StreamSubscriber, bytes]:
    """Makes for each the frames of what they may see, in the snapshot of the batch."""
    _prepare(batch, {subscriber.format for subscriber in subscribers})
    return {each: b"".join(frame for _, frame in _frames(batch, each)) for each in subscribers}


def _make_some(batch: EventBatch, subscriber: StreamSubscriber) -> tuple[int, bytes]:
    """Makes for one the frames of what it may see, as many as may wait for it, and up to which position that is."""
    _prepare(batch, {subscriber.format})
    frames, size = [], 0
    for position, frame in _frames(batch, subscriber):
        frames.append(frame)
        size += len(frame)
        if size > REPLAYED_BYTES:
            return position, b"".join(frames)
    return batch.position, b"".join(frames)


def _put(frames: Mapping[StreamSubscriber, bytes]) -> None:
    """Puts the frames in line, once the snapshot is over: where its end fails, the batch is read again, and nobody was
    told of it yet."""
    for subscriber, frame in frames.items():
        subscriber.put(frame)
    _wake(frames)


def _frames(batch: EventBatch, subscriber: StreamSubscriber) -> Iterator[tuple[int, bytes]]:
    for event in batch.events:
        if subscriber.viewer.sees(event):
            subscriber.is_asked |= subscriber.viewer.token_id is not None and _is_meant(event, subscriber.viewer)
            yield event.position, subscriber.format.frame(event, subscriber.viewer, batch)


def _is_meant(event: LiveEvent, viewer: Viewer) -> bool:
    """Whether the event asks the viewer for an answer: by name, or for itself alone."""
    is_named = event.message is not None and viewer.participant_id in event.message.named
    return event.kind == "run_requested" or (event.kind == "message_posted" and is_named)


def _prepare(batch: EventBatch, formats: Collection[FrameFormat]) -> None:
    """Marks the messages that are shown in full."""
    wanted_ids = {
        event.message_id
        for event in batch.events
        if event.message_id is not None and any(each.shows(event) for each in formats)
    }
    batch.wanted_ids = frozenset(wanted_ids)
    for event in batch.events:
        if event.message_id not in wanted_ids:  # nobody was told of its words
            batch.progress.pop(event.message_id or 0, None)


def _wake(subscribers: Collection[StreamSubscriber]) -> None:
    by_loop: defaultdict[asyncio.AbstractEventLoop, list[StreamSubscriber]] = defaultdict(list)
    for subscriber in subscribers:
        by_loop[subscriber.loop].append(subscriber)
    for loop, those in by_loop.items():
        with suppress(RuntimeError):  # its loop has ended meanwhile
            loop.call_soon_threadsafe(partial(_set_wakeups, those))


def _set_wakeups(subscribers: Collection[StreamSubscriber]) -> None:
    for subscriber in subscribers:
        if subscriber.has_news:
            subscriber.wakeup.set()


def max_streams() -> int:
    return min(MAX_STREAMS, open_file_limit() // 2)


class EventHub:
    """Takes streams in, and keeps a reader and a listener while there are any."""

    def __init__(self) -> None:
        self._full_log = LogThrottle(FULL_LOG_SECONDS)
        self._lock = threading.Lock()
        self._subscribers: set[StreamSubscriber] = set()
        self._reader: EventReader | None = None

    def subscribe(self, subscriber: StreamSubscriber, after: int | None) -> bool:
        """Takes a stream in; False when there are too many, in all or of this participant."""
        participant_id = subscriber.viewer.participant_id
        with self._lock:
            own = sum(one.viewer.participant_id == participant_id for one in self._subscribers)
            is_full = len(self._subscribers) >= max_streams()
            if is_full:
                self._log_full()
            if is_full or own >= MAX_STREAMS_PER_PARTICIPANT:
                return False
            self._subscribers.add(subscriber)
            if self._reader is None:
                self._reader = EventReader()
                threading.Thread(target=_listen, args=(self._reader,), name="event-listener", daemon=True).start()
            reader = self._reader
        subscriber.replay_soon = partial(reader.submit, reader.replay, subscriber)
        reader.join_soon(subscriber, after)
        return True

    def _log_full(self) -> None:
        if self._full_log.is_due("event_streams_full"):
            log.warning("event_streams_full", streams=len(self._subscribers), open_file_limit=open_file_limit())

    def unsubscribe(self, subscriber: StreamSubscriber) -> None:
        """The last one out closes both connections."""
        with self._lock:
            self._subscribers.discard(subscriber)
            reader, is_last = self._reader, not self._subscribers
            if is_last:
                self._reader = None
        if reader:
            reader.submit(reader.leave, subscriber)
            if is_last:
                reader.stop()


def _listen(reader: EventReader) -> None:
    while not reader.stop_event.is_set():
        try:
            connection.ensure_connection()
            wire = connection.connection
            wire.execute("LISTEN openvibe_events")
            wire.execute(f"LISTEN {TYPING_CHANNEL}")
            next_poll = next_refresh = 0.0  # something may have happened before
            while not reader.stop_event.is_set():
                now = time.monotonic()
                if now >= next_poll:
                    next_poll = now + POLL_SECONDS
                    reader.read_all_soon()
                if now >= next_refresh:
                    next_refresh = now + REFRESH_SECONDS
                    reader.submit(reader.refresh_all)
                for notification in wire.notifies(timeout=STOP_CHECK_SECONDS):
                    if notification.channel == TYPING_CHANNEL:
                        reader.submit(reader.tell_typing, notification.payload)
                    else:
                        reader.read_soon(int(notification.payload.partition(":")[0]))
        except (DatabaseError, psycopg.Error, OSError) as error:
            log.warning("listening for events failed, trying again", error=str(error))
            reader.stop_event.wait(RECONNECT_SECONDS)
        finally:
            connection.close()


hub = EventHub()
