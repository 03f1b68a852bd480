"""Reads a model's stream in a thread of its own, so that who waits for its next word can look at other things."""

import queue
import threading
from collections.abc import Callable, Iterator

from django.db import connection

from openvibe.engines.llm.errors import BadAnswer
from openvibe.engines.llm.values import CallNotice, ReasoningDelta, StreamEnd, TextDelta, TextReset

STREAM_TIMEOUT = 0.3
"""Seconds between two looks at the run: a growing reply is saved this often."""

StreamEvent = TextDelta | ReasoningDelta | TextReset | CallNotice | StreamEnd
_STREAM_END = object()


def iter_with_timeout(stream: Callable[[], Iterator[StreamEvent]]) -> Iterator[list[StreamEvent]]:
    """What the stream has given since it was last looked at; nothing whenever STREAM_TIMEOUT seconds passed without.

    The stream is read in a thread of its own, which ends at the stream's next event once this iterator is closed.
    Errors of the stream are raised here; a stream that ends without `StreamEnd` raises BadAnswer.
    """
    events: queue.SimpleQueue[object] = queue.SimpleQueue()
    is_open = threading.Event()
    is_open.set()

    def read() -> None:
        try:
            for event in stream():
                events.put(event)
                if not is_open.is_set():
                    return
            events.put(_STREAM_END)
        except BaseException as error:  # handed to the caller, whatever it is
            events.put(error)
        finally:
            connection.close()  # the breaker of an endpoint that fails writes that down

    threading.Thread(target=read, name="model-stream", daemon=True).start()
    try:
        while True:
            came, end = _take_events(events)
            if came or end is None:
                yield came
            if isinstance(end, BaseException):
                raise end
            if end is not None:
                return
    finally:
        is_open.clear()


def _take_events(events: queue.SimpleQueue[object]) -> tuple[list[StreamEvent], BaseException | StreamEnd | None]:
    """What waits, at least one event unless STREAM_TIMEOUT seconds pass without; and what ends the stream."""
    came: list[StreamEvent] = []
    try:
        event = events.get(timeout=STREAM_TIMEOUT)
        while True:
            if event is _STREAM_END:
                return came, BadAnswer("The model's answer broke off without an end.")
            if isinstance(event, BaseException):
                return came, event
            came.append(event)  # type: ignore[arg-type]  # the reading thread puts nothing else
            if isinstance(event, StreamEnd):
                return came, event
            event = events.get_nowait()
    except queue.Empty:
        return came, None
