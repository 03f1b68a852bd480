"""A circuit breaker: what keeps failing is left alone for a while, and says so at once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Case, F, Q, QuerySet, When
from django.utils import timezone

from openvibe.engines.database.models import TimestampedModel


@dataclass(frozen=True)
class CircuitBreaker(ABC):
    """Counts failures in a row in the row of what is called, so that all processes leave it alone together.

    After `failures_in_a_row` it rests for `rest_seconds`; then one call is let through, and its outcome decides whether
    all are or the rest starts again. Unless `always_read`, a call of what was well when its row was read costs no
    statement. `failures` and `rests_until` name the row's fields. Subclasses say which errors count, and what is raised
    during a rest.
    """

    failures: str = "failures"
    rests_until: str = "rests_until"
    failures_in_a_row: int = 5
    rest_seconds: float = 60
    always_read: bool = False

    @abstractmethod
    def is_failure(self, error: BaseException) -> bool:
        """Whether the error says something about the health of what was called."""

    @abstractmethod
    def rest_error(self, row: TimestampedModel, failures: int, seconds: int) -> Exception:
        """What a call is told that comes `seconds` before the rest ends."""

    @property
    def _rest(self) -> timedelta:
        return timedelta(seconds=self.rest_seconds)

    @contextmanager
    def guard(self, row: TimestampedModel) -> Iterator[None]:
        """Guards one call: raises `rest_error` during a rest, and counts how the call ends.

        Errors that are no failures count neither way. A call that a person stops lets the next one try.
        """
        self._admit(row)
        try:
            yield
        except (Exception, GeneratorExit) as error:
            if self.is_failure(error):
                self._count_failure(row)
            elif getattr(row, self.rests_until):
                self._write(row, **{self.rests_until: timezone.now()})
            raise
        if getattr(row, self.failures):
            self.reset(row)

    def reset(self, row: TimestampedModel) -> None:
        """Forgets its failures: it has just answered."""
        self._write(row, **{self.failures: 0, self.rests_until: None})

    def _admit(self, row: TimestampedModel) -> None:
        if not self.always_read and getattr(row, self.rests_until) is None:
            return
        failures, rests_until = self._read(row)
        if rests_until is None:
            return
        now = timezone.now()
        is_over = Q(**{f"{self.rests_until}__lte": now})
        is_too_long = Q(**{f"{self.rests_until}__gt": now + 2 * self._rest})  # the clock was ahead when it began
        if self._stored(row).filter(is_over | is_too_long).update(**{self.rests_until: now + self._rest}):
            return  # this call tries
        raise self.rest_error(row, failures, max(1, round((rests_until - now).total_seconds())))

    def _count_failure(self, row: TimestampedModel) -> None:
        is_last = When(**{f"{self.failures}__gte": self.failures_in_a_row - 1}, then=timezone.now() + self._rest)
        rests_until = Case(is_last, default=F(self.rests_until))
        self._stored(row).update(**{self.failures: F(self.failures) + 1, self.rests_until: rests_until})
        self._read(row)

    def _stored(self, row: TimestampedModel) -> QuerySet[Any]:
        """No row once it was changed: then it begins anew."""
        return type(row)._default_manager.filter(pk=row.pk, updated_at=row.updated_at)

    def _read(self, row: TimestampedModel) -> tuple[int, datetime | None]:
        failures, rests_until = self._stored(row).values_list(self.failures, self.rests_until).first() or (0, None)
        setattr(row, self.failures, failures)
        setattr(row, self.rests_until, rests_until)
        return failures, rests_until

    def _write(self, row: TimestampedModel, **values: Any) -> None:
        self._stored(row).update(**values)
        for name, value in values.items():
            setattr(row, name, value)
