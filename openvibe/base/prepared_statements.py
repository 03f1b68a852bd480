"""Runs prepared statements: the server plans each once in a connection instead of every time.

For few, fixed texts of reads whose best plan does not depend on their values; planning those takes longer than
running them."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

import psycopg
from django.db import connection
from django.db.backends.utils import CursorWrapper


def fetch_prepared(statement: str, values: Sequence[Any] | Mapping[str, Any]) -> list[tuple[Any, ...]]:
    """All rows of a statement, as the database driver gives them."""
    with _prepared_cursor() as cursor:
        cursor.execute(statement, values)
        rows: list[tuple[Any, ...]] = cursor.fetchall()
        return rows


def fetch_unprepared(statement: str, values: Sequence[Any] | Mapping[str, Any]) -> list[tuple[Any, ...]]:
    """All rows of a statement whose best plan depends on its values: it is planned for these."""
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        return list(cursor.fetchall())


class _PreparedCursor(psycopg.Cursor[Any]):
    def execute(self, query: Any, params: Any = None, **options: Any) -> Self:
        return super().execute(query, params, prepare=True)


def _prepared_cursor() -> CursorWrapper:
    """A cursor of Django's connection, errors as ever. An ordinary one while statements are logged, so that the log
    shows them with their values; and behind a pooler that shares connections, where nothing may be prepared (Django's
    own setting for that)."""
    connection.ensure_connection()
    driver = connection.connection
    has_pooler = connection.settings_dict.get("DISABLE_SERVER_SIDE_CURSORS")
    if connection.queries_logged or has_pooler or driver is None:
        return connection.cursor()
    driver.prepare_threshold = 1_000_000_000  # runs before the driver prepares a statement unasked: never
    cursor: Any = _PreparedCursor(driver)
    return connection.make_cursor(cursor)
