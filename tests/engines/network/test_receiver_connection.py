"""One attempt ends in time and within bounds, whatever answers."""

import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from threading import Event, Thread
from time import monotonic

import pytest

from openvibe.engines.network.receiver_connection import (
    MAX_SECONDS,
    NO_HTTP,
    TIMEOUT_MESSAGE,
    AttemptResult,
    ReceiverConnection,
)


@contextmanager
def dripping(head: bytes) -> Iterator[str]:
    """A server that sends `head`, then one byte after the other without an end."""
    over, server = Event(), socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with suppress(OSError), server.accept()[0] as connection:
            connection.sendall(head)
            while not over.wait(0.01):
                connection.sendall(b"x")

    Thread(target=serve, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.getsockname()[1]}/"
    finally:
        over.set()
        server.close()


def post(url: str, *, allow_private: bool = True, seconds: float = MAX_SECONDS) -> AttemptResult:
    with closing(ReceiverConnection(url, allow_private=allow_private, seconds=seconds)) as receiver:
        return receiver.post(b"{}", {})


@pytest.mark.parametrize(
    ("head", "came"),
    [(b"HTTP/1.1 200 OK\r\nX-Slow: ", (None, TIMEOUT_MESSAGE)), (b"HTTP/1.1 200 OK\r\n\r\n", (200, ""))],
    ids=["head", "body"],
)
def test_a_drip_is_ended(head: bytes, came: tuple[int | None, str]) -> None:
    started = monotonic()
    with dripping(head) as url:
        answer = post(url, seconds=0.2)
    assert ((answer.status, answer.error), monotonic() - started < 5) == (came, True)


def test_an_answer_that_is_no_http_is_quoted_nowhere() -> None:
    """An answer may repeat what it was told, and the error outlives the message."""
    with dripping(b"TULIP the vault code\r\n\r\n") as url:
        answer = post(url)
    assert (answer.status, answer.text, answer.error) == (None, "", NO_HTTP)


def test_addresses_inside_are_refused_at_connect() -> None:
    answer = post("http://127.0.0.1:1/", allow_private=False)
    assert (answer.status, "inside this server's own network" in answer.error) == (None, True)
