"""Runs a WSGI application on a few threads, for an ASGI server.

An answer that is whole crosses from its thread to the event loop once, and its thread is free before it is sent;
what is streamed crosses piece by piece, so that a slow reader holds it back."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, cast

from a2wsgi.wsgi import Body, build_environ

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
WsgiApplication = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


class WsgiThreads:
    """An ASGI application that answers HTTP requests with Django's WSGI application, whose answers say whether they
    are `streaming`. `receive` must give coroutines."""

    def __init__(self, application: WsgiApplication, *, threads: int) -> None:
        self._application = application
        self.executor = ThreadPoolExecutor(thread_name_prefix="WSGI", max_workers=threads)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        loop = asyncio.get_running_loop()
        events: Any = receive
        environ = _environ(scope, Body(loop, events))

        async def send_message(message: Message) -> None:
            await send(message)  # the server gives an awaitable of its own kind

        def send_from_thread(message: Message) -> None:
            asyncio.run_coroutine_threadsafe(send_message(message), loop).result()

        answer = copy_context().run
        for message in await loop.run_in_executor(self.executor, answer, self._answer, environ, send_from_thread):
            await send(message)

    def _answer(self, environ: dict[str, Any], send: Callable[[Message], None]) -> Iterable[Message]:
        """What is still to be sent once the application has answered."""
        head: Message = {"type": "http.response.start"}

        def start_response(status: str, headers: Iterable[tuple[str, str]], exc_info: object = None) -> None:
            head["status"] = int(status[:3])
            head["headers"] = [(name.lower().encode("latin1"), value.encode("latin1")) for name, value in headers]

        answer: Any = self._application(environ, start_response)
        try:
            if not answer.streaming:
                return head, {"type": "http.response.body", "body": b"".join(answer)}
            send(head)
            for piece in answer:
                send({"type": "http.response.body", "body": piece, "more_body": True})
            return ({"type": "http.response.body", "body": b""},)
        finally:
            answer.close()


def _environ(scope: Scope, body: Body) -> dict[str, Any]:
    """Of a request, without headers whose name has an underscore: as WSGI spells names they would pass for what a proxy
    says (`X_Forwarded_For`). The query is bytes as they came."""
    headers = [(name, value) for name, value in scope["headers"] if b"_" not in name]
    environ: dict[str, Any] = dict(build_environ(cast(Any, {**scope, "headers": headers, "query_string": b""}), body))
    return environ | {"QUERY_STRING": scope["query_string"].decode("latin1")}
