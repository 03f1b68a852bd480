"""The event stream: what changes for one viewer, as server-sent events.

The pages' application says who may listen, on the few threads it has; then the stream is served without it, so that
one that waits costs a coroutine, and neither a thread nor a database connection."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseBase, StreamingHttpResponse

from openvibe.chat.live.hub import hub
from openvibe.chat.live.subscriber import BUSY_FRAME, FrameFormat, StreamSubscriber
from openvibe.chat.live.viewers import Viewer

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
PagesApplication = Callable[[Any, Any, Any], Awaitable[None]]
ACCEPTED_KEY = "openvibe.accepted_stream"
EVENT_STREAM_TYPE = "text/event-stream"
STREAM_HEADERS = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no", "Content-Encoding": "identity"}
"""Nothing between here and the reader may keep or compress it."""


def parse_position(text: str) -> int | None:
    """A position as `Last-Event-ID` names it; None when it is not one."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None


@dataclass(frozen=True)
class AcceptedStream:
    viewer: Viewer
    frames: FrameFormat
    after: int | None


def accept_stream(request: HttpRequest, stream: AcceptedStream) -> HttpResponseBase:
    """A view's answer to somebody who may listen: `EventStreams` goes on from it."""
    accepted: list[AcceptedStream] | None = request.META.get("asgi.scope", {}).get(ACCEPTED_KEY)
    if accepted is None:
        return HttpResponse("Event streams need the server of `make run`.\n", status=503, content_type="text/plain")
    accepted.append(stream)
    return StreamingHttpResponse((), content_type=EVENT_STREAM_TYPE, headers=STREAM_HEADERS)


class EventStreams:
    """The ASGI application of the paths of event streams."""

    def __init__(self, pages: PagesApplication) -> None:
        self._pages = pages

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        accepted: list[AcceptedStream] = []

        async def send_answer(message: MutableMapping[str, Any]) -> None:
            if not (accepted and message["type"] == "http.response.body"):
                await send(message)

        await self._pages({**scope, ACCEPTED_KEY: accepted}, receive, send_answer)
        for stream in accepted:
            sending = asyncio.ensure_future(_send_stream(stream, send))
            leaving = asyncio.ensure_future(_wait_for_disconnect(receive))
            try:
                await asyncio.wait([sending, leaving], return_when=asyncio.FIRST_COMPLETED)
            finally:
                sending.cancel()
                leaving.cancel()
                await asyncio.gather(sending, leaving, return_exceptions=True)


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _send_stream(stream: AcceptedStream, send: Send) -> None:
    async with aclosing(event_stream(stream.viewer, stream.frames, stream.after)) as chunks:
        async for chunk in chunks:
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
    await send({"type": "http.response.body", "body": b"", "more_body": False})


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
        async for chunk in subscriber.chunks():
            yield chunk
    finally:
        hub.unsubscribe(subscriber)
        subscriber.leave()
