"""The requests that go to the application for event streams."""

import asyncio
import signal
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any

import pytest

from openvibe.asgi import Dispatcher, EventStreams, ServerStop, is_stream
from openvibe.engines.serving.streams import STREAMS_KEY, Continuation, DeferredAnswer, Send


@pytest.mark.parametrize(
    "path", ["/w/garden/events/", "/api/v1/events/", "/healthz/events/", "/v1/chat/completions", "/v1/responses/"]
)
def test_event_streams_are_recognised(path: str) -> None:
    assert is_stream(path)


@pytest.mark.parametrize("path", ["/", "/w/garden/", "/v1/models", "/events/", "/w/garden/events/7/", "/admin/events/"])
def test_everything_else_is_a_page(path: str) -> None:
    assert not is_stream(path)


def test_each_request_reaches_the_right_application_and_lifespan_neither() -> None:
    reached: list[str] = []

    def recording(name: str) -> Any:
        async def application(scope: Any, _receive: Any, _send: Any) -> None:
            reached.append(f"{name} {scope['path']}")

        return application

    dispatcher = Dispatcher(
        streams=recording("stream"), pages=recording("page"), mcp=recording("mcp"), stop=ServerStop()
    )
    page: dict[str, Any] = {"type": "http", "method": "GET", "headers": []}
    asyncio.run(drive(dispatcher, {**page, "path": "/w/garden/events/"}))
    asyncio.run(drive(dispatcher, {**page, "path": "/w/garden/"}))
    asyncio.run(drive(dispatcher, {**page, "method": "POST", "path": "/w/garden/"}, "http.request"))
    asyncio.run(drive(dispatcher, {"type": "http", "path": "/mcp"}))
    answers = asyncio.run(drive(dispatcher, {"type": "lifespan"}, "lifespan.startup", "lifespan.shutdown"))

    assert reached == ["stream /w/garden/events/", "page /w/garden/", "page /w/garden/", "mcp /mcp"]
    assert answers == ["lifespan.startup.complete", "lifespan.shutdown.complete"]


async def send_for_ever(send: Send) -> None:
    await send({"type": "http.response.body", "body": b"event", "more_body": True})
    await asyncio.Event().wait()


async def answer_never() -> DeferredAnswer:
    await asyncio.Event().wait()
    raise AssertionError


@pytest.mark.parametrize(
    ("continuation", "answers"),
    [
        (Continuation(send=send_for_ever, is_endless=True), [200, b"event", b""]),
        (Continuation(send=send_for_ever), [200, b"event"]),
        (Continuation(answer=answer_never), [503, b""]),
    ],
    ids=["event stream", "half an answer", "no answer yet"],
)
def test_streams_end_when_the_server_is_told_to_stop_and_it_still_hears_of_that(
    continuation: Continuation, answers: list[object]
) -> None:
    """What stands half is left so: its reader must not take it for the whole."""
    told: list[int] = []

    async def view(scope: Any, _receive: Any, send: Any) -> None:
        scope[STREAMS_KEY].append(continuation)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})
        asyncio.get_running_loop().call_soon(signal.raise_signal, signal.SIGTERM)

    async def serve() -> list[object]:
        sent: list[object] = []
        stop = ServerStop()

        async def receive() -> MutableMapping[str, Any]:
            await asyncio.Event().wait()
            raise AssertionError

        async def send(event: MutableMapping[str, Any]) -> None:
            sent.append(event.get("status", event.get("body")))

        with stop.watch():
            await EventStreams(view, stop, stop_seconds=0)({"type": "http"}, receive, send)
        return sent

    with handler_of_sigterm(told):
        assert asyncio.run(serve()) == answers
        assert told == [signal.SIGTERM]
        signal.raise_signal(signal.SIGTERM)
        assert len(told) == 2, "afterwards the handler of before is there again"


@contextmanager
def handler_of_sigterm(told: list[int]) -> Iterator[None]:
    """A handler as a server has one."""
    before = signal.signal(signal.SIGTERM, lambda number, _frame: told.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


async def drive(dispatcher: Dispatcher, scope: MutableMapping[str, Any], *events: str) -> list[str]:
    """Sends the events in turn and answers the types of what came back."""
    waiting, answers = iter(events), list[str]()

    async def receive() -> MutableMapping[str, Any]:
        return {"type": next(waiting)}

    async def send(event: MutableMapping[str, Any]) -> None:
        answers.append(event["type"])

    await dispatcher(scope, receive, send)
    return answers
