"""Answers that go on after Django has given theirs: a view says how, and the server's event loop sends it."""

from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseBase, StreamingHttpResponse

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
SendStream = Callable[[Send], Awaitable[None]]
STREAMS_KEY = "openvibe.streams"
"""The key in the ASGI scope: the list that takes what is sent after the head of the answer."""
EVENT_STREAM_TYPE = "text/event-stream"
STREAM_HEADERS = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no", "Content-Encoding": "identity"}
"""Nothing between here and the reader may keep or compress it."""


@dataclass(frozen=True)
class DeferredAnswer:
    """An answer that is whole only after a while."""

    status: int
    body: bytes


@dataclass(frozen=True)
class Continuation:
    """What is sent after the view has answered: the body, or, with `answer`, an answer in place of the view's.

    A body that `is_endless` ends when the server is told to stop: whoever listens comes back.
    """

    send: SendStream | None = None
    answer: Callable[[], Awaitable[DeferredAnswer]] | None = None
    is_endless: bool = False


def deferred_response(request: HttpRequest, answer: Callable[[], Awaitable[DeferredAnswer]]) -> HttpResponseBase:
    """An answer of JSON that costs no thread while it is waited for; its headers are this one's. 503 as below."""
    return _with_stream(request, Continuation(answer=answer)) or HttpResponse(content_type="application/json")


def _with_stream(request: HttpRequest, continuation: Continuation) -> HttpResponseBase | None:
    streams: list[Continuation] | None = request.META.get("asgi.scope", {}).get(STREAMS_KEY)
    if streams is None:
        return HttpResponse("Event streams need the server of `make run`.\n", status=503, content_type="text/plain")
    streams.append(continuation)
    return None


def stream_response(request: HttpRequest, send_stream: SendStream, *, is_endless: bool = False) -> HttpResponseBase:
    """The head of a stream of server-sent events; `send_stream` sends its body. 503 under a server without streams."""
    refusal = _with_stream(request, Continuation(send=send_stream, is_endless=is_endless))
    return refusal or StreamingHttpResponse((), content_type=EVENT_STREAM_TYPE, headers=STREAM_HEADERS)
