"""Compiles a Django query to SQL once in a process and runs it many times: the condition stays where it is defined,
its price is paid once.

For reads whose condition is a queryset's (`visible_to`). Where a page joins and counts in its own way, its statement is
written out where it is read, and run by `fetch_prepared`.

The query is built with placeholder numbers for what differs from one call to the next, or for whole arrays of them
(`pk__any_of`). Its SQL keeps parameters for them, so that values only ever travel as parameters.

`JsonRows` lets one statement bring rows of many tables: each table is a sub-select that arrives as one JSON list."""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from functools import cached_property
from inspect import signature
from typing import Any, Generic, NamedTuple, TypeVar

from django.contrib.postgres.expressions import ArraySubquery
from django.core.exceptions import EmptyResultSet
from django.db import DEFAULT_DB_ALIAS
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import BigAutoField, Func, JSONField, Lookup, Model, QuerySet, Value
from django.db.models.base import ModelState
from django.db.models.query import get_related_populators
from django.db.models.sql.compiler import SQLCompiler
from django.utils import timezone
from psycopg import sql

from openvibe.base.prepared_statements import fetch_prepared

_FIRST_PLACEHOLDER = 7_100_000_000_000_000_000
"""Numbers from here on stand for arguments; no identifier or count comes near them."""


def array_literal(ids: Iterable[int]) -> str:
    """An array as PostgreSQL reads it: hundreds of numbers are one value to the driver, too."""
    return f"{{{','.join(map(str, ids))}}}"


@BigAutoField.register_lookup
class AnyOfLookup(Lookup):
    """`pk__any_of=array(ids)`: one of these, in the same SQL however many they are."""

    lookup_name = "any_of"
    prepare_rhs = False

    def as_sql(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper) -> tuple[str, tuple[Any, ...]]:
        column, values = self.process_lhs(compiler, connection)
        return f"{column} = ANY(%s::bigint[])", (*values, self.rhs)


class CompiledQuery:
    """Decorates a function that builds a query from numbers: its SQL, made at the first call and run with other values.

    Every time among its parameters is `now` (the default is the present). `argument_count` is that of the function's
    signature unless given."""

    def __init__(self, build_query: Callable[..., QuerySet[Any, Any]], argument_count: int | None = None) -> None:
        self._build_query = build_query
        self._argument_count = argument_count

    @cached_property
    def _compiler(self) -> Any:
        return self._build_query(*self._placeholders).query.get_compiler(DEFAULT_DB_ALIAS)

    @cached_property
    def _placeholders(self) -> range:
        count = self._argument_count
        if count is None:
            count = len(signature(self._build_query).parameters)
        return range(_FIRST_PLACEHOLDER, _FIRST_PLACEHOLDER + count)

    @cached_property
    def _statement(self) -> tuple[str, list[int | None]]:
        """The SQL, and the position of each of its parameters among the arguments; None for a time. No SQL where the
        condition can hold for no row."""
        places = {form: index for index, number in enumerate(self._placeholders) for form in (number, str(number))}
        try:
            statement, parameters = self._compiler.as_sql()
        except EmptyResultSet:
            return "", []
        positions: list[int | None] = []
        texts = ["%s"] * len(parameters)
        for index, value in enumerate(parameters):
            if isinstance(value, datetime):
                positions.append(None)
            elif isinstance(value, int | str) and value in places:  # text where it is compared with a text column
                positions.append(places[value])
            else:  # never changes: written out, so that the server knows how many rows to expect
                texts[index] = sql.Literal(value).as_string()
        return statement % tuple(texts), positions

    def rows(self, *arguments: int | str, now: datetime | None = None) -> list[tuple[Any, ...]]:
        """All rows, as the database driver gives them."""
        statement, positions = self._statement
        if not statement:
            return []
        values = [now or timezone.now() if each is None else arguments[each] for each in positions]
        return fetch_prepared(statement, values)

    def objects(self, *arguments: int | str, now: datetime | None = None) -> list[Any]:
        """All rows as the objects that the query would give, with those it selects beside them (`select_related`) and
        its annotations."""
        rows = self.rows(*arguments, now=now)
        if not rows:
            return []
        model, columns, names, populators, converters, annotations = self._row_layout
        instances: list[Model] = []
        instances_by_key: dict[tuple[int, Any], Model] = {}
        for values in rows:
            row = list(values)
            for position, functions, expression in converters:
                if row[position]:  # an empty array, or nothing, stays what it is: most messages have three of them
                    for convert in functions:
                        row[position] = convert(row[position], expression, self._compiler.connection)
            instance = _load_instance(model, names, row[columns])
            for populator in populators:
                _populate(populator, row, instance, instances_by_key)
            for name, position in annotations:
                setattr(instance, name, row[position])
            instances.append(instance)
        return instances

    @cached_property
    def _row_layout(self) -> tuple[Any, slice, list[str], list[Any], list[tuple[int, Any, Any]], list[tuple[str, int]]]:
        """How rows become objects: found out once, as the statement is."""
        select, shape = self._compiler.select, self._compiler.klass_info
        columns = slice(shape["select_fields"][0], shape["select_fields"][-1] + 1)
        names = [column[0].target.attname for column in select[columns]]
        populators = get_related_populators(shape, select, DEFAULT_DB_ALIAS)  # type: ignore[call-arg]  # stubs of 6.1
        by_position = self._compiler.get_converters([column[0] for column in select])
        converters = [(position, *functions) for position, functions in by_position.items()]
        annotations = list((self._compiler.annotation_col_map or {}).items())
        return shape["model"], columns, names, populators, converters, annotations


def _load_instance(model: type[Model], names: Iterable[str], values: Iterable[Any]) -> Model:
    """What `Model.from_db` gives, in a fraction of its time: no model here has a constructor, signals or descriptors
    of its own that ask to be told of each value (`tests/base/test_query_cache.py` sees to it)."""
    instance = model.__new__(model)
    instance._state = state = ModelState()
    state.adding, state.db = False, DEFAULT_DB_ALIAS
    vars(instance).update(zip(names, values, strict=True))
    return instance


def _populate(populator: Any, row: list[Any], instance: Model, instances_by_key: dict[tuple[int, Any], Model]) -> None:
    """What Django's `RelatedPopulator.populate` does, but rows that stand beside many are one object for all of them:
    fifty messages have a handful of authors."""
    values = row[populator.cols_start : populator.cols_end]
    pk = values[populator.pk_idx]
    related = instances_by_key.get((id(populator), pk))
    if related is None and pk is not None:
        related = instances_by_key[id(populator), pk] = _load_instance(populator.model_cls, populator.init_list, values)
        for inner in populator.related_populators:
            _populate(inner, row, related, instances_by_key)
    populator.local_setter(instance, related)
    if related is not None:
        populator.remote_setter(related, instance)


Scope = TypeVar("Scope")
Row = TypeVar("Row", bound=NamedTuple)


class JsonRows(Generic[Scope, Row]):
    """A sub-select that arrives as one JSON list of rows, its columns taken from the fields of the row type by name.

    `build_query` makes the sub-select of a scope: what differs from one statement to another, placeholders included.
    `columns`: for a field that the query calls otherwise, its path or annotation. `parse`: for a field that JSON has no
    type for (times), what makes it of the JSON value. Raises TypeError for a name that is no field of the row.
    """

    def __init__(
        self,
        name: str,
        row: type[Row],
        build_query: Callable[[Scope], QuerySet[Any, Any]],
        *,
        columns: Mapping[str, str] | None = None,
        parse: Mapping[str, Callable[[Any], Any]] | None = None,
    ) -> None:
        self.name = name
        self._make = row._make
        self._build_query = build_query
        self._columns = row_columns(row, columns or {})
        _check_fields(row, parse or {})
        self._parsers = [(row._fields.index(field), function) for field, function in (parse or {}).items()]

    def expression(self, scope: Scope) -> Func:
        """The rows of this scope as one JSON list of lists, in the order of the query."""
        rows = self._build_query(scope).values(row=json_array(self._columns))
        return Func(ArraySubquery(rows), function="to_json", output_field=JSONField())

    def all(self, answer: Mapping[str, Any]) -> list[Row]:
        """The rows in the answer of a statement made with `json_object`."""
        return [self._row(values) for values in answer[self.name]]

    def first(self, answer: Mapping[str, Any]) -> Row | None:
        """The first row in the answer; None where there is none."""
        return next((self._row(values) for values in answer[self.name]), None)

    def _row(self, values: list[Any]) -> Row:
        row = list(values)  # an answer may be read twice
        for index, function in self._parsers:
            row[index] = function(row[index])
        return self._make(row)


def row_columns(row: type[NamedTuple], columns: Mapping[str, str]) -> tuple[str, ...]:
    """The columns of the fields of a row type, in their order: `columns[field]`, or what is called as the field is."""
    _check_fields(row, columns)
    return tuple(columns.get(field, field) for field in row._fields)


def _check_fields(row: type[NamedTuple], names: Iterable[str]) -> None:
    unknown = [name for name in names if name not in row._fields]
    if unknown:
        raise TypeError(f"{row.__name__} has no field {', '.join(unknown)}.")


def json_array(columns: Iterable[str]) -> Func:
    """The columns as one JSON list, in their order."""
    return Func(*columns, function="json_build_array", output_field=JSONField())


def json_object(parts: Mapping[str, Func]) -> Func:
    """The parts as one JSON object, by name. Not Django's JSONObject, which sorts and casts: that costs time."""
    pairs = [each for name, part in parts.items() for each in (Value(name), part)]
    return Func(*pairs, function="json_build_object", output_field=JSONField())
