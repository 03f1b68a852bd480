"""The event stream: what changes for one viewer, as server-sent events."""

import random
from collections.abc import AsyncIterator

from openvibe.chat.live.hub import hub
from openvibe.chat.live.subscriber import BUSY_FRAME, OPEN_FRAME, RETRY_MILLISECONDS, FrameFormat, StreamSubscriber
from openvibe.chat.live.viewers import Viewer


def parse_position(text: str) -> int | None:
    """A position as `Last-Event-ID` names it; None when it is not one."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None


async def event_stream(viewer: Viewer, frames: FrameFormat, after: int | None) -> AsyncIterator[bytes]:
    """Server-sent events after a position, until the reader leaves or loses access (`event: gone`).

    `after` is the last position the reader has seen, None for "from now on"; `id` of a frame is its position. When not
    everything after `after` is kept any more: one `event: reload`, then on from now.
    """
    subscriber = StreamSubscriber(viewer, frames)
    if not hub.subscribe(subscriber, after):
        yield BUSY_FRAME
        return
    try:
        yield OPEN_FRAME % random.randint(*RETRY_MILLISECONDS)
        async for chunk in subscriber.chunks():
            yield chunk
    finally:
        hub.unsubscribe(subscriber)
        subscriber.leave()
