"""Somebody who takes deliveries: a real HTTP server on 127.0.0.1."""

import json
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from threading import Thread
from typing import IO, Any

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
        """The kind of an event, and what the message says."""
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


@dataclass
class ClosingReceiver:
    """Takes deliveries over connections that it ends by itself."""

    url: str
    deliveries_by_connection: list[int] = field(default_factory=list)


@contextmanager
def receiving_over_connections(deliveries: int) -> Iterator[ClosingReceiver]:
    """One that ends each connection as the next delivery after so many comes, without an answer."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        receiver = ClosingReceiver(f"http://127.0.0.1:{server.getsockname()[1]}/")

        def serve() -> None:
            while True:
                with server.accept()[0] as connection, connection.makefile("rb") as stream:
                    receiver.deliveries_by_connection.append(0)
                    while length := _read_length(stream):
                        stream.read(length)
                        if receiver.deliveries_by_connection[-1] == deliveries:
                            break
                        receiver.deliveries_by_connection[-1] += 1
                        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

        def serve_until_closed() -> None:
            with suppress(OSError):
                serve()

        Thread(target=serve_until_closed, daemon=True).start()
        yield receiver


def _read_length(stream: IO[bytes]) -> int:
    """Reads the length of the next request's body; 0 when there is none."""
    length = 0
    while (line := stream.readline()).strip():
        if line.lower().startswith(b"content-length:"):
            length = int(line.partition(b":")[2])
    return length
