"""Runs prepared statements: the server plans each once in a connection instead of every time.

For few, fixed texts whose best plan does not depend on their values; planning those takes longer than
running them. Left to itself the server would go on planning the long ones each time."""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from select import POLLIN, poll
from typing import Any, Self

import psycopg
from django.db import DEFAULT_DB_ALIAS, connection, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created
from django.db.backends.utils import CursorWrapper
from django.dispatch import receiver
from psycopg.pq import TransactionStatus

_PLACEHOLDER = re.compile(r"(%s|%\(\w+\)s|%%)")


@receiver(connection_created, dispatch_uid="openvibe.generic_plans")
def plan_once(connection: BaseDatabaseWrapper, **_: object) -> None:
    """One plan for all values of a prepared statement. Set as a connection opens: a transaction would take it back."""
    if not connection.settings_dict.get("DISABLE_SERVER_SIDE_CURSORS"):
        with connection.cursor() as cursor:
            cursor.execute("SET plan_cache_mode = force_generic_plan")


_NEVER_PREPARE = 1_000_000_000
"""Runs before the driver prepares a statement unasked."""


def fetch_prepared(statement: str, values: Sequence[Any] | Mapping[str, Any]) -> list[tuple[Any, ...]]:
    """All rows of a statement, as the database driver gives them."""
    wrapper = connections[DEFAULT_DB_ALIAS]
    _close_if_ended(wrapper)
    wrapper.ensure_connection()
    with _prepared_cursor(wrapper) as cursor:
        cursor.execute(statement, values)
        rows: list[tuple[Any, ...]] = cursor.fetchall()
        return rows


def _close_if_ended(wrapper: BaseDatabaseWrapper) -> None:
    """Closes a connection whose server is gone, so that the next statement has a new one. Nobody is asked: a line on
    which something waits to be read between two statements has ended, or nearly always. Not one that owns work
    (`advisory_lock`, which lets it grow as old as it likes): its locks are gone, and whoever works must hear of it."""
    driver = wrapper.connection
    if driver is None or driver.closed or wrapper.in_atomic_block or wrapper.close_at is None:
        return
    line = poll()
    line.register(driver.pgconn.socket, POLLIN)
    if line.poll(0) and not wrapper.is_usable():
        wrapper.close()


def fetch_unprepared(statement: str, values: Sequence[Any] | Mapping[str, Any]) -> list[tuple[Any, ...]]:
    """All rows of a statement whose best plan depends on its values: it is planned for these."""
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        return list(cursor.fetchall())


class _PreparedCursor(psycopg.RawCursor[Any]):
    """Numbers the placeholders once: the driver would look through a long statement each time."""

    def execute(self, query: Any, params: Any = None, **options: Any) -> Self:
        numbered_query, keys = number_placeholders(query)
        values = [params[key] for key in keys]
        try:
            return super().execute(numbered_query, values, prepare=True)
        except psycopg.errors.FeatureNotSupported:  # a migration changed the type of a column it gives
            if self.connection.info.transaction_status != TransactionStatus.IDLE:
                raise
            self.connection.execute("DEALLOCATE ALL")  # the driver then forgets what is prepared
            return super().execute(numbered_query, values, prepare=True)


@lru_cache(maxsize=1_024)
def number_placeholders(statement: str) -> tuple[bytes, tuple[str | int, ...]]:
    """The statement with `$1` for its first placeholder; the name of each, or its position where it has none."""
    keys: dict[str | int, int] = {}
    parts = _PLACEHOLDER.split(statement)
    for index in range(1, len(parts), 2):
        if parts[index] == "%%":
            parts[index] = "%"
        else:
            key = parts[index][2:-2] or len(keys)
            parts[index] = f"${keys.setdefault(key, len(keys) + 1)}"
    return "".join(parts).encode(), tuple(keys)


def _prepared_cursor(wrapper: BaseDatabaseWrapper) -> CursorWrapper:
    """A cursor of Django's connection, errors as ever. An ordinary one while statements are logged, so that the log
    shows them with their values; and behind a pooler that shares connections, where nothing may be prepared (Django's
    own setting for that)."""
    driver = wrapper.connection
    has_pooler = wrapper.settings_dict.get("DISABLE_SERVER_SIDE_CURSORS")
    if wrapper.queries_logged or has_pooler or driver is None:
        return wrapper.cursor()
    driver.prepare_threshold = _NEVER_PREPARE
    cursor: Any = _PreparedCursor(driver)
    return wrapper.make_cursor(cursor)
