"""The HTTP connection to an endpoint: guarded, bounded in time, and what came first over it on record."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import httpx2

from openvibe.engines.database.fields import UnreadableSecret
from openvibe.engines.llm.errors import AuthRefused
from openvibe.engines.network.ssrf_guard import GuardedTransport

_HEADERS = {"User-Agent": "OpenVibe", "Accept-Encoding": "identity"}  # what comes is as big as it looks
_HEAD_BYTES = 8_192


@dataclass(frozen=True)
class Connection:
    """The address at which an endpoint stands and with which key it is asked. Its repr holds no key."""

    base_url: str
    api_key: str = field(repr=False)
    allow_private: bool = False
    clock: Callable[[], float] = time.monotonic


def api_root(connection: Connection, *, is_anthropic: bool = False) -> tuple[str, dict[str, str]]:
    """The address that an API's paths go on from, and the headers that tell the key.

    Anthropic documents `x-api-key` for keys, and an address with or without `/v1`."""
    root, key = connection.base_url.rstrip("/"), connection.api_key or "none"
    if is_anthropic:
        return f"{root.removesuffix('/v1')}/v1", {"X-Api-Key": key, "Anthropic-Version": "2023-06-01"}
    return root, {"Authorization": f"Bearer {key}"}


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
def open_http_client(
    connection: Connection, *, read_timeout: float, total_seconds: float
) -> Iterator[tuple[httpx2.Client, ResponseHead]]:
    """A client for one call: `read_timeout` seconds for anything to come, `total_seconds` in all.

    It follows no redirect, reads no environment, and refuses compressed answers (DecodingError). Raises AuthRefused
    where the stored key cannot be read."""
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
    hooks = {"response": [_refuse_compressed, head.record]}
    with httpx2.Client(
        transport=transport, trust_env=False, timeout=timeout, headers=_HEADERS, event_hooks=hooks
    ) as client:
        yield client, head


def _refuse_compressed(response: httpx2.Response) -> None:
    if response.headers.get("content-encoding", "identity") != "identity":
        raise httpx2.DecodingError("The endpoint compresses its answers, which was not asked for.")
