"""Floors in bare SQL, on a plain psycopg connection: the very statements that a step of ours sends, with their values,
and nothing else. What the step takes beyond them is the price of our code. Beside them stands one range read of as many
bytes, which tells machines apart."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from itertools import cycle
from typing import Any, NamedTuple

import psycopg
from django.db import connection

from openvibe.chat.models import Thread
from openvibe.engines.database.prepared_statements import number_placeholders
from tests.bench.measurement import Step


class Statement(NamedTuple):
    """What was sent, with its values. `is_prepared`: planned once, with `$1` for its first value; else planned anew for
    these values, as ours is where they decide on the plan."""

    text: Any
    values: Any
    is_prepared: bool


def range_read_step(bare: psycopg.Connection[Any], thread: Thread, size: int) -> Step:
    """Reads the newest messages of the thread, about `size` bytes."""
    row = bare.execute(
        "SELECT count(*) + 1 FROM (SELECT sum(octet_length(body)) OVER (ORDER BY seq DESC) AS bytes"
        " FROM chat_message WHERE thread_id = %s ORDER BY seq DESC LIMIT 2000) AS newest WHERE bytes < %s",
        [thread.pk, size],
    ).fetchone()
    read = "SELECT body FROM chat_message WHERE thread_id = %s AND seq BETWEEN %s AND %s ORDER BY seq"
    between = [thread.pk, max(thread.last_seq - (row[0] if row else 0) + 1, 1), thread.last_seq]
    return lambda: bare.execute(read, between).fetchall()


def bare_sql_step(bare: psycopg.Connection[Any], steps: Sequence[Step], *, is_transaction: bool = False) -> Step:
    """Sends what each of these steps sent just now, one step after the other; in one transaction where they write."""
    for step in steps:
        step()  # what a process looks up once, it looks up here
    turn = cycle([record_statements(step) for step in steps])
    bare.execute("SET plan_cache_mode = force_generic_plan")  # as our own sessions: else long ones are planned anew
    prepared, planned_anew = psycopg.RawCursor(bare), psycopg.ClientCursor(bare)

    def run() -> None:
        with bare.transaction() if is_transaction else nullcontext():
            for text, values, is_prepared in next(turn):
                cursor: psycopg.Cursor[Any] = prepared if is_prepared else planned_anew
                cursor.execute(text, values, prepare=is_prepared)
                if cursor.description:
                    cursor.fetchall()

    return run


def record_statements(step: Step) -> list[Statement]:
    """What the step sends to the database, in order."""
    statements: list[Statement] = []

    def note(execute: Callable[..., Any], statement: str, values: Any, many: bool, context: Any) -> Any:
        if isinstance(context["cursor"].cursor, psycopg.RawCursor):  # the one of our prepared statements
            numbered, keys = number_placeholders(statement)
            statements.append(Statement(numbered, [values[key] for key in keys], True))
        else:
            statements.append(Statement(statement, values, False))
        return execute(statement, values, many, context)

    with connection.execute_wrapper(note):
        step()
    return statements
