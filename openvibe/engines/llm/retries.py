"""How patient a client is, and when it tries again: only before the first word, with growing pauses and jitter; for up
to a minute where a server says that its model is still being loaded, and for ten seconds where nothing listens."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass

from openvibe.engines.llm.errors import LimitReached, ModelError, ModelLoading, NothingListens
from openvibe.engines.llm.values import CallNotice

_MAX_PAUSE = 30.0  # seconds; an endpoint that asks for more is not waited for
_LOADING_PAUSE = 2.0  # seconds between two questions whether a model is loaded
LOADING_NOTICE = CallNotice("model_loading", "The model has to be loaded first. It is waited for, up to a minute.")
STARTING_NOTICE = CallNotice(
    "model_starting", "Nothing listens at the model's address, perhaps not yet. It is tried again for ten seconds."
)


@dataclass(frozen=True)
class CallLimits:
    """All times in seconds. `first_answer_source` and `total_source` say whose limits they are."""

    first_answer_seconds: float = 60
    total_seconds: float = 300
    attempts: int = 3
    first_pause: float = 0.5
    loading_seconds: float = 60
    starting_seconds: float = 10
    first_answer_source: str = "the limit of this endpoint"
    total_source: str = "the limit of this endpoint"


@dataclass(frozen=True)
class RetryPolicy:
    """`sleep`, `clock` and `jitter` (0 to 1) are there to be replaced in tests."""

    limits: CallLimits = CallLimits()
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic
    jitter: Callable[[], float] = random.random


class Retries:
    """How often and how long one call is tried again."""

    def __init__(self, policy: RetryPolicy) -> None:
        self._policy = policy
        self._ends_at = policy.clock() + policy.limits.total_seconds
        self._attempts = 0
        self._loading_seconds = 0.0
        self._loading_since: float | None = None
        self._starting_seconds = 0.0

    def remaining_seconds(self) -> float:
        """Seconds this call may still take. Raises LimitReached when there are none."""
        remaining = self._ends_at - self._policy.clock()
        if remaining <= 0:
            raise self._total_error()
        return remaining

    def first_answer_seconds(self) -> float:
        """Seconds for anything to come. Raises LimitReached when there are none."""
        return min(self._policy.limits.first_answer_seconds, self.remaining_seconds())

    def with_limit(self, error: ModelError) -> ModelError:
        """The error of a call that ended now; of one that a limit ended, with that limit named."""
        if not isinstance(error, LimitReached):
            return error
        limits = self._policy.limits
        is_silence = limits.first_answer_seconds < limits.total_seconds
        if not is_silence or self._policy.clock() >= self._ends_at - 0.05:
            return self._total_error()
        return _limit_error(f"nothing came for {_in_words(limits.first_answer_seconds)}", limits.first_answer_source)

    def notices(self, error: ModelError) -> tuple[CallNotice, ...]:
        """What to tell before `wait_or_raise`: once, that the model is being loaded, or that its server may start."""
        if isinstance(error, NothingListens):
            is_first = self._starting_seconds == 0 and self._policy.limits.starting_seconds > 0
            return (STARTING_NOTICE,) if is_first else ()
        return (LOADING_NOTICE,) if isinstance(error, ModelLoading) and self._loading_since is None else ()

    def wait_or_raise(self, error: ModelError) -> None:
        """Waits before the next try, or raises the error where another try is pointless."""
        if isinstance(error, ModelLoading):
            self._wait_for_model(error)
            return
        if isinstance(error, NothingListens) and self._policy.limits.starting_seconds > 0:
            self._wait_for_server(error)
            return
        self._attempts += 1
        error.attempts = self._attempts
        limits = self._policy.limits
        if not error.may_pass or self._attempts >= limits.attempts:
            raise error
        pause = error.retry_after
        if pause is None:
            pause = limits.first_pause * 2 ** (self._attempts - 1) * (0.75 + 0.5 * self._policy.jitter())
        if pause > min(_MAX_PAUSE, self._ends_at - self._policy.clock()):
            raise error
        self._policy.sleep(pause)

    def _wait_for_model(self, error: ModelLoading) -> None:
        """Waits, for `loading_seconds` of all pauses and all answers; other failures have attempts of their own."""
        now = self._policy.clock()
        if self._loading_since is None:
            self._loading_since = now
        self._loading_seconds += _LOADING_PAUSE
        seconds = max(self._loading_seconds, now - self._loading_since + _LOADING_PAUSE)
        if seconds > self._policy.limits.loading_seconds or now + _LOADING_PAUSE > self._ends_at:
            raise error
        self._policy.sleep(_LOADING_PAUSE)

    def _wait_for_server(self, error: NothingListens) -> None:
        """Waits with growing pauses for `starting_seconds`; other failures have attempts of their own."""
        left = self._policy.limits.starting_seconds - self._starting_seconds
        pause = min(max(self._policy.limits.first_pause, self._starting_seconds), left)
        if pause <= 0 or self._policy.clock() + pause > self._ends_at:
            raise error
        self._starting_seconds += pause
        self._policy.sleep(pause)

    def _total_error(self) -> LimitReached:
        limits = self._policy.limits
        return _limit_error(f"it had {_in_words(limits.total_seconds)}", limits.total_source)


def _limit_error(what: str, source: str) -> LimitReached:
    is_operators = "OPENVIBE_" in source
    advice = "Try again. Whoever runs OpenVibe can give models more time with that setting." if is_operators else None
    return LimitReached(f"The model did not answer in time: {what}, {source}.", advice=advice)


def _in_words(seconds: float) -> str:
    return "1 second" if seconds == 1 else f"{seconds:,g} seconds"
