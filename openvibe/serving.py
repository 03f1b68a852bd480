"""One port, two ways of serving: event streams on Django's ASGI application, everything else on its WSGI one.

A stream waits most of its life and costs a coroutine; a page is quick and runs two to three times faster in a thread.
"""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application = Callable[[Any, Any, Any], Awaitable[None]]  # libraries disagree about how to type the three

STREAM_ENDING = "/events/"


def is_stream(path: str) -> bool:
    """Whether a path is one of the event streams: `/w/<slug>/events/`, `/api/v1/events/`."""
    return path.endswith(STREAM_ENDING) and path.startswith(("/w/", "/api/"))


class Dispatcher:
    """An ASGI application that hands each request to the right one of two."""

    def __init__(self, *, streams: Application, pages: Application) -> None:
        self._streams = streams
        self._pages = pages

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _live(receive, send)
        elif is_stream(scope.get("path", "")):
            await self._streams(scope, receive, send)
        else:
            await self._pages(scope, _as_coroutine(receive), send)


def _as_coroutine(receive: Receive) -> Receive:
    """The server's `receive` gives an awaitable of its own kind; the WSGI bridge needs a coroutine to read a form."""

    async def received() -> MutableMapping[str, Any]:
        return await receive()

    return received


async def _live(receive: Receive, send: Send) -> None:
    while True:
        event = (await receive())["type"]
        await send({"type": f"{event}.complete"})
        if event == "lifespan.shutdown":
            return
