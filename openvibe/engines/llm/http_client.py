"""The HTTP connection below the vendors' packages: guarded, bounded in time, and what came first over it on record."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

import httpx2

from openvibe.engines.database.fields import UnreadableSecret
from openvibe.engines.llm.errors import AuthRefused
from openvibe.engines.network.event_stream import EventStream
from openvibe.engines.network.ssrf_guard import GuardedTransport

_HEADERS = {"Accept-Encoding": "identity"}  # what comes is as big as it looks
_HEAD_BYTES = 8_192


@dataclass(frozen=True)
class Connection:
    """The address at which an endpoint stands and with which key it is asked. Its repr holds no key."""

    base_url: str
    api_key: str = field(repr=False)
    allow_private: bool = False
    clock: Callable[[], float] = time.monotonic


class ResponseHead:
    """The first bytes of the answer, to say what it is when it is no answer."""

    def __init__(self) -> None:
        self.content = b""

    @property
    def text(self) -> str:
        return self.content.decode("utf-8", "replace")

    def record(self, response: httpx2.Response) -> None:
        self.content = b""
        if isinstance(response.stream, httpx2.SyncByteStream):
            response.stream = _Body(response.stream, self._record_chunks)

    def _record_chunks(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        for chunk in chunks:
            if len(self.content) < _HEAD_BYTES:
                self.content += chunk[:_HEAD_BYTES]
            yield chunk


class _Body(httpx2.SyncByteStream):
    """What another body holds, read through a function."""

    def __init__(self, body: httpx2.SyncByteStream, read: Callable[[Iterable[bytes]], Iterator[bytes]]) -> None:
        self._body, self._read = body, read

    def __iter__(self) -> Iterator[bytes]:
        return self._read(self._body)

    def close(self) -> None:
        self._body.close()


@contextmanager
def open_http_client(
    connection: Connection, *, read_timeout: float, total_seconds: float, events: EventStream | None = None
) -> Iterator[tuple[httpx2.Client, ResponseHead]]:
    """A client for one call: `read_timeout` seconds for anything to come, `total_seconds` in all.

    It follows no redirect, reads no environment, and refuses compressed answers (DecodingError). An answer passes
    through `events`, if given. Raises AuthRefused where the stored key cannot be read."""
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
    hooks = {"response": [_refuse_compressed, head.record, *([partial(_read_events, events)] if events else ())]}
    with httpx2.Client(
        transport=transport, trust_env=False, timeout=timeout, headers=_HEADERS, event_hooks=hooks
    ) as client:
        yield client, head


def _refuse_compressed(response: httpx2.Response) -> None:
    if response.headers.get("content-encoding", "identity") != "identity":
        raise httpx2.DecodingError("The endpoint compresses its answers, which was not asked for.")


def _read_events(events: EventStream, response: httpx2.Response) -> None:
    if response.is_success and isinstance(response.stream, httpx2.SyncByteStream):
        response.stream = _Body(response.stream, events.read)
