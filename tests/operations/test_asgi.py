"""Which requests go to the application for event streams."""

import asyncio
from collections.abc import MutableMapping
from typing import Any

import pytest

from openvibe.asgi import Dispatcher, is_stream


@pytest.mark.parametrize("path", ["/w/garden/events/", "/api/v1/events/"])
def test_event_streams_are_recognised(path: str) -> None:
    assert is_stream(path)


@pytest.mark.parametrize("path", ["/", "/w/garden/", "/events/", "/w/garden/events/7/", "/admin/events/"])
def test_everything_else_is_a_page(path: str) -> None:
    assert not is_stream(path)


def test_each_request_reaches_the_right_application_and_lifespan_neither() -> None:
    reached: list[str] = []

    def recording(name: str) -> Any:
        async def application(scope: Any, _receive: Any, _send: Any) -> None:
            reached.append(f"{name} {scope['path']}")

        return application

    dispatcher = Dispatcher(streams=recording("stream"), pages=recording("page"))
    asyncio.run(drive(dispatcher, {"type": "http", "path": "/w/garden/events/"}))
    asyncio.run(drive(dispatcher, {"type": "http", "path": "/w/garden/"}))
    answers = asyncio.run(drive(dispatcher, {"type": "lifespan"}, "lifespan.startup", "lifespan.shutdown"))

    assert reached == ["stream /w/garden/events/", "page /w/garden/"]
    assert answers == ["lifespan.startup.complete", "lifespan.shutdown.complete"]


async def drive(dispatcher: Dispatcher, scope: MutableMapping[str, Any], *events: str) -> list[str]:
    """Sends the events in turn and answers the types of what came back."""
    waiting, answers = iter(events), list[str]()

    async def receive() -> MutableMapping[str, Any]:
        return {"type": next(waiting)}

    async def send(event: MutableMapping[str, Any]) -> None:
        answers.append(event["type"])

    await dispatcher(scope, receive, send)
    return answers
