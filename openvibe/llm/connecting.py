"""The official `openai` client over a guarded connection, with nothing taken from the environment."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import httpx2
import openai

from openvibe.llm.outbound import GuardedTransport, Resolve, resolve_name

UNREADABLE = (  # what the package raises, and what it trips over in answers that are none
    openai.OpenAIError,
    httpx2.HTTPError,
    ValueError,
    TypeError,
    AttributeError,
    LookupError,
    ArithmeticError,
    RecursionError,
)
_HEADERS = {"Accept-Encoding": "identity"}  # what comes is as big as it looks


@contextmanager
def connected(
    *,
    base_url: str,
    api_key: str,
    waits: float,
    total_seconds: float,
    allow_private: bool,
    resolve: Resolve = resolve_name,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[openai.OpenAI]:
    """A client for one call: `waits` seconds for anything to come, `total_seconds` in all. It never retries.

    What goes wrong leaves as one of UNREADABLE.
    """
    transport = GuardedTransport(allow_private=allow_private, total_seconds=total_seconds, resolve=resolve, clock=clock)
    timeout = httpx2.Timeout(waits, connect=min(10.0, waits))
    with httpx2.Client(transport=transport, trust_env=False, timeout=timeout, headers=_HEADERS) as http:
        sdk = openai.OpenAI(
            base_url=base_url, api_key=api_key or "none", max_retries=0, timeout=timeout, http_client=http
        )
        sdk.organization = sdk.project = None  # the package takes them from the environment
        yield sdk
