"""Compiles a Django query to SQL once in a process and runs it many times: the condition stays where it is defined,
its price is paid once.

For reads whose condition is a queryset's (`visible_to`). Where a page joins and counts in its own way, its statement is
written out where it is read, and run by `fetch_prepared`.

The query is built with placeholder numbers for what differs from one call to the next, or for whole arrays of them
(`pk__any_of`). Its SQL keeps parameters for them, so that values only ever travel as parameters."""

import re
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from functools import cached_property
from inspect import signature
from typing import Any, NamedTuple
from uuid import UUID

from django.core.exceptions import EmptyResultSet, ValidationError
from django.db import DEFAULT_DB_ALIAS
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import BigAutoField, Lookup, Model, QuerySet
from django.db.models.base import ModelState
from django.db.models.query import get_related_populators
from django.db.models.sql.compiler import SQLCompiler
from django.utils import timezone
from psycopg import sql
from psycopg.types.json import Jsonb

from openvibe.engines.database.prepared_statements import fetch_prepared


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
    """Decorates a function that builds a query from numbers or texts: its SQL, made at the first call and run with
    other values.

    Every argument stands in the query as it is: as the value of a condition, or of an expression. Every time in it is
    the present, which the function asks for; `now` stands in its place. The function may not choose by its arguments,
    and does not know what they are when it is called. What cannot be compiled so raises TypeError at the first call,
    before anything is asked.

    `argument_count` is that of the function's signature unless given. The first `optional_count` arguments need not
    stand in the query."""

    def __init__(
        self,
        build_query: Callable[..., QuerySet[Any, Any]],
        argument_count: int | None = None,
        *,
        optional_count: int = 0,
    ) -> None:
        self._build_query = build_query
        self.argument_count = len(signature(build_query).parameters) if argument_count is None else argument_count
        self._optional_count = optional_count

    @cached_property
    def _compiled(self) -> "_Statement":
        return _compile(self._build_query, self.argument_count, self._optional_count)

    def rows(self, *arguments: int | str, now: datetime | None = None) -> list[tuple[Any, ...]]:
        """All rows, as the database driver gives them. Raises TypeError for None, which no condition is equal to, for
        another number of arguments, and for a `now` that stands nowhere."""
        _, statement, places, has_time = self._compiled
        if len(arguments) != self.argument_count or not _NO_ARGUMENTS.isdisjoint(map(type, arguments)):
            raise TypeError(f"{self.argument_count} numbers or texts are expected, not {arguments!r}.")
        if not statement:
            return []
        if now is not None and not has_time:
            raise TypeError("No time stands in this query.")
        values = [now or timezone.now() if each is None else arguments[each] for each in places]
        return fetch_prepared(statement, values)

    def objects(self, *arguments: int | str, now: datetime | None = None) -> list[Any]:
        """All rows as the objects that the query would give, with those it selects beside them (`select_related`) and
        its annotations."""
        rows = self.rows(*arguments, now=now)
        if not rows:
            return []
        compiler = self._compiled.compiler
        model, columns, names, populators, converters, annotations = self._row_layout
        instances: list[Model] = []
        instances_by_key: dict[tuple[int, Any], Model] = {}
        for values in rows:
            row = list(values)
            for position, functions, expression in converters:
                if row[position]:  # an empty array, or nothing, stays what it is: most messages have three of them
                    for convert in functions:
                        row[position] = convert(row[position], expression, compiler.connection)
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
        compiler = self._compiled.compiler
        select, shape = compiler.select, compiler.klass_info
        columns = slice(shape["select_fields"][0], shape["select_fields"][-1] + 1)
        names = [column[0].target.attname for column in select[columns]]
        populators = get_related_populators(shape, select, DEFAULT_DB_ALIAS)  # type: ignore[call-arg]  # stubs of 6.1
        by_position = compiler.get_converters([column[0] for column in select])
        converters = [(position, *functions) for position, functions in by_position.items()]
        annotations = list((compiler.annotation_col_map or {}).items())
        return shape["model"], columns, names, populators, converters, annotations


class _Statement(NamedTuple):
    """The SQL, empty where the condition can hold for no row, and what stands for each of its placeholders: the
    position of an argument, or None for the present."""

    compiler: Any
    statement: str
    places: list[int | None]
    has_time: bool


_FIRST_PLACEHOLDER = 2_100_000_000
"""Numbers from here on stand for arguments while a query is compiled; they fit in columns of four bytes, too."""
_TEXT_PLACEHOLDER = "  Ä%s_\\'\"{:d} "
"""What stands for a text in the second trial: whatever trims, escapes or folds texts changes it."""
_NO_ARGUMENTS = frozenset({bool, type(None)})
_LITERAL_TYPES = (int, float, Decimal, str, bytes, UUID, timedelta, type(None), Jsonb)
_PLACEHOLDER = re.compile(r"%[s%]")


class _Argument(int):
    """A number that is passed on, and neither computed with nor compared."""

    def _refuse(self, *_: object) -> Any:
        raise TypeError("An argument of a compiled query is passed on as it is: its value is not known yet.")

    __bool__ = __neg__ = __pos__ = __abs__ = __invert__ = __lt__ = __le__ = __gt__ = __ge__ = _refuse
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __floordiv__ = __rfloordiv__ = _refuse
    __truediv__ = __rtruediv__ = __mod__ = __rmod__ = __divmod__ = __rdivmod__ = __pow__ = __rpow__ = _refuse
    __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = __lshift__ = __rshift__ = __round__ = _refuse


class _Trial(NamedTuple):
    """A query made with certain values: its SQL, None where it can hold for no row, its parameters, and when it was
    made."""

    compiler: Any
    statement: str | None
    parameters: tuple[Any, ...]
    began: datetime
    ended: datetime


def _compile(build: Callable[..., QuerySet[Any, Any]], count: int, optional_count: int) -> _Statement:
    """Makes the statement twice, with other values: only what is the same both times, but for the arguments and the
    present, is the query that was meant. Raises TypeError."""
    numbers = [_Argument(_FIRST_PLACEHOLDER + index) for index in range(count)]
    trial = _build_trial(build, numbers)
    if trial.statement is None:
        if _build_trial(build, [0] * count).statement is not None:
            raise TypeError("This query holds for no row because of the size of an argument.")
        return _Statement(trial.compiler, "", [], False)
    index_of = {form: index for index, number in enumerate(numbers) for form in (int(number), str(number))}
    places: list[int | None] = []
    literals: list[str | None] = []  # None: a placeholder
    texts, others = set[int](), set[int]()
    for value in trial.parameters:
        index = index_of.get(value) if isinstance(value, int | str) else None
        if index is not None:  # a text where it is compared with a text column
            (texts if isinstance(value, str) else others).add(index)
        is_place = index is not None or _is_present(value, trial)
        places += [index] if is_place else []
        literals.append(None if is_place else _literal(value))
    missing = {*range(optional_count, count)} - texts - others
    if missing:
        raise TypeError(f"Arguments {sorted(missing)} do not stand in this query as they are (the first is 0).")
    only_texts = texts - others
    values = [_TEXT_PLACEHOLDER.format(i) if i in only_texts else _Argument(count - i) for i in range(count)]
    _check_same(_build_trial(build, values), trial, values, places, literals)
    return _Statement(trial.compiler, _with_literals(trial.statement, literals), places, None in places)


def _build_trial(build: Callable[..., QuerySet[Any, Any]], values: Sequence[int | str]) -> _Trial:
    began = timezone.now()
    try:
        compiler = build(*values).query.get_compiler(DEFAULT_DB_ALIAS)
        statement, parameters = compiler.as_sql()
    except EmptyResultSet:
        statement, parameters = None, ()
    except (ArithmeticError, AttributeError, LookupError, ValidationError, ValueError) as problem:
        raise TypeError(f"This query cannot be made before its arguments are known: {problem}") from problem
    return _Trial(compiler, statement, tuple(parameters), began, timezone.now())


def _check_same(
    other: _Trial, trial: _Trial, values: Sequence[int | str], places: list[int | None], literals: list[str | None]
) -> None:
    """Raises TypeError unless the other trial is the same query with these values for its arguments."""
    if other.statement != trial.statement or len(other.parameters) != len(literals):
        raise TypeError("The SQL of this query depends on the value of an argument.")
    unread = iter(places)
    for value, literal in zip(other.parameters, literals, strict=True):
        if literal is not None:
            is_same = not _is_present(value, other) and _literal(value) == literal
        elif (index := next(unread)) is None:
            is_same = _is_present(value, other)
        else:
            is_same = isinstance(value, int | str) and value in (values[index], str(values[index]))
        if not is_same:
            raise TypeError(f"{value!r} is made from an argument of this query, or is another each time.")


def _is_present(value: object, trial: _Trial) -> bool:
    return isinstance(value, datetime) and trial.began <= value <= trial.ended


def _literal(value: Any) -> str:
    """A value that never changes, written out, so that the server knows how many rows to expect. Raises TypeError for
    times and dates: they would be yesterday's tomorrow."""
    for each in value if isinstance(value, list | tuple) else [value]:
        if not isinstance(each, _LITERAL_TYPES):
            raise TypeError(
                f"{value!r} in a compiled query is neither an argument nor the present, nor of a plain type."
            )
    return sql.Literal(value).as_string()


def _with_literals(statement: str, literals: Iterable[str | None]) -> str:
    """The statement with these in their places; per cent signs stay doubled."""
    unread = iter(literals)

    def replace(match: re.Match[str]) -> str:
        literal = next(unread) if match[0] == "%s" else None
        return match[0] if literal is None else literal.replace("%", "%%")

    return _PLACEHOLDER.sub(replace, statement)


def _load_instance(model: type[Model], names: Iterable[str], values: Iterable[Any]) -> Model:
    """What `Model.from_db` gives, in a fraction of its time: no model here has a constructor, signals or descriptors
    of its own that ask to be told of each value (`tests/engines/database/test_compiled_queries.py` sees to it)."""
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


def row_columns(row: type[NamedTuple], **paths: str) -> tuple[str, ...]:
    """The columns of a row type's fields, in their order: the path that is given for a field, or what is called as the
    field is. So `row._make` takes what `rows` gives by name. Raises TypeError for a path to no field."""
    if unknown := paths.keys() - set(row._fields):
        raise TypeError(f"{row.__name__} has no field {', '.join(sorted(unknown))}.")
    return tuple(paths.get(field, field) for field in row._fields)
