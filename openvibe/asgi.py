"""What the web server runs: `granian --interface asgi openvibe.asgi:application`.

One port, two ways of serving: event streams on Django's ASGI application, everything else on its WSGI one. A stream
waits most of its life and costs a coroutine; a page is quick and runs two to three times faster in a thread."""

import os
from collections.abc import Awaitable, Callable, MutableMapping
from typing import TYPE_CHECKING, Any, cast

from a2wsgi import WSGIMiddleware
from django.conf import settings
from django.core.asgi import get_asgi_application
from django.urls import get_resolver

from openvibe.wsgi import application as pages

if TYPE_CHECKING:
    from a2wsgi.wsgi_typing import WSGIApp

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
AsgiApplication = Callable[[Any, Any, Any], Awaitable[None]]  # libraries disagree about how to type the three


def is_stream(path: str) -> bool:
    """Whether a path is one of the event streams: `/w/<slug>/events/`, `/api/v1/events/`."""
    return path.endswith("/events/") and path.startswith(("/w/", "/api/"))


class Dispatcher:
    """An ASGI application that hands each request to the right one of two."""

    def __init__(self, *, streams: AsgiApplication, pages: AsgiApplication) -> None:
        self._streams = streams
        self._pages = pages

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _answer_lifespan(receive, send)
        elif scope.get("path") == "/healthz":
            await _answer_health(send)
        elif is_stream(scope.get("path", "")):
            await self._streams(scope, receive, send)
        else:

            async def receive_event() -> MutableMapping[str, Any]:
                # The server's `receive` gives an awaitable of its own kind; the WSGI bridge needs a coroutine.
                return await receive()

            await self._pages(scope, receive_event, send)


async def _answer_lifespan(receive: Receive, send: Send) -> None:
    while True:
        event = (await receive())["type"]
        await send({"type": f"{event}.complete"})
        if event == "lifespan.shutdown":
            return


async def _answer_health(send: Send) -> None:
    """What `openvibe.base.health` answers, without waiting for a thread."""
    headers = [(b"content-type", b"text/plain"), (b"content-length", b"3")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"ok\n"})


os.environ.setdefault("DJANGO_SETTINGS_MODULE", "openvibe.settings")

threaded_pages = WSGIMiddleware(cast("WSGIApp", pages), workers=settings.ENV.web_threads)
application = Dispatcher(streams=get_asgi_application(), pages=threaded_pages)


def warm_up() -> None:
    """Loads what the first calls would wait for, and would load at once: every view, the vocabulary, the weights."""
    from openvibe.llm.tokens import count_tokens
    from openvibe.search.spaces import BUILT_IN_EMBEDDER

    list(get_resolver().url_patterns)
    count_tokens("vocabulary")
    BUILT_IN_EMBEDDER.embed(["weights"])


warm_up()
