"""Runs prepared statements: the server plans each once in a connection instead of every time.

For few, fixed texts whose best plan does not depend on their values; planning those takes longer than
running them. Left to itself the server would go on planning the long ones each time."""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from select import POLLIN, POLLOUT, poll
from typing import Any, Self

import psycopg
from django.db import DEFAULT_DB_ALIAS, connection, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created
from django.db.backends.utils import CursorWrapper
from django.dispatch import receiver
from psycopg import adapt
from psycopg._preparing import Prepare, PrepareManager
from psycopg._queries import PostgresQuery
from psycopg.abc import Transformer
from psycopg.adapt import PyFormat
from psycopg.errors import error_from_result
from psycopg.pq import ConnStatus, DiagnosticField, ExecStatus, Format, TransactionStatus
from psycopg.pq.abc import PGconn, PGresult

_PLACEHOLDER = re.compile(r"(%s|%\(\w+\)s|%%)")


@receiver(connection_created, dispatch_uid="openvibe.generic_plans")
def plan_once(connection: BaseDatabaseWrapper, **_: object) -> None:
    """One plan for all values of a prepared statement. Set as a connection opens: a transaction would take it back."""
    if not connection.settings_dict.get("DISABLE_SERVER_SIDE_CURSORS"):
        with connection.cursor() as cursor:
            cursor.execute("SET plan_cache_mode = force_generic_plan")
        connection.connection._prepared = _StatementsOfConnection()
        vars(connection)["_transformer"] = adapt.Transformer(connection.connection)  # on the driver: a circle


class _StatementsOfConnection(PrepareManager):
    """What is prepared in a connection stays through a rollback, as it does on the server.

    The driver would forget all of it, lest the transaction had created what a statement reads: one refused form, and
    the next requests of that thread would plan everything anew. Only what changes tables makes it forget here, too."""

    def clear(self) -> bool:
        return False

    def _should_discard(self, prep: Prepare, results: Sequence[PGresult], *_: object) -> bool:
        changes_tables = any((result.command_status or b"").startswith(_CHANGES_OF_TABLES) for result in results)
        return changes_tables and super().clear()

    def forget(self, query: PostgresQuery) -> None:
        """Prepares this one anew next time: its rows have other types by now, and the server refuses the old plan."""
        if name := self._names.pop(self.key(query), None):
            self._to_flush.append(name)

    def fetch(
        self, driver: psycopg.Connection[Any], transformer: Transformer, statement: bytes, values: Sequence[Any]
    ) -> list[tuple[Any, ...]] | None:
        """All rows of what is prepared already, by one call of libpq: a cursor takes longer than most of these
        statements, and hands the interpreter to other threads three times. None where only a cursor will do: nothing
        is prepared, or the server refuses the old plan. Raises the driver's errors."""
        pgconn = driver.pgconn
        parameters: Any = transformer.dump_sequence(values, _AUTO * len(values))
        key = (statement, transformer.types or ())
        if (name := self._names.get(key)) is None:
            return None
        self._names.move_to_end(key)
        if pgconn.transaction_status == TransactionStatus.IDLE and not driver.autocommit:
            result = _begin_and_execute(pgconn, driver._get_tx_start_command(), name, parameters, transformer.formats)
        else:
            result = pgconn.exec_prepared(name, parameters, transformer.formats)
        if result.status == ExecStatus.TUPLES_OK:
            transformer.set_pgresult(result)
            return transformer.load_rows(0, result.ntuples, tuple)
        if pgconn.status == ConnStatus.BAD or not result.error_field(DiagnosticField.SQLSTATE):
            pgconn.finish()  # libpq's own error: it could not write, and may not have noticed the end yet
            raise psycopg.OperationalError(result.get_error_message())
        error = error_from_result(result, driver.info.encoding)
        if isinstance(error, psycopg.errors.FeatureNotSupported):
            self._to_flush.append(self._names.pop(key))
            if pgconn.transaction_status == TransactionStatus.IDLE:
                return None
        raise error


def _begin_and_execute(
    pgconn: PGconn, begin: bytes, name: bytes, parameters: Any, formats: Sequence[Format] | None
) -> PGresult:
    """What the first statement of a transaction gives. BEGIN goes to the server with it: one round trip for two.

    Other threads run meanwhile. Raises the driver's OperationalError where the connection is lost."""
    try:
        pgconn.enter_pipeline_mode()
        pgconn.send_query_params(begin, None)
        pgconn.send_query_prepared(name, parameters, formats)
        pgconn.pipeline_sync()
        results = [_wait_for_result(pgconn) for _ in range(5)]  # BEGIN, its end, the statement, its end, the sync
        if pgconn.status == ConnStatus.BAD or results[0] is None or results[2] is None:
            raise psycopg.OperationalError(pgconn.get_error_message() or "the connection was lost")
        pgconn.exit_pipeline_mode()
    except BaseException:  # interrupted, or lost: what the server has still to say belongs to no other statement
        pgconn.finish()
        raise
    return results[2] if results[0].status == ExecStatus.COMMAND_OK else results[0]


def _wait_for_result(pgconn: PGconn) -> PGresult | None:
    """The next one. `get_result` would wait, too, but with Python's lock in its hand: no other thread could go on, not
    even the one whose transaction this one waits for."""
    while pgconn.flush() or pgconn.is_busy():
        socket = poll()
        socket.register(pgconn.socket, POLLIN | (POLLOUT if pgconn.flush() else 0))
        socket.poll()
        pgconn.consume_input()
    return pgconn.get_result()


_AUTO = [PyFormat.AUTO]
_CHANGES_OF_TABLES = (b"DROP", b"ALTER", b"DISCARD ALL", b"DEALLOCATE ALL")
_NEVER_PREPARE = 1_000_000_000
"""Runs before the driver prepares a statement unasked."""


def fetch_prepared(statement: str, values: Sequence[Any] | Mapping[str, Any]) -> list[tuple[Any, ...]]:
    """All rows of a statement, as the database driver gives them."""
    wrapper = connections[DEFAULT_DB_ALIAS]  # looked up once: `connection` looks it up for each of its attributes
    _close_if_ended(wrapper)
    wrapper.ensure_connection()
    statements = getattr(wrapper.connection, "_prepared", None)
    if isinstance(statements, _StatementsOfConnection) and not (wrapper.queries_logged or wrapper.execute_wrappers):
        wrapper.validate_no_broken_transaction()
        by_key: Any = values
        numbered_statement, keys = number_placeholders(statement)
        with wrapper.wrap_database_errors:
            transformer = vars(wrapper)["_transformer"]
            direct = statements.fetch(
                wrapper.connection, transformer, numbered_statement, [by_key[key] for key in keys]
            )
        if direct is not None:
            return direct
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
            statements: Any = self.connection._prepared
            statements.forget(self._convert_query(numbered_query, values))
            if self.connection.info.transaction_status != TransactionStatus.IDLE:
                raise
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
