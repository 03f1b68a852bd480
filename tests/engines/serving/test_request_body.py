"""Bodies that are large, late, cut off or one too many, before any thread is taken for their request."""

import asyncio
from collections.abc import AsyncIterator, MutableMapping
from contextlib import asynccontextmanager
from tempfile import SpooledTemporaryFile
from typing import Any

import pytest

from openvibe.asgi import Dispatcher, ServerStop
from openvibe.engines.serving import request_body
from openvibe.engines.serving.request_body import ClientGone, Message, RequestBodies
from openvibe.engines.serving.wsgi_threads import UPLOAD_KEY

GONE = {"type": "http.disconnect"}


def part(body: bytes, *, more: bool = True) -> dict[str, Any]:
    return {"type": "http.request", "body": body, "more_body": more}


class Client:
    """Sends these events; then nothing."""

    def __init__(self, *events: dict[str, Any]) -> None:
        self.events = list(events)
        self.sent = 0

    async def receive(self) -> dict[str, Any]:
        if self.sent == len(self.events):
            await asyncio.Event().wait()
        self.sent += 1
        return self.events[self.sent - 1]


@asynccontextmanager
async def body_of(client: Client, bodies: RequestBodies) -> AsyncIterator[bytes]:
    async with bodies.read(client.receive) as body:
        whole, has_more = b"", True
        while has_more:
            event = await body.receive()
            whole, has_more = whole + event["body"], event["more_body"]
        assert body.size == len(whole)
        yield whole


async def read(client: Client, *, seconds: float = 10.0) -> bytes:
    async with body_of(client, RequestBodies(block_seconds=seconds)) as whole:
        return whole


@pytest.fixture(autouse=True)
def small_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_body, "IN_MEMORY_BYTES", 8)
    monkeypatch.setattr(request_body, "BLOCK_BYTES", 4)
    monkeypatch.setattr(request_body, "MAX_UPLOAD_BYTES", 20)
    monkeypatch.setattr(request_body, "MAX_READ_BYTES", 40)


@pytest.mark.parametrize("parts", [[b""], [b"short"], [b"a body ", b"", b"in parts"], [b"of twenty", b" bytes whol"]])
def test_a_body_comes_as_it_was_sent_and_then_what_its_sender_does(parts: list[bytes]) -> None:
    *first, last = parts
    client = Client(*map(part, first), part(last, more=False), GONE)

    async def read_on() -> tuple[bytes, dict[str, Any]]:
        async with RequestBodies().read(client.receive) as body:
            whole, event = b"", part(b"")
            while event["more_body"]:
                event = dict(await body.receive())
                whole += event["body"]
            assert client.sent == len(parts)  # what comes next is asked for when it is wanted
            return whole, dict(await body.receive())

    assert asyncio.run(read_on()) == (b"".join(parts), GONE)


def test_who_stops_in_the_middle_is_given_up_and_who_goes_on_slowly_is_not() -> None:
    with pytest.raises(TimeoutError):
        asyncio.run(read(Client(part(b"all but the")), seconds=0.01))

    class Slow(Client):
        async def receive(self) -> dict[str, Any]:
            await asyncio.sleep(0)
            asyncio.get_running_loop().time = lambda: self.sent * 25.0  # type: ignore[method-assign]  # seconds a block
            return await super().receive()

    blocks = [part(b"four"), part(b"more"), part(b"each"), part(b"time", more=False)]
    assert asyncio.run(read(Slow(*blocks), seconds=30.0)) == b"fourmoreeachtime"


def test_half_a_text_reaches_nobody() -> None:
    with pytest.raises(ClientGone):
        asyncio.run(read(Client(part(b"body=Do not"), GONE)))


def test_what_is_too_large_is_cut_once_it_is_here_and_not_read_for_ever() -> None:
    large = Client(*[part(b"x" * 10)] * 3, part(b"", more=False), GONE)
    assert asyncio.run(read(large)) == b"x" * 20
    assert large.sent == 4
    endless = Client(*[part(b"x" * 10)] * 100)
    assert asyncio.run(read(endless)) == b"x" * 20
    assert endless.sent == 5


def test_large_bodies_wait_for_a_place_and_small_ones_do_not() -> None:
    async def crowd() -> list[bytes]:
        bodies = RequestBodies(max_on_disk=1)
        large, small = Client(part(b"nine byte", more=False)), Client(part(b"small", more=False))
        done: list[bytes] = []

        async def answer(client: Client) -> None:
            async with body_of(client, bodies) as whole:
                done.append(whole)

        async with body_of(Client(part(b"is served", more=False)), bodies):
            waiting = asyncio.ensure_future(answer(large))
            await answer(small)
            assert not waiting.done()
        await waiting
        return done

    assert asyncio.run(crowd()) == [b"small", b"nine byte"]


@pytest.mark.parametrize(
    ("events", "statuses", "reached"),
    [
        ([part(b"whole", more=False)], [], ["page"]),
        ([part(b"half")], [408], []),
        ([part(b"half"), GONE], [], []),
        ([part(b"x" * 9, more=False)], [503], []),
    ],
    ids=["whole", "late", "gone", "full disk"],
)
def test_the_pages_hear_of_whole_bodies_alone(
    monkeypatch: pytest.MonkeyPatch, events: list[dict[str, Any]], statuses: list[int], reached: list[str]
) -> None:
    class FullDisk(SpooledTemporaryFile[bytes]):
        def rollover(self) -> None:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(request_body, "SpooledTemporaryFile", FullDisk)
    seen: list[str] = []
    sent: list[Message] = []

    async def page(_scope: Any, _receive: Any, _send: Any) -> None:
        seen.append("page")

    async def send(message: Message) -> None:
        sent.append(message)

    async def mcp(_scope: Any, _receive: Any, _send: Any) -> None: ...

    async def ask() -> None:
        bodies = RequestBodies(block_seconds=0.05)
        dispatcher = Dispatcher(streams=page, pages=page, mcp=mcp, stop=ServerStop(), bodies=bodies)
        scope = {"type": "http", "method": "POST", "path": "/w/garden/", "headers": []}
        await dispatcher(scope, Client(*events).receive, send)

    asyncio.run(ask())
    assert seen == reached
    assert [message["status"] for message in sent if "status" in message] == statuses
    assert all(b"Nothing was changed." in message["body"] for message in sent if message.get("body"))


async def dispatch(
    client: Client, bodies: RequestBodies, *, method: str = "POST", seen: list[MutableMapping[str, Any]]
) -> list[MutableMapping[str, Any]]:
    """What is sent to a client whose page answers 200."""
    sent: list[MutableMapping[str, Any]] = []

    async def page(scope: Any, _receive: Any, send: Any) -> None:
        seen.append(scope)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    async def mcp(_scope: Any, _receive: Any, _send: Any) -> None: ...

    dispatcher = Dispatcher(streams=page, pages=page, mcp=mcp, stop=ServerStop(), bodies=bodies)
    await dispatcher({"type": "http", "method": method, "path": "/w/garden/", "headers": []}, client.receive, send)
    return sent


def test_while_slow_bodies_have_all_places_pages_are_answered_and_further_uploads_hear_when_to_come_again() -> None:
    async def crowd() -> None:
        bodies = RequestBodies(max_on_disk=2, place_seconds=0.01)
        slow = [asyncio.ensure_future(dispatch(Client(part(b"is sent slowly")), bodies, seen=[])) for _ in range(2)]
        await asyncio.sleep(0)

        assert (await dispatch(Client(), bodies, method="GET", seen=[]))[0]["status"] == 200
        assert (await dispatch(Client(part(b"small", more=False)), bodies, seen=[]))[0]["status"] == 200
        reached: list[MutableMapping[str, Any]] = []
        head, body = await dispatch(Client(part(b"one too many", more=False)), bodies, seen=reached)

        assert (head["status"], dict(head["headers"])[b"retry-after"]) == (503, b"60")
        assert body["body"].startswith(b"Many uploads are under way. Nothing was changed.")
        assert not reached
        assert not any(each.done() for each in slow)
        for each in slow:
            each.cancel()

    asyncio.run(crowd())


def test_who_waits_for_a_place_is_not_the_one_who_is_late() -> None:
    async def crowd() -> None:
        bodies = RequestBodies(max_on_disk=1, block_seconds=0.001, place_seconds=0.05)
        async with body_of(Client(part(b"is served", more=False)), bodies):
            head, _ = await dispatch(Client(part(b"nine byte", more=False)), bodies, seen=[])
        assert head["status"] == 503
        assert (await dispatch(Client(part(b"nine byte", more=False)), bodies, seen=[]))[0]["status"] == 200

    asyncio.run(crowd())


def test_large_bodies_are_uploads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("openvibe.asgi.UPLOAD_BYTES", 6)
    seen: list[MutableMapping[str, Any]] = []
    for body in (b"small!", b"larger.", b"larger than memory"):
        asyncio.run(dispatch(Client(part(body, more=False)), RequestBodies(), seen=seen))
    assert [scope[UPLOAD_KEY] for scope in seen] == [False, True, True]
