"""Somebody who takes deliveries: a real HTTP server on 127.0.0.1."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

from tests.http_server import serve_http


@dataclass(frozen=True)
class Received:
    headers: dict[str, str]
    raw: bytes

    @property
    def body(self) -> dict[str, Any]:
        return dict(json.loads(self.raw))

    @property
    def told(self) -> tuple[str, str]:
        """Its kind, and what the message says."""
        return self.kind, self.body["data"]["body"]

    @property
    def kind(self) -> str:
        return str(self.body["kind"])


@dataclass
class Receiver:
    """`answer` gives each request its status and body."""

    answer: Callable[[Received], tuple[int, bytes]] = lambda received: (200, b"thanks")
    received: list[Received] = field(default_factory=list)
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"


@contextmanager
def receiving() -> Iterator[Receiver]:
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers["Content-Length"]))
            received = Received({name.lower(): value for name, value in self.headers.items()}, raw)
            receiver.received.append(received)
            status, body = receiver.answer(received)
            self.send_response(status)
            if 300 <= status < 400:
                self.send_header("Location", receiver.url)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Nothing on the terminal."""

    with serve_http(Handler) as server:
        receiver.port = server.server_port
        yield receiver
