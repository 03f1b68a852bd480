"""The HTTP connection below the vendors' packages: guarded, bounded in time, and what came first over it on record."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import httpx2

from openvibe.base.fields import UnreadableSecret
from openvibe.base.ssrf_guard import GuardedTransport
from openvibe.llm.errors import AuthRefused

_HEADERS = {"Accept-Encoding": "identity"}  # what comes is as big as it looks
_HEAD_BYTES = 8_192
_TAIL_BYTES = 64


@dataclass(frozen=True)
class Connection:
    """Where an endpoint stands and with which key it is asked. Its repr holds no key."""

    base_url: str
    api_key: str = field(repr=False)
    allow_private: bool = False
    clock: Callable[[], float] = time.monotonic


class ResponseHead:
    """The first bytes of the answer, to say what it is when it is no answer; and the last ones that were read."""

    def __init__(self) -> None:
        self.content = self.tail = b""

    def record(self, response: httpx2.Response) -> None:
        self.content = self.tail = b""
        if isinstance(response.stream, httpx2.SyncByteStream):
            response.stream = _RecordedStream(response.stream, self)


class _RecordedStream(httpx2.SyncByteStream):
    def __init__(self, stream: httpx2.SyncByteStream, head: ResponseHead) -> None:
        self._stream, self._head = stream, head

    def __iter__(self) -> Iterator[bytes]:
        for chunk in self._stream:
            if len(self._head.content) < _HEAD_BYTES:
                self._head.content += chunk[:_HEAD_BYTES]
            self._head.tail = (self._head.tail + chunk[-_TAIL_BYTES:])[-_TAIL_BYTES:]
            yield chunk

    def close(self) -> None:
        self._stream.close()


@contextmanager
def open_http_client(
    connection: Connection, *, read_timeout: float, total_seconds: float
) -> Iterator[tuple[httpx2.Client, ResponseHead]]:
    """A client for one call: `read_timeout` seconds for anything to come, `total_seconds` in all.

    It follows no redirect and reads no environment. Raises AuthRefused where the stored key cannot be read."""
    if isinstance(connection.api_key, UnreadableSecret):
        raise AuthRefused(
            "The stored key of this endpoint cannot be read: the server's secret key is another one now.",
            advice="Admins can enter the key again: Settings, Models.",
        )
    transport = GuardedTransport(
        allow_private=connection.allow_private, total_seconds=total_seconds, clock=connection.clock
    )
    head = ResponseHead()
    timeout = httpx2.Timeout(read_timeout, connect=min(10.0, read_timeout))
    hooks = {"response": [head.record]}
    with httpx2.Client(
        transport=transport, trust_env=False, timeout=timeout, headers=_HEADERS, event_hooks=hooks
    ) as client:
        yield client, head
