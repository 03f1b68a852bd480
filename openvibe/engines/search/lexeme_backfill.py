"""Lexemes in the background: of rows that were written past `save`, and of those from before the tokenizer changed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from django.apps import apps
from django.db import connection, models, transaction
from psycopg import sql

from openvibe.engines.search.lexeme_fields import LexemesField
from openvibe.engines.search.lexemes import VERSION, make_tsvector

BATCH_SIZE = 200
"""Rows in one transaction: a text has at most 400 kB."""

TURN_SECONDS = 8.0
"""What waits longer is gone on with at the next turn, so that no worker is kept from answering people."""

_SELECT_DUE = """SELECT id, {columns} FROM {table} WHERE lexemes_version = 0 ORDER BY id DESC LIMIT %s
FOR NO KEY UPDATE SKIP LOCKED"""

_UPDATE = """UPDATE {table} t SET search = made.lexemes::tsvector, lexemes_version = %s
FROM unnest(%s::bigint[], %s::text[]) made (id, lexemes) WHERE t.id = made.id"""


def backfill_lexemes(*, seconds: float = TURN_SECONDS) -> int:
    """Makes the lexemes of rows that wait for them, the newest first; returns of how many. Goes on where it was
    stopped, and takes the memory of one batch."""
    until = time.monotonic() + seconds
    total = 0
    for model, field in _lexeme_fields():
        while filled := _fill_batch(model, field):
            total += filled
            if time.monotonic() > until:
                return total
    return total


def _lexeme_fields() -> Iterator[tuple[type[models.Model], LexemesField]]:
    for model in apps.get_models():
        for field in model._meta.concrete_fields:
            if isinstance(field, LexemesField):
                yield model, field


@transaction.atomic
def _fill_batch(model: type[models.Model], field: LexemesField) -> int:
    names = {
        "table": sql.Identifier(model._meta.db_table),
        "columns": sql.SQL(", ").join(map(sql.Identifier, field.sources)),
    }
    weights = tuple(field.sources.values())
    with connection.cursor() as cursor:
        cursor.execute(sql.SQL(_SELECT_DUE).format(**names).as_string(), [BATCH_SIZE])
        rows: list[tuple[Any, ...]] = cursor.fetchall()
        if rows:
            lexemes = [make_tsvector(*zip(texts, weights, strict=True)) for _, *texts in rows]
            cursor.execute(sql.SQL(_UPDATE).format(**names).as_string(), [VERSION, [row[0] for row in rows], lexemes])
    return len(rows)
