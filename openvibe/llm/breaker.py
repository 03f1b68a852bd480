"""A circuit breaker: an endpoint that keeps failing is left alone for a while, and says so at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Case, F, QuerySet, When
from django.utils import timezone

from openvibe.llm.errors import AuthRefused, ModelError, ModelTimeout, ModelUnavailable
from openvibe.llm.models import Endpoint
from openvibe.llm.protocol import ModelClient, ModelStream
from openvibe.llm.values import ChatMessage, Completion, ToolSpec

_COUNTED_ERRORS = (ModelUnavailable, ModelTimeout, AuthRefused)


@dataclass(frozen=True)
class CircuitBreaker:
    """Counts an endpoint's failures in a row in its own row, so that all processes leave it alone together.

    After `failures_in_a_row` it rests for `rest_seconds`; then one call is let through, and its outcome decides whether
    all are or the rest starts again. A call to an endpoint that was well when its row was read costs no statement.
    `failures` and `rests_until` name its fields.
    """

    failures: str = "failures"
    rests_until: str = "rests_until"
    failures_in_a_row: int = 5
    rest_seconds: float = 60

    @property
    def _rest(self) -> timedelta:
        return timedelta(seconds=self.rest_seconds)

    @contextmanager
    def guard(self, endpoint: Endpoint) -> Iterator[None]:
        """Around one call: raises ModelUnavailable while the endpoint rests, and counts how the call ends.

        Failures that say nothing about the endpoint's health count neither way. A call that a person stops lets the
        next one try.
        """
        self._admit(endpoint)
        try:
            yield
        except (ModelError, GeneratorExit) as error:
            if isinstance(error, _COUNTED_ERRORS):
                self._count_failure(endpoint)
            elif getattr(endpoint, self.rests_until):
                self._write(endpoint, **{self.rests_until: timezone.now()})
            raise
        if getattr(endpoint, self.failures):
            self.reset(endpoint)

    def reset(self, endpoint: Endpoint) -> None:
        """Forget its failures: it has just answered."""
        self._write(endpoint, **{self.failures: 0, self.rests_until: None})

    def _admit(self, endpoint: Endpoint) -> None:
        if getattr(endpoint, self.rests_until) is None:
            return
        failures, rests_until = self._read(endpoint)
        if rests_until is None:
            return
        now = timezone.now()
        due = self._row(endpoint).filter(**{f"{self.rests_until}__lte": now})
        if due.update(**{self.rests_until: now + self._rest}):
            return  # this call tries
        seconds = max(1, round((rests_until - now).total_seconds()))
        raise ModelUnavailable(
            f"The model endpoint failed {failures} times in a row. It is tried again in {seconds} seconds."
        )

    def _count_failure(self, endpoint: Endpoint) -> None:
        is_last = When(**{f"{self.failures}__gte": self.failures_in_a_row - 1}, then=timezone.now() + self._rest)
        rests_until = Case(is_last, default=F(self.rests_until))
        self._row(endpoint).update(**{self.failures: F(self.failures) + 1, self.rests_until: rests_until})
        self._read(endpoint)

    def _row(self, endpoint: Endpoint) -> QuerySet[Endpoint]:
        """No row once the endpoint was changed: then it begins anew."""
        return Endpoint.objects.filter(pk=endpoint.pk, updated_at=endpoint.updated_at)

    def _read(self, endpoint: Endpoint) -> tuple[int, datetime | None]:
        row = self._row(endpoint).values_list(self.failures, self.rests_until).first()
        failures, rests_until = row or (0, None)
        setattr(endpoint, self.failures, failures)
        setattr(endpoint, self.rests_until, rests_until)
        return failures, rests_until

    def _write(self, endpoint: Endpoint, **values: Any) -> None:
        self._row(endpoint).update(**values)
        for name, value in values.items():
            setattr(endpoint, name, value)


class BreakerClient:
    """A model client behind a breaker."""

    def __init__(self, client: ModelClient, *, breaker: CircuitBreaker, endpoint: Endpoint) -> None:
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
