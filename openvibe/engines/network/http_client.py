"""An HTTP client for one call to an address that somebody entered: guarded, bounded in time, and what came first over
it on record."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import httpx2

from openvibe.engines.network.ssrf_guard import GuardedTransport

_HEADERS = {"User-Agent": "OpenVibe", "Accept-Encoding": "identity"}  # what comes is as big as it looks
_HEAD_BYTES = 8_192


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
            response.stream = _RecordedBody(response.stream, self)


class _RecordedBody(httpx2.SyncByteStream):
    def __init__(self, body: httpx2.SyncByteStream, head: ResponseHead) -> None:
        self._body, self._head = body, head

    def __iter__(self) -> Iterator[bytes]:
        for chunk in self._body:
            if len(self._head.content) < _HEAD_BYTES:
                self._head.content += chunk[:_HEAD_BYTES]
            yield chunk

    def close(self) -> None:
        self._body.close()


@contextmanager
def open_client(
    *,
    read_timeout: float,
    total_seconds: float,
    allow_private: bool = False,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[tuple[httpx2.Client, ResponseHead]]:
    """A client for one call: `read_timeout` seconds for anything to come, `total_seconds` in all.

    It follows no redirect, reads no environment, and refuses compressed answers (DecodingError)."""
    transport = GuardedTransport(allow_private=allow_private, total_seconds=total_seconds, clock=clock)
    head = ResponseHead()
    timeout = httpx2.Timeout(read_timeout, connect=min(10.0, read_timeout))
    hooks = {"response": [_refuse_compressed, head.record]}
    with httpx2.Client(
        transport=transport, trust_env=False, timeout=timeout, headers=_HEADERS, event_hooks=hooks
    ) as client:
        yield client, head


def _refuse_compressed(response: httpx2.Response) -> None:
    if response.headers.get("content-encoding", "identity") != "identity":
        raise httpx2.DecodingError("The endpoint compresses its answers, which was not asked for.")
