"""Floors in bare SQL, on a plain psycopg connection: one range read of as many bytes, and the very statements that a
step of ours runs, with their values, and nothing else: the rest of the step is the price of our code."""

from collections.abc import Callable, Sequence
from itertools import cycle
from typing import Any

import psycopg
from django.db import connection

from openvibe.chat.models import Thread
from openvibe.engines.database.prepared_statements import number_placeholders
from tests.bench.measurement import Step

Statement = tuple[bytes, list[Any]]


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


def bare_sql_step(bare: psycopg.Connection[Any], steps: Sequence[Step]) -> Step:
    """Runs what each of these steps ran just now, one step after the other."""
    for step in steps:
        step()  # what a process looks up once, it looks up here
    turn = cycle([_statements(step) for step in steps])
    bare.execute("SET plan_cache_mode = force_generic_plan")  # as our own sessions: else long ones are planned anew
    cursor = psycopg.RawCursor(bare)

    def run() -> None:
        for statement, values in next(turn):
            cursor.execute(statement, values, prepare=True).fetchall()

    return run


def _statements(step: Step) -> list[Statement]:
    statements: list[Statement] = []

    def note(execute: Callable[..., Any], statement: str, values: Any, many: bool, context: Any) -> Any:
        numbered, keys = number_placeholders(statement)
        statements.append((numbered, [values[key] for key in keys]))
        return execute(statement, values, many, context)

    with connection.execute_wrapper(note):
        step()
    return statements
