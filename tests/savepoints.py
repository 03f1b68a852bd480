"""Savepoints, of which most tests have ten and more: inside a test's own transaction every transaction of the code it
calls is one."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db.backends.base.base import BaseDatabaseWrapper
from psycopg.pq import ExecStatus, TransactionStatus

COMMANDS = {
    "_savepoint": "SAVEPOINT",
    "_savepoint_commit": "RELEASE SAVEPOINT",
    "_savepoint_rollback": "ROLLBACK TO SAVEPOINT",
}


def sent_directly(command: str, by_cursor: Callable[[Any, str], None]) -> Callable[[Any, str], None]:
    """What does the same as Django's `by_cursor` in a ninth of its time: no cursor is made for words without values.

    Where statements are counted, or refused, and where the server does not take it, Django's own is called."""

    def send(wrapper: Any, savepoint: str) -> None:
        is_watched = wrapper.queries_logged or wrapper.execute_wrappers
        pgconn = None if is_watched or wrapper.connection is None else wrapper.connection.pgconn
        if pgconn is not None and pgconn.transaction_status == TransactionStatus.INTRANS:
            result = pgconn.exec_(f"{command} {wrapper.ops.quote_name(savepoint)}".encode())
            if result.status == ExecStatus.COMMAND_OK:
                return
        by_cursor(wrapper, savepoint)

    return send


@contextmanager
def savepoints_without_cursors() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name, command in COMMANDS.items():
            patch.setattr(BaseDatabaseWrapper, name, sent_directly(command, getattr(BaseDatabaseWrapper, name)))
        yield
