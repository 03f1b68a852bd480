"""One stream that waits in its own event loop: what is to be sent to it, and how it ends."""

import asyncio
import random
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

from openvibe.chat.live.batch import EventBatch, LiveEvent
from openvibe.chat.live.typing import TypingNote
from openvibe.chat.live.viewers import Viewer

RETRY_MILLISECONDS = (1000, 4000)
"""The bounds of the pause after which a reader whose stream broke comes back: not all of them at once."""
HEARTBEAT_SECONDS = 15.0
"""Pages take a server for lost that was silent for longer than two of them (`SILENCE` in stream.js)."""
MAX_QUEUED_BYTES = 4_000_000
"""What waits for a reader that takes nothing; its stream ends then, and goes on where it was when it comes back."""
REPLAY_SECONDS = 5.0
"""The pause after which what a stream missed is asked for again, because nothing came."""
END_SECONDS = 2.0
"""How long a reader without access has to take the last frame."""
OPEN_FRAME = b"retry: %d\nid: %d\n: open\n\n"
"""The first frame, which says from where it goes on: a reader whose stream breaks before the first event goes on from
there, too."""
POSITION_LINE = b"id: %d\n"
"""Says with a sign of life how far a reader was told, though all of that was for others."""
BUSY_FRAME = b"retry: 30000\nevent: busy\ndata: {}\n\n"
GONE_FRAME = b"event: gone\ndata: {}\n\n"
HEARTBEAT_FRAME = b": still here\n\n"
"""A comment: programs need not know of it."""
RELOAD_FRAME = b"id: %d\nevent: reload\ndata: {}\n\n"


class FrameFormat(Protocol):
    """What the readers of one door get of an event. A hashable value: those that are equal share their frames.

    `heartbeat`: what is sent at once, so that a page sees that nothing holds its stream back, and again wherever there
    was nothing to send for a while."""

    heartbeat: ClassVar[bytes]

    def shows(self, event: LiveEvent) -> bool:
        """Whether a frame of it may hold the message in full."""
        ...

    def frame(self, event: LiveEvent, viewer: Viewer, batch: EventBatch) -> bytes:
        """The frame for this viewer, who sees the event; empty when there is nothing to tell."""
        ...

    def presence_frame(self, here: frozenset[int], viewer: Viewer) -> bytes:
        """The frame of who is here now, for this viewer; empty where that is not told."""
        ...

    def typing_frame(self, note: TypingNote) -> bytes:
        """The frame of who is writing in a thread that the viewer sees; empty where that is not told."""
        ...


@dataclass(eq=False)
class StreamSubscriber:
    """`opened_at`: after which event it was to begin; `position`: up to which it was told; `told_here`: who it was told
    is here. `put` and `end` are called by the reader."""

    viewer: Viewer
    format: FrameFormat
    position: int = 0
    opened_at: int = 0
    is_joined: bool = False
    is_open: bool = False
    is_live: bool = False
    is_ended: bool = False
    has_left: bool = False
    told_here: frozenset[int] | None = None
    is_asked: bool = False
    """Whether it was told that its participant is meant, since that was last noted of its token."""
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)
    task: asyncio.Task[object] | None = field(default_factory=asyncio.current_task)
    wakeup: asyncio.Event = field(default_factory=asyncio.Event)
    replay_soon: Callable[[], None] = field(init=False)
    _queue: deque[bytes] = field(default_factory=deque)
    _queued_bytes: int = 0
    _cancellation: asyncio.TimerHandle | None = None

    @property
    def has_news(self) -> bool:
        return bool(self._queue) or self.is_ended or not (self.is_live and self.is_open)

    def put(self, frames: bytes) -> None:
        if not frames or self.is_ended:
            return
        self._queue.append(frames)
        self._queued_bytes += len(frames)
        if self.is_live and self._queued_bytes > MAX_QUEUED_BYTES:
            self.end()

    def end_access(self) -> None:
        self.end(GONE_FRAME, END_SECONDS)

    def end(self, last_frame: bytes = b"", seconds: float = 0.0) -> None:
        """Nothing of what waits is sent any more."""
        if self.is_ended:
            return
        self.is_ended = True
        self._queue.clear()
        if last_frame:
            self._queue.append(last_frame)
        with suppress(RuntimeError):  # its loop has ended meanwhile
            self.loop.call_soon_threadsafe(self._end_soon, seconds)

    def _end_soon(self, seconds: float) -> None:
        """A stream whose reader takes nothing stands in the middle of a write: only a cancellation ends it."""
        self.wakeup.set()
        if self.task and not self.has_left:
            self._cancellation = self.loop.call_later(seconds, self.task.cancel)

    def leave(self) -> None:
        self.is_ended = self.has_left = True
        if self._cancellation:
            self._cancellation.cancel()

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """What is to be sent, as it comes, until the stream has ended; first, that nothing is missed from here."""
        while not (self.is_joined or self.is_ended):
            await self.wait(REPLAY_SECONDS)
        self.is_open = True
        yield OPEN_FRAME % (random.randint(*RETRY_MILLISECONDS), self.opened_at) + self.format.heartbeat
        while True:
            if self._queue:
                self._queued_bytes = 0
                yield b"".join(self._queue.popleft() for _ in range(len(self._queue)))
            elif self.is_ended:
                return
            elif not self.is_live:
                self.replay_soon()
                await self.wait(REPLAY_SECONDS)
            elif not await self.wait(HEARTBEAT_SECONDS):
                position = self.position
                if not self._queue and not self.is_ended:  # what was put, or cleared, before the position was read
                    yield POSITION_LINE % position + self.format.heartbeat

    async def wait(self, seconds: float) -> bool:
        """Whether something came in time."""
        # Not `wait_for`: in Python 3.11 it loses a cancellation that comes with the bell, and the stream never ends.
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.wakeup.wait()
        rung = self.wakeup.is_set()
        self.wakeup.clear()
        return rung
