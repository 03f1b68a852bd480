"""A reader of an event stream, speaking ASGI to the whole application from a thread of its own."""

import asyncio
import json
import queue
import threading
from collections.abc import MutableMapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from django.db import connection
from django.test import Client

from openvibe.asgi import EventStreams, ServerStop
from openvibe.engines.serving.wsgi_threads import WsgiThreads
from openvibe.wsgi import application as pages

PATIENCE = 30.0
Message = MutableMapping[str, Any]


@dataclass(frozen=True)
class Frame:
    """One event: its fields as sent. `event` is empty for ordinary messages."""

    id: str = ""
    event: str = ""
    data: str = ""


class Reader:
    """`with Reader(client, path) as reader: reader.next()`; leaving hangs up and waits until the stream has ended."""

    def __init__(self, client: Client, path: str, *, query: str = "", last_event_id: str = "", token: str = "") -> None:
        cookies = "; ".join(f"{name}={morsel.value}" for name, morsel in client.cookies.items())
        headers = [(b"host", b"testserver"), (b"cookie", cookies.encode())]
        if last_event_id:
            headers.append((b"last-event-id", last_event_id.encode()))
        if token:
            headers.append((b"authorization", f"Bearer {token}".encode()))
        self._scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": "GET",
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "headers": headers,
            "client": ("127.0.0.1", 1),
            "server": ("testserver", 80),
        }
        self._frames: queue.Queue[Frame | None] = queue.Queue()
        self._opened: queue.Queue[str] = queue.Queue()
        self._heartbeats: queue.Queue[bool] = queue.Queue()
        self._started = threading.Event()
        self._text = ""
        self.here: list[list[int]] = []
        self.status = 0
        self.content_type = ""

    def __enter__(self) -> "Reader":
        self._thread = threading.Thread(target=lambda: asyncio.run(self._live()), daemon=True)
        self._thread.start()
        assert self._started.wait(PATIENCE), "no answer"
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(RuntimeError):  # the stream has ended by itself, and its loop is closed
            self._loop.call_soon_threadsafe(self._hung_up.set)
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive(), "the stream did not end"

    def next(self) -> Frame:
        """The next event. Fails when none comes."""
        frame = self._frames.get(timeout=PATIENCE)
        assert frame is not None, "the stream has ended"
        return frame

    def opened_at(self) -> str:
        """The next position that comes without an event: first where the stream opens. Empty when it says none."""
        return self._opened.get(timeout=PATIENCE)

    def is_alive(self) -> bool:
        """Whether the server says that it is there, as pages hear it."""
        return self._heartbeats.get(timeout=PATIENCE)

    def ended(self) -> bool:
        """Whether the server ends the stream, with nothing said before."""
        return self._frames.get(timeout=PATIENCE) is None

    async def _live(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._hung_up = asyncio.Event()
        self._asked = False
        door = WsgiThreads(pages, threads=1)
        await EventStreams(door, ServerStop())(self._scope, self._receive, self._send)
        door.executor.submit(lambda: connection.close()).result()
        door.executor.shutdown()
        self._frames.put(None)

    async def _receive(self) -> Message:
        if not self._asked:
            self._asked = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await self._hung_up.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.content_type = dict(message["headers"]).get(b"content-type", b"").decode()
            return
        self._started.set()
        if self.content_type != "text/event-stream":
            return
        self._text += message.get("body", b"").decode()
        *whole, self._text = self._text.split("\n\n")
        for block in whole:
            self._take(block)

    def _take(self, block: str) -> None:
        fields = dict(line.split(": ", 1) for line in block.split("\n") if line and not line.startswith(":"))
        if fields.get("event") == "presence":  # it comes when it comes: whoever asks for it looks here
            self.here.append(json.loads(fields["data"]))
        elif fields.get("event") == "heartbeat":  # so does this
            self._heartbeats.put(True)
        elif "data" in fields:
            self._frames.put(Frame(fields.get("id", ""), fields.get("event", ""), fields["data"]))
        elif fields.keys() & {"id", "retry"}:
            self._opened.put(fields.get("id", ""))
