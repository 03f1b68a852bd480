"""The HTTP connection to an endpoint: where it stands, with which key it is asked, and a client for one call."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

import httpx2

from openvibe.engines.database.fields import UnreadableSecret
from openvibe.engines.llm.errors import AuthRefused
from openvibe.engines.network.http_client import ResponseHead, open_client


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


def open_http_client(
    connection: Connection, *, read_timeout: float, total_seconds: float
) -> AbstractContextManager[tuple[httpx2.Client, ResponseHead]]:
    """A client for one call, with times in seconds as in `open_client`. Raises AuthRefused where the stored key cannot
    be read."""
    if isinstance(connection.api_key, UnreadableSecret):
        raise AuthRefused(
            "The stored key of this endpoint cannot be read: the server's secret key is another one now.",
            advice="Admins can enter the key again: Settings, Models.",
        )
    return open_client(
        read_timeout=read_timeout,
        total_seconds=total_seconds,
        allow_private=connection.allow_private,
        clock=connection.clock,
    )
