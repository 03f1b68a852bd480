"""Reading a model's stream without being held up by it: the caller gets a turn at least every TICK seconds."""

import queue
import threading
from collections.abc import Callable, Iterator

from openvibe.llm.errors import BadAnswer
from openvibe.llm.values import Finished, TextDelta

TICK = 0.3
"""Seconds between two turns of the caller: a growing reply is saved this often."""

Said = TextDelta | Finished
_END = object()


def ticking(stream: Callable[[], Iterator[Said]], *, tick: float = TICK) -> Iterator[Said | None]:
    """What the stream gives, and None whenever `tick` seconds passed without anything.

    The stream is read in a thread of its own, which ends at the stream's next word once this iterator is closed.
    Errors of the stream are raised here; a stream that ends without `Finished` raises BadAnswer.
    """
    said: queue.SimpleQueue[object] = queue.SimpleQueue()
    wanted = threading.Event()
    wanted.set()

    def read() -> None:
        try:
            for event in stream():
                said.put(event)
                if not wanted.is_set():
                    return
            said.put(_END)
        except BaseException as error:  # handed to the caller, whatever it is
            said.put(error)

    threading.Thread(target=read, name="model-stream", daemon=True).start()
    try:
        while True:
            try:
                event = said.get(timeout=tick)
            except queue.Empty:
                yield None
                continue
            if event is _END:
                raise BadAnswer("The model's answer broke off without an end.")
            if isinstance(event, BaseException):
                raise event
            yield event  # type: ignore[misc]
            if isinstance(event, Finished):
                return
    finally:
        wanted.clear()
