"""Writes the rows of the cast: most tests begin with a dozen of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from functools import cache
from typing import Any, TypeVar

from django.db import connection
from django.db.models import Field, Model
from django.db.models.expressions import DatabaseDefault

from openvibe.engines.database.prepared_statements import fetch_prepared

ModelT = TypeVar("ModelT", bound=Model)


def insert(row: ModelT) -> ModelT:
    """Writes a new row as `row.save()` does, by a statement made once for each model: a third of its time."""
    fields, values = [], []
    for field in row._meta.local_concrete_fields:
        value = None if field.generated else field.pre_save(row, add=True)
        is_left_to_database = (
            field.generated or isinstance(value, DatabaseDefault) or (field.primary_key and value is None)
        )
        if not is_left_to_database:
            fields.append(field)
            values.append(field.get_db_prep_save(value, connection))
    statement, returned = _insert_statement(type(row), tuple(fields))
    for field, value in zip(returned, fetch_prepared(statement, values)[0], strict=True):
        setattr(row, field.attname, value)
    row._state.adding, row._state.db = False, connection.alias
    return row


def insert_all(rows: Sequence[Model]) -> None:
    """Writes many new rows of one model as `bulk_create` does, in a third of its time: the server is sent them as JSON.

    What the first row leaves to the database, all do. Rows know their keys afterwards."""
    if not rows:
        return
    model = type(rows[0])
    fields = [
        field
        for field in model._meta.local_concrete_fields
        if not (field.generated or field.primary_key or isinstance(getattr(rows[0], field.attname), DatabaseDefault))
    ]
    values = [{field.column: field.get_prep_value(field.pre_save(row, add=True)) for field in fields} for row in rows]
    keys = fetch_prepared(_insert_all_statement(model, tuple(fields)), [json.dumps(values, default=_time_as_text)])
    for row, (key,) in zip(rows, keys, strict=True):
        row.pk = key
        row._state.adding, row._state.db = False, connection.alias


def _time_as_text(value: object) -> str:
    assert isinstance(value, datetime), f"{value!r} has no place in JSON"
    return value.isoformat()


@cache
def _insert_all_statement(model: type[Model], fields: tuple[Field[Any, Any], ...]) -> str:
    table, key = model._meta.db_table, model._meta.pk.column
    columns = ", ".join(f'"{field.column}"' for field in fields)
    return (
        f'INSERT INTO "{table}" ({columns}) SELECT {columns} FROM json_populate_recordset(NULL::"{table}", %s::json)'
        f' RETURNING "{key}"'
    )


@cache
def _insert_statement(model: type[Model], fields: tuple[Field[Any, Any], ...]) -> tuple[str, list[Field[Any, Any]]]:
    """The statement, and the fields whose values it gives back."""
    returned = [field for field in model._meta.db_returning_fields if field not in fields] or [model._meta.pk]
    columns, places = ", ".join(f'"{field.column}"' for field in fields), ", ".join(["%s"] * len(fields))
    answer = ", ".join(f'"{field.column}"' for field in returned)
    return f'INSERT INTO "{model._meta.db_table}" ({columns}) VALUES ({places}) RETURNING {answer}', returned
