"""A circuit breaker: an endpoint that keeps failing is left alone for a while, and says so at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock

from openvibe.llm.errors import AuthRefused, ModelError, ModelTimeout, ModelUnavailable
from openvibe.llm.protocol import ModelClient, ModelStream
from openvibe.llm.values import ChatMessage, Completion, ToolSpec

_COUNTED_ERRORS = (ModelUnavailable, ModelTimeout, AuthRefused)


@dataclass
class _FailureState:
    failures: int = 0
    open_until: float | None = None


class CircuitBreaker:
    """Counts failures in a row per endpoint, in this process. Thread safe.

    After `failures_in_a_row` an endpoint rests for `rest_seconds`; then one call is let through, and its
    outcome decides whether all are or the rest starts again.
    """

    def __init__(
        self, *, failures_in_a_row: int = 5, rest_seconds: float = 60, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._limit = failures_in_a_row
        self._rest = rest_seconds
        self._clock = clock
        self._failing: dict[Hashable, _FailureState] = {}
        self._lock = Lock()

    @contextmanager
    def guard(self, endpoint: Hashable) -> Iterator[None]:
        """Around one call: raises ModelUnavailable while the endpoint rests, and counts how the call ends.

        Failures that say nothing about the endpoint's health count neither way. A call that a person stops lets the
        next one try.
        """
        self._admit(endpoint)
        try:
            yield
        except (ModelError, GeneratorExit) as error:
            with self._lock:
                if isinstance(error, _COUNTED_ERRORS):
                    state = self._failing.setdefault(endpoint, _FailureState())
                    state.failures += 1
                    if state.failures >= self._limit:
                        state.open_until = self._clock() + self._rest
                elif endpoint in self._failing:
                    self._failing[endpoint].open_until = None
            raise
        with self._lock:
            self._failing.pop(endpoint, None)

    def reset(self, endpoint: Hashable) -> None:
        """Forget its failures: it has just answered."""
        with self._lock:
            self._failing.pop(endpoint, None)

    def _admit(self, endpoint: Hashable) -> None:
        with self._lock:
            state = self._failing.get(endpoint)
            if state is None or state.open_until is None:
                return
            now = self._clock()
            if now < state.open_until:
                seconds = max(1, round(state.open_until - now))
                raise ModelUnavailable(
                    f"The model endpoint failed {state.failures} times in a row. "
                    f"It is tried again in {seconds} seconds."
                )
            state.open_until = now + self._rest


class BreakerClient:
    """A model client behind a breaker."""

    def __init__(self, client: ModelClient, *, breaker: CircuitBreaker, endpoint: Hashable) -> None:
        self.model, self.is_free = client.model, client.is_free
        self._client = client
        self._breaker = breaker
        self._endpoint = endpoint

    def complete(
        self, messages: Sequence[ChatMessage], *, tools: Sequence[ToolSpec] = (), max_output_tokens: int | None = None
    ) -> Completion:
        with self._breaker.guard(self._endpoint):
            return self._client.complete(messages, tools=tools, max_output_tokens=max_output_tokens)

    def stream(
        self, messages: Sequence[ChatMessage], *, tools: Sequence[ToolSpec] = (), max_output_tokens: int | None = None
    ) -> ModelStream:
        with self._breaker.guard(self._endpoint):
            yield from self._client.stream(messages, tools=tools, max_output_tokens=max_output_tokens)
