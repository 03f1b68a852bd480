"""Runs a WSGI application on a few threads, for an ASGI server.

An answer crosses from its thread to the event loop once it is made, and its thread is free before it is sent: however
slowly somebody reads, the others have their pages. What is streamed is made whole first, in memory as long as it is
small; of what is larger a thread reads one block at a time, when the one before has been sent."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, nullcontext
from contextvars import copy_context
from tempfile import SpooledTemporaryFile
from typing import Any, NamedTuple, Protocol, cast

from a2wsgi.wsgi import Body, build_environ
from django.http import FileResponse, HttpRequest, StreamingHttpResponse
from django.http.response import HttpResponseBase

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
WsgiApplication = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


BLOCK_BYTES = 1024 * 1024
"""What is sent at once of something streamed, and kept in memory for each reader."""


UPLOAD_KEY = "openvibe.is_upload"
"""The key in the scope of a request: whether its body is large."""


class BinaryFile(Protocol):
    def read(self, size: int, /) -> bytes: ...


class WsgiResponse(NamedTuple):
    """The head of an answer, how its body begins and, where that is not all, the file that holds what follows; `close`
    is called in the end."""

    head: Message
    beginning: bytes
    rest: BinaryFile | None = None
    close: Callable[[], object] = lambda: None


class WholeStreamMiddleware:
    """Makes what is streamed whole, in a file, before its head is sent: what fails on the way, as where the database
    ends, is answered like every other failure."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        if isinstance(response, StreamingHttpResponse) and not isinstance(response, FileResponse):
            with ExitStack() as open_on_failure:
                file = open_on_failure.enter_context(SpooledTemporaryFile(max_size=BLOCK_BYTES))
                for piece in response:  # `writelines` looks at the size only in the end
                    file.write(piece)
                file.seek(0)
                open_on_failure.pop_all()
            response.streaming_content = file  # closed with it
            vars(response)["file_to_stream"] = file
        return response


class WsgiThreads:
    """An ASGI application that answers HTTP requests with Django's WSGI application; those that are large
    have a `file_to_stream`. `receive` must give coroutines.

    Of four threads one at most answers uploads; further ones wait their turn. Else fifty of them would have all threads
    for as long as they take together."""

    def __init__(self, application: WsgiApplication, *, threads: int) -> None:
        self._application = application
        self._upload_places = asyncio.Semaphore(max(threads // 4, 1))
        self.executor = ThreadPoolExecutor(thread_name_prefix="WSGI", max_workers=threads)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        loop = asyncio.get_running_loop()
        events: Any = receive
        environ = _environ(scope, Body(loop, events))
        async with self._upload_places if scope.get(UPLOAD_KEY) else nullcontext():
            answer = await loop.run_in_executor(self.executor, copy_context().run, self._answer, environ)
        block = answer.beginning
        try:
            await send(answer.head)
            while answer.rest and block:
                await send({"type": "http.response.body", "body": block, "more_body": True})
                block = await loop.run_in_executor(self.executor, answer.rest.read, BLOCK_BYTES)
            await send({"type": "http.response.body", "body": block})
        finally:
            if answer.rest:
                self.executor.submit(answer.close)

    def _answer(self, environ: dict[str, Any]) -> WsgiResponse:
        head: Message = {"type": "http.response.start"}

        def start_response(status: str, headers: Iterable[tuple[str, str]], exc_info: object = None) -> None:
            head["status"] = int(status[:3])
            head["headers"] = [(name.lower().encode("latin1"), value.encode("latin1")) for name, value in headers]

        with ExitStack() as open_until_sent:
            answer: Any = self._application(environ, start_response)
            open_until_sent.callback(answer.close)
            file: BinaryFile | None = getattr(answer, "file_to_stream", None)
            if file is None:
                return WsgiResponse(head, b"".join(answer))
            beginning = file.read(BLOCK_BYTES)
            if len(beginning) < BLOCK_BYTES:
                return WsgiResponse(head, beginning)
            return WsgiResponse(head, beginning, file, open_until_sent.pop_all().close)


def _environ(scope: Scope, body: Body) -> dict[str, Any]:
    """The WSGI environment of a request, without headers whose name has an underscore: as WSGI spells names they would
    pass for what a proxy says (`X_Forwarded_For`). The query is bytes as they came."""
    headers = [(name, value) for name, value in scope["headers"] if b"_" not in name]
    environ: dict[str, Any] = dict(build_environ(cast(Any, {**scope, "headers": headers, "query_string": b""}), body))
    return environ | {"QUERY_STRING": scope["query_string"].decode("latin1")}
