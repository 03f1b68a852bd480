"""A query that Django writes once and that runs many times: the condition stays where it is defined, its price is
paid once in a process.

The query is made with stand-ins for the numbers that differ from one call to the next, or for whole arrays of them
(`pk__any_of`). Its SQL keeps placeholders for them, so that values only ever travel as parameters.
"""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from functools import cached_property
from typing import Any

from django.db import DEFAULT_DB_ALIAS, connection
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import BigAutoField, Lookup, Model, QuerySet
from django.db.models.query import get_related_populators
from django.db.models.sql.compiler import SQLCompiler
from django.utils import timezone
from psycopg import sql

from openvibe.base.prepared import prepared_rows

_FIRST_STAND_IN = 7_100_000_000_000_000_000
"""Numbers from here on stand for arguments; no identifier or count comes near them."""


def array(numbers: Iterable[int]) -> str:
    """An array as PostgreSQL reads it: hundreds of numbers are one value to the driver, too."""
    return f"{{{','.join(map(str, numbers))}}}"


@BigAutoField.register_lookup
class AnyOf(Lookup):
    """`pk__any_of=array(ids)`: one of these, in the same SQL however many they are."""

    lookup_name = "any_of"
    prepare_rhs = False

    def as_sql(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper) -> tuple[str, tuple[Any, ...]]:
        column, values = self.process_lhs(compiler, connection)
        return f"{column} = ANY(%s::bigint[])", (*values, self.rhs)


class Compiled:
    """The SQL of `make(*numbers)`, run with other numbers. Every time among its parameters is `now` (the default is the
    present)."""

    def __init__(self, make: Callable[..., QuerySet[Any, Any]], numbers: int) -> None:
        stand_ins = range(_FIRST_STAND_IN, _FIRST_STAND_IN + numbers)
        self._compiler = make(*stand_ins).query.get_compiler(DEFAULT_DB_ALIAS)
        statement, found = self._compiler.as_sql()
        values = [_value_of(value, stand_ins) for value in found]
        self._values = [value for value in values if value is not None]
        # What never changes is written out, so that the server knows how many rows to expect.
        self.sql = statement % tuple(
            sql.Literal(constant).as_string() if value is None else "%s"
            for constant, value in zip(found, values, strict=True)
        )

    def rows(self, *numbers: int | str, now: datetime | None = None) -> list[tuple[Any, ...]]:
        """All rows, as the database driver gives them."""
        return prepared_rows(self.sql, [value(numbers, now) for value in self._values])

    def rows_planned_now(self, *numbers: int | str, now: datetime | None = None) -> list[tuple[Any, ...]]:
        """All rows of a query whose best plan depends on its numbers: a plan for any of them would not do."""
        with connection.cursor() as cursor:
            cursor.execute(self.sql, [value(numbers, now) for value in self._values])
            return list(cursor.fetchall())

    def objects(self, *numbers: int | str, now: datetime | None = None) -> list[Any]:
        """All rows as the objects that the query would give, with those it selects beside them (`select_related`)."""
        model, columns, names, populators, converters = self._shape
        found: list[Model] = []
        for row in self._compiler.apply_converters(self.rows(*numbers, now=now), converters):
            found.append(model.from_db(DEFAULT_DB_ALIAS, names, row[columns]))
            for populator in populators:
                populator.populate(row, found[-1])
        return found

    @cached_property
    def _shape(self) -> tuple[Any, slice, list[str], list[Any], dict[int, Any]]:
        """How rows become objects: found out once, as the statement is."""
        select, shape = self._compiler.select, self._compiler.klass_info
        columns = slice(shape["select_fields"][0], shape["select_fields"][-1] + 1)
        names = [column[0].target.attname for column in select[columns]]
        populators = get_related_populators(shape, select, DEFAULT_DB_ALIAS)  # type: ignore[call-arg]  # stubs of 6.1
        converters = self._compiler.get_converters([column[0] for column in select])
        return shape["model"], columns, names, populators, converters


_Value = Callable[[Sequence[int | str], datetime | None], Any]


def _value_of(found: object, stand_ins: range) -> _Value | None:
    """Where the value of a parameter comes from; None when the query's maker wrote it."""
    if isinstance(found, int) and found in stand_ins:
        place = found - stand_ins.start
        return lambda numbers, now: numbers[place]
    return _present if isinstance(found, datetime) else None


def _present(numbers: Sequence[int | str], now: datetime | None) -> datetime:
    return now or timezone.now()
