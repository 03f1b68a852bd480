"""What the web server runs: `granian --interface asgi openvibe.asgi:application`.

One port, three ways of serving: Django's WSGI application answers everything, event streams go on from its answer in
the server's event loop, `/mcp` speaks through its SDK on the same threads. A stream waits most of its life and costs a
coroutine; a page is quick and runs two to three times faster in a thread than on Django's ASGI application."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from concurrent.futures import Executor
from contextlib import AsyncExitStack, contextmanager, suppress
from functools import partial
from importlib import import_module
from threading import current_thread, main_thread
from types import FrameType
from typing import Any

import structlog
from django.conf import settings
from django.urls import get_resolver

from openvibe.engines.llm.tokens import count_tokens
from openvibe.engines.serving.file_limit import MAX_OPEN_REQUESTS, OWN_FILES, raise_file_limit
from openvibe.engines.serving.request_body import UPLOAD_BYTES, ClientGone, Overloaded, RequestBodies
from openvibe.engines.serving.streams import STREAMS_KEY, Continuation, Send
from openvibe.engines.serving.wsgi_threads import UPLOAD_KEY, WsgiThreads
from openvibe.wsgi import application as pages

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
AsgiApplication = Callable[[Any, Any, Any], Awaitable[None]]  # libraries disagree about how to type the three
log = structlog.get_logger(__name__)


MCP_PATHS = ("/mcp", "/mcp/")
CHAT_CLIENT_PATHS = frozenset(f"/v1/{name}{slash}" for name in ("chat/completions", "responses") for slash in ("", "/"))


def is_stream(path: str) -> bool:
    """Whether a path is one of the event streams, `/w/<slug>/events/`, `/api/v1/events/`, `/healthz/events/`, or an
    agent's answer to a chat client."""
    is_events = path.endswith("/events/") and path.startswith(("/w/", "/api/", "/healthz/"))
    is_events = is_events or path == "/api/v1/events"
    return is_events or path in CHAT_CLIENT_PATHS


STOP_SECONDS = 1.0
"""What is no endless stream may go on for so long when the server is told to stop; it is killed after two."""


class ServerStop:
    """Whether the server was told to stop. It waits for answers under way then, and takes no new ones: streams that end
    by themselves never have to be ended by it."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    async def wait(self) -> None:
        await self._event.wait()

    @contextmanager
    def watch(self) -> Iterator[None]:
        """Listens for SIGTERM and SIGINT, besides the server's own handlers: an event loop hears of a signal by its
        wake-up pipe, whatever handler stands. Does nothing but in a main thread whose server has handlers."""
        signals = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
        handlers = {number: handler for number, handler in signals.items() if callable(handler)}
        if current_thread() is not main_thread() or signal.SIGTERM not in handlers:
            yield
            return
        loop = asyncio.get_running_loop()
        for number, handler in handlers.items():
            signal.signal(number, partial(self._handle, loop, handler))
            signal.siginterrupt(number, False)
        try:
            yield
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)

    def _handle(
        self, loop: asyncio.AbstractEventLoop, handler: Callable[..., object], number: int, frame: FrameType | None
    ) -> None:
        with suppress(RuntimeError):  # it has ended meanwhile
            loop.call_soon_threadsafe(self._event.set)
        handler(number, frame)


class EventStreams:
    """Has the pages' application say who may listen, on the few threads it has. What a view gave to `stream_response`
    or `deferred_response` is sent without it: what waits costs neither a thread nor a database connection."""

    def __init__(self, pages: AsgiApplication, stop: ServerStop, *, stop_seconds: float = STOP_SECONDS) -> None:
        self._pages = pages
        self._stop = stop
        self._stop_seconds = stop_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        streams: list[Continuation] = []
        deferred_head: MutableMapping[str, Any] = {}

        async def send_head(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start" and any(each.answer for each in streams):
                deferred_head.update(message)
            elif not (streams and message["type"] == "http.response.body"):
                await send(message)

        await self._pages({**scope, STREAMS_KEY: streams}, receive, send_head)
        for continuation in streams:
            sending = (
                continuation.send(send) if continuation.send else _send_deferred(continuation, deferred_head, send)
            )
            stop = asyncio.ensure_future(self._wait_for_stop(0.0 if continuation.is_endless else self._stop_seconds))
            tasks = [stop, asyncio.ensure_future(sending), asyncio.ensure_future(_wait_for_disconnect(receive))]
            try:
                done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
            if done == {stop}:
                await _end_at_stop(continuation, send)

    async def _wait_for_stop(self, seconds: float) -> None:
        await self._stop.wait()
        await asyncio.sleep(seconds)


async def _end_at_stop(continuation: Continuation, send: Send) -> None:
    """An endless stream ends as if it were whole, an answer that is not there is 503; one that had begun breaks off, so
    that nobody takes it for the whole."""
    if continuation.answer:
        headers = [(b"retry-after", b"5"), (b"content-length", b"0")]
        await send({"type": "http.response.start", "status": 503, "headers": headers})
    if continuation.answer or continuation.is_endless:
        await send({"type": "http.response.body", "body": b""})


async def _send_deferred(continuation: Continuation, head: MutableMapping[str, Any], send: Send) -> None:
    assert continuation.answer is not None
    deferred = await continuation.answer()
    headers = [(name, value) for name, value in head["headers"] if name.lower() != b"content-length"]
    length = (b"content-length", str(len(deferred.body)).encode())
    await send({**head, "status": deferred.status, "headers": [*headers, length]})
    await send({"type": "http.response.body", "body": deferred.body})


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


class McpAtFirstCall:
    """`/mcp`, loaded when it is first called: its SDK takes half a second, which no other request should wait for."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._application: AsgiApplication | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._application is None:
            load = asyncio.get_running_loop().run_in_executor(self._executor, import_module, "agents.mcp.server")
            server = await load
            self._application = self._application or server.McpApplication(self._executor)
        await self._application(scope, receive, send)


def is_bodiless(scope: Scope) -> bool:
    """Whether a request says nothing of a body; Django then reads none."""
    return scope["method"] in ("GET", "HEAD") and not any(
        name in (b"content-length", b"transfer-encoding") for name, _ in scope["headers"]
    )


class Dispatcher:
    """An ASGI application that hands each request to the right one of three."""

    def __init__(
        self,
        *,
        streams: AsgiApplication,
        pages: AsgiApplication,
        mcp: AsgiApplication,
        stop: ServerStop,
        bodies: RequestBodies | None = None,
    ) -> None:
        self._stop = stop
        self._streams = streams
        self._pages = pages
        self._mcp = mcp
        self._bodies = bodies or RequestBodies()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            with self._stop.watch():
                await _answer_lifespan(receive, send)
        elif scope.get("path") == "/healthz":
            await _answer_health(send)
        else:

            async def receive_event() -> MutableMapping[str, Any]:
                # The server's `receive` gives an awaitable of its own kind; the WSGI bridge needs a coroutine.
                return await receive()

            application = self._application_for(scope.get("path", ""))
            if application is self._mcp or is_bodiless(scope):  # the one reads its bodies without a thread
                await application(scope, receive_event, send)
            else:
                await self._answer_with_body(application, scope, receive_event, send)

    async def _answer_with_body(self, application: AsgiApplication, scope: Scope, receive: Receive, send: Send) -> None:
        async with AsyncExitStack() as kept:
            try:
                body = await kept.enter_async_context(self._bodies.read(receive))
            except ClientGone:
                return
            except Overloaded:
                await _refuse(send, 503, b"Many uploads are under way. Nothing was changed. Try again in a minute.", 60)
            except TimeoutError:
                await _refuse(send, 408, b"What you sent did not arrive in time. Nothing was changed.")
            except OSError:
                log.exception("request_body_not_kept")
                words = b"There is no room for what you sent. Nothing was changed. Try again later."
                await _refuse(send, 503, words, retry_after=60)
            else:
                await application({**scope, UPLOAD_KEY: body.size > UPLOAD_BYTES}, body.receive, send)

    def _application_for(self, path: str) -> AsgiApplication:
        if path in MCP_PATHS:
            return self._mcp
        return self._streams if is_stream(path) else self._pages


async def _answer_lifespan(receive: Receive, send: Send) -> None:
    while True:
        event = (await receive())["type"]
        await send({"type": f"{event}.complete"})
        if event == "lifespan.shutdown":
            return


async def _refuse(send: Send, status: int, words: bytes, retry_after: int | None = None) -> None:
    """Answers in words; `retry_after` in seconds."""
    headers = [(b"content-type", b"text/plain"), (b"content-length", str(len(words)).encode())]
    if retry_after is not None:
        headers.append((b"retry-after", str(retry_after).encode()))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": words})


async def _answer_health(send: Send) -> None:
    """What `openvibe.base.health` answers, without waiting for a thread."""
    headers = [(b"content-type", b"text/plain"), (b"content-length", b"3")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"ok\n"})


os.environ.setdefault("DJANGO_SETTINGS_MODULE", "openvibe.settings")


raise_file_limit(MAX_OPEN_REQUESTS + OWN_FILES)
threaded_pages = WsgiThreads(pages, threads=settings.ENV.web_threads)
mcp = McpAtFirstCall(threaded_pages.executor)
server_stop = ServerStop()
streams = EventStreams(threaded_pages, server_stop)
application = Dispatcher(streams=streams, pages=threaded_pages, mcp=mcp, stop=server_stop)


def warm_up() -> None:
    """Loads what the first calls would wait for, and would load at once: every view, the vocabulary, the weights."""
    from openvibe.engines.search.spaces import (  # reads models: only once `openvibe.wsgi` has set Django up
        BUILT_IN_EMBEDDER,
    )

    list(get_resolver().url_patterns)
    count_tokens("vocabulary")
    BUILT_IN_EMBEDDER.embed(["weights"])


warm_up()
