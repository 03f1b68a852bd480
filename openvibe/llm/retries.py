"""How patient a client is, and when it tries again: only before the first word, with growing pauses and jitter."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass

from openvibe.llm.errors import ModelError, ModelTimeout

_MAX_PAUSE = 30.0  # seconds; an endpoint that asks for more is not waited for


@dataclass(frozen=True)
class CallLimits:
    """All times in seconds."""

    first_answer_seconds: float = 60
    total_seconds: float = 300
    attempts: int = 3
    first_pause: float = 0.5


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

    def remaining_seconds(self) -> float:
        """Seconds this call may still take. Raises ModelTimeout when there are none."""
        remaining = self._ends_at - self._policy.clock()
        if remaining <= 0:
            raise ModelTimeout("The model did not finish its answer in time.")
        return remaining

    def first_answer_seconds(self) -> float:
        """Seconds for anything to come. Raises ModelTimeout when there are none."""
        return min(self._policy.limits.first_answer_seconds, self.remaining_seconds())

    def wait_or_raise(self, error: ModelError) -> None:
        """Wait before the next try, or raise the error where another try is pointless."""
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
