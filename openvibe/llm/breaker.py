"""A circuit breaker: an endpoint that keeps failing is left alone for a while, and says so at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from threading import Lock

from openvibe.llm.errors import AuthRefused, ModelError, ModelTimedOut, ModelUnavailable
from openvibe.llm.protocol import ModelClient, ModelStream
from openvibe.llm.values import ChatMessage, Completion, ToolSpec

_COUNTED = (ModelUnavailable, ModelTimedOut, AuthRefused)


@dataclass
class _Trouble:
    failures: int = 0
    closed_until: float | None = None


class Breaker:
    """Counts failures in a row per endpoint, in this process. Thread safe.

    After `failures_in_a_row` an endpoint rests for `rest_seconds`; then one call is let through, and its
    outcome decides whether all are or the rest starts again.
    """

    def __init__(
        self,
        *,
        failures_in_a_row: int = 5,
        rest_seconds: float = 60,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._limit = failures_in_a_row
        self._rest = rest_seconds
        self._clock = clock
        self._troubles: dict[Hashable, _Trouble] = {}
        self._lock = Lock()

    def admit(self, endpoint: Hashable) -> None:
        """Raise ModelUnavailable while the endpoint rests."""
        with self._lock:
            trouble = self._troubles.get(endpoint)
            if trouble is None or trouble.closed_until is None:
                return
            now = self._clock()
            if now < trouble.closed_until:
                seconds = max(1, round(trouble.closed_until - now))
                raise ModelUnavailable(
                    f"The model endpoint failed {trouble.failures} times in a row. "
                    f"It is tried again in {seconds} seconds."
                )
            trouble.closed_until = now + self._rest

    def record(self, endpoint: Hashable, error: ModelError | None) -> None:
        """Note how a call ended. Failures that say nothing about the endpoint's health change nothing."""
        with self._lock:
            if error is None:
                self._troubles.pop(endpoint, None)
            elif isinstance(error, _COUNTED):
                trouble = self._troubles.setdefault(endpoint, _Trouble())
                trouble.failures += 1
                if trouble.failures >= self._limit:
                    trouble.closed_until = self._clock() + self._rest
            else:
                self._let_through(endpoint)

    def release(self, endpoint: Hashable) -> None:
        """Note that a call was stopped by a person: the next one may try."""
        with self._lock:
            self._let_through(endpoint)

    def _let_through(self, endpoint: Hashable) -> None:
        if endpoint in self._troubles:
            self._troubles[endpoint].closed_until = None


class WithBreaker:
    """A model client behind a breaker."""

    def __init__(self, client: ModelClient, *, breaker: Breaker, endpoint: Hashable) -> None:
        self._client = client
        self._breaker = breaker
        self._endpoint = endpoint

    @property
    def model(self) -> str:
        return self._client.model

    def complete(
        self,
        messages: Sequence[ChatMessage],
        *,
        tools: Sequence[ToolSpec] = (),
        max_output_tokens: int | None = None,
    ) -> Completion:
        self._breaker.admit(self._endpoint)
        try:
            completion = self._client.complete(messages, tools=tools, max_output_tokens=max_output_tokens)
        except ModelError as error:
            self._breaker.record(self._endpoint, error)
            raise
        self._breaker.record(self._endpoint, None)
        return completion

    def stream(
        self,
        messages: Sequence[ChatMessage],
        *,
        tools: Sequence[ToolSpec] = (),
        max_output_tokens: int | None = None,
    ) -> ModelStream:
        self._breaker.admit(self._endpoint)
        try:
            yield from self._client.stream(messages, tools=tools, max_output_tokens=max_output_tokens)
        except ModelError as error:
            self._breaker.record(self._endpoint, error)
            raise
        except GeneratorExit:
            self._breaker.release(self._endpoint)
            raise
        self._breaker.record(self._endpoint, None)
