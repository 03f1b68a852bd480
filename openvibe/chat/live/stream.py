"""The event stream: what changes for one viewer, as server-sent events."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import partial

from django.http import HttpRequest, HttpResponseBase

from openvibe.chat.live.hub import hub
from openvibe.chat.live.subscriber import BUSY_FRAME, FrameFormat, StreamSubscriber
from openvibe.chat.live.viewers import Viewer
from openvibe.engines.serving.streams import Send, stream_response


def parse_position(text: str) -> int | None:
    """A position as `Last-Event-ID` names it; None when it is not one."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None


def event_response(request: HttpRequest, viewer: Viewer, frames: FrameFormat, after: int | None) -> HttpResponseBase:
    """The answer to somebody who may listen, as `event_stream` has it."""
    return stream_response(request, partial(_send_events, viewer, frames, after), is_endless=True)


async def _send_events(viewer: Viewer, frames: FrameFormat, after: int | None, send: Send) -> None:
    async with aclosing(event_stream(viewer, frames, after)) as chunks:
        async for chunk in chunks:
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def event_stream(viewer: Viewer, frames: FrameFormat, after: int | None) -> AsyncGenerator[bytes, None]:
    """Server-sent events after a position, until the reader leaves or loses access (`event: gone`).

    `after` is the last position the reader has seen, None for "from now on"; `id` of a frame is its position. When not
    everything after `after` is kept any more: one `event: reload`, then on from now.
    """
    subscriber = StreamSubscriber(viewer, frames)
    if not hub.subscribe(subscriber, after):
        yield BUSY_FRAME
        return
    try:
        async for chunk in subscriber.chunks():
            yield chunk
    finally:
        hub.unsubscribe(subscriber)
        subscriber.leave()
