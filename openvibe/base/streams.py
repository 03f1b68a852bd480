"""Answers that go on after Django has given theirs: a view says how, and the server's event loop sends it."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseBase, StreamingHttpResponse

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
SendStream = Callable[[Send], Awaitable[None]]
STREAMS_KEY = "openvibe.streams"
"""In the ASGI scope: the list that takes what is sent after the head of the answer."""
EVENT_STREAM_TYPE = "text/event-stream"
STREAM_HEADERS = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no", "Content-Encoding": "identity"}
"""Nothing between here and the reader may keep or compress it."""


def stream_response(request: HttpRequest, send_stream: SendStream) -> HttpResponseBase:
    """The head of a stream of server-sent events; `send_stream` sends its body. 503 under a server without streams."""
    streams: list[SendStream] | None = request.META.get("asgi.scope", {}).get(STREAMS_KEY)
    if streams is None:
        return HttpResponse("Event streams need the server of `make run`.\n", status=503, content_type="text/plain")
    streams.append(send_stream)
    return StreamingHttpResponse((), content_type=EVENT_STREAM_TYPE, headers=STREAM_HEADERS)
