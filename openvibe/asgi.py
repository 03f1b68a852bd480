"""What the web server runs: `granian --interface asgi openvibe.asgi:application`.

One port, two ways of serving: Django's WSGI application answers everything, event streams go on from its answer in the
server's event loop. A stream waits most of its life and costs a coroutine; a page is quick and runs two to three times
faster in a thread than on Django's ASGI application."""

import asyncio
import os
from collections.abc import Awaitable, Callable, MutableMapping
from typing import TYPE_CHECKING, Any, cast

from a2wsgi import WSGIMiddleware
from django.conf import settings
from django.urls import get_resolver

from openvibe.base.streams import STREAMS_KEY, Send, SendStream
from openvibe.wsgi import application as pages

if TYPE_CHECKING:
    from a2wsgi.wsgi_typing import WSGIApp

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
AsgiApplication = Callable[[Any, Any, Any], Awaitable[None]]  # libraries disagree about how to type the three


def is_stream(path: str) -> bool:
    """Whether a path is one of the event streams: `/w/<slug>/events/`, `/api/v1/events/`."""
    return (path.endswith("/events/") and path.startswith(("/w/", "/api/"))) or path == "/api/v1/events"


class EventStreams:
    """Has the pages' application say who may listen, on the few threads it has. What a view gave to `stream_response`
    is sent without it: a stream that waits costs neither a thread nor a database connection."""

    def __init__(self, pages: AsgiApplication) -> None:
        self._pages = pages

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        streams: list[SendStream] = []

        async def send_head(message: MutableMapping[str, Any]) -> None:
            if not (streams and message["type"] == "http.response.body"):
                await send(message)

        await self._pages({**scope, STREAMS_KEY: streams}, receive, send_head)
        for send_stream in streams:
            tasks = [asyncio.ensure_future(send_stream(send)), asyncio.ensure_future(_wait_for_disconnect(receive))]
            try:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


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
        else:

            async def receive_event() -> MutableMapping[str, Any]:
                # The server's `receive` gives an awaitable of its own kind; the WSGI bridge needs a coroutine.
                return await receive()

            application = self._streams if is_stream(scope.get("path", "")) else self._pages
            await application(scope, receive_event, send)


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
application = Dispatcher(streams=EventStreams(threaded_pages), pages=threaded_pages)


def warm_up() -> None:
    """Loads what the first calls would wait for, and would load at once: every view, the vocabulary, the weights."""
    from openvibe.llm.tokens import count_tokens
    from openvibe.search.spaces import BUILT_IN_EMBEDDER

    list(get_resolver().url_patterns)
    count_tokens("vocabulary")
    BUILT_IN_EMBEDDER.embed(["weights"])


warm_up()
