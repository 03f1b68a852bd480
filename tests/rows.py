"""Writes the rows of the cast: most tests begin with a dozen of them."""

from __future__ import annotations

from functools import cache
from typing import Any, TypeVar

from django.db import connection
from django.db.models import Field, Model
from django.db.models.expressions import DatabaseDefault

from openvibe.base.prepared_statements import fetch_prepared

ModelT = TypeVar("ModelT", bound=Model)


def insert(row: ModelT) -> ModelT:
    """Writes a new row as `row.save()` does, by a statement made once for each model: a third of its time."""
    fields, values = [], []
    for field in row._meta.local_concrete_fields:
        value = field.pre_save(row, add=True)
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


@cache
def _insert_statement(model: type[Model], fields: tuple[Field[Any, Any], ...]) -> tuple[str, list[Field[Any, Any]]]:
    """It, and the fields whose values it gives back."""
    returned = [field for field in model._meta.db_returning_fields if field not in fields] or [model._meta.pk]
    columns, places = ", ".join(f'"{field.column}"' for field in fields), ", ".join(["%s"] * len(fields))
    answer = ", ".join(f'"{field.column}"' for field in returned)
    return f'INSERT INTO "{model._meta.db_table}" ({columns}) VALUES ({places}) RETURNING {answer}', returned
