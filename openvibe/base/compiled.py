"""A query that Django writes once and that runs many times: the condition stays where it is defined, its price is
paid once in a process.

The query is made with stand-ins for the numbers that differ from one call to the next. Its SQL keeps placeholders
for them, so that values only ever travel as parameters.
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from operator import itemgetter
from typing import Any

from django.db import DEFAULT_DB_ALIAS
from django.db.models import QuerySet
from django.utils import timezone
from psycopg import sql

from openvibe.base.prepared import prepared_rows

_FIRST_STAND_IN = 7_100_000_000_000_000_000
"""Numbers from here on stand for arguments; no identifier or count comes near them."""


class Compiled:
    """The SQL of `make(*numbers)`, run with other numbers. A time among its parameters is always the present one."""

    def __init__(self, make: Callable[..., QuerySet[Any, Any]], numbers: int) -> None:
        stand_ins = range(_FIRST_STAND_IN, _FIRST_STAND_IN + numbers)
        statement, found = make(*stand_ins).query.get_compiler(DEFAULT_DB_ALIAS).as_sql()
        values = [_value_of(value, stand_ins) for value in found]
        self._values = [value for value in values if value is not None]
        # What never changes is written out, so that the server knows how many rows to expect.
        self.sql = statement % tuple(
            sql.Literal(constant).as_string() if value is None else "%s"
            for constant, value in zip(found, values, strict=True)
        )

    def rows(self, *numbers: int) -> list[tuple[Any, ...]]:
        """All rows, as the database driver gives them."""
        return prepared_rows(self.sql, [value(numbers) for value in self._values])


def _value_of(found: object, stand_ins: range) -> Callable[[Sequence[int]], object] | None:
    """Where the value of a parameter comes from; None when the query's maker wrote it."""
    if isinstance(found, int) and found in stand_ins:
        return itemgetter(found - stand_ins.start)
    return _present if isinstance(found, datetime) else None


def _present(numbers: Sequence[int]) -> datetime:
    return timezone.now()
