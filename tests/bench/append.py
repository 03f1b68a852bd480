"""`bench append`: one message with everything that belongs to it, against one bare INSERT of the same bytes."""

from collections.abc import Sequence
from contextlib import closing
from typing import Any

import psycopg
from psycopg import sql

from openvibe.chat.models import Thread
from openvibe.chat.services import post_message
from openvibe.engines.llm.tokens import count_tokens
from openvibe.engines.search.lexemes import BODY, make_tsvector
from tests.bench.bare_sql import bare_sql_step
from tests.bench.corpus import MESSAGE_COLUMNS, BenchWorkspace, make_bench_workspace, make_thread, vacuum_messages
from tests.bench.measurement import Aim, Measurement, Report, Step, interleaved_medians, profile_shares
from tests.bench.scratch_database import connect_bare

SIZES = (100, 1_000, 10_000, 100_000)
MAX_FLOOR_RATIO = 4.0
MAX_GROWTH = 1.15
RECORDED_POSTS = 5
"""Messages whose statements are sent again, in turn, by the bare connection."""

PROFILED_FUNCTIONS = (
    ("SQL, driver included", "base/prepared_statements.py", "fetch_prepared"),
    ("the commit", "psycopg/connection.py", "commit"),
    ("message, mentions, reading place and draft", "chat/services/messages.py", "_insert_message"),
    ("asking which agents answer", "agents/receivers.py", "start_runs"),
)
BARE_TABLE = """CREATE TABLE IF NOT EXISTS bench_message
(LIKE chat_message INCLUDING DEFAULTS INCLUDING IDENTITY, PRIMARY KEY (id))"""


def measure_append(*, sizes: Sequence[int] = SIZES, repeats: int = 200, warm_up: int = 20) -> Report:
    """`post_message` with a mention in threads of growing length: one committed transaction.

    In it: the message with its count, number and text index, the mention, the event for open pages, the author's
    reading place, and the draft that is done. A member is named, so no run is part of it.
    The floor is one INSERT in autocommit into a table of the same columns that has a primary key and nothing else.
    Beside it stand the statements of a post in bare SQL, in one transaction each.
    """
    world = make_bench_workspace()
    threads = {size: make_thread(world, size) for size in sizes}
    vacuum_messages()
    with closing(connect_bare()) as connection:
        connection.execute(BARE_TABLE)
        steps: dict[str, Step] = {"floor": _insert_step(world, connection)}
        for size, thread in threads.items():
            post = _post_step(world, thread)
            steps[f"bare SQL {size}"] = bare_sql_step(connection, [post] * RECORDED_POSTS, is_transaction=True)
            steps[f"append {size}"] = post
        medians = interleaved_medians(steps, repeats=repeats, warm_up=warm_up)
    floor = medians["floor"]
    rows = [Measurement("floor: one bare INSERT", floor, "ms")]
    for size in sizes:
        milliseconds, sql_milliseconds = medians[f"append {size}"], medians[f"bare SQL {size}"]
        statements = f"a thread of {size:,}: the statements of a message in bare SQL"
        rows.append(Measurement(statements, sql_milliseconds, "ms", sql_milliseconds / floor))
        rows.append(Measurement(f"a message into a thread of {size:,}", milliseconds, "ms", milliseconds / floor))
    profiled_step = _post_step(world, threads[sizes[-1]])
    rows += profile_shares(
        profiled_step, repeats=min(repeats, 100), total_of="post_message", functions=PROFILED_FUNCTIONS
    )
    ratios = [medians[f"append {size}"] / floor for size in sizes]
    aims = (
        Aim("a message costs at most so many times a bare INSERT", max(ratios), MAX_FLOOR_RATIO),
        Aim(f"time at {sizes[-1]:,} messages over time at {sizes[0]:,}", ratios[-1] / ratios[0], MAX_GROWTH),
    )
    return Report("append", rows, aims)


def _message_body(world: BenchWorkspace) -> str:
    return f"@dora {world.language.message()}"


def _post_step(world: BenchWorkspace, thread: Thread) -> Step:
    by = world.by
    return lambda: post_message(thread=thread, by=by, body=_message_body(world))


def _insert_step(world: BenchWorkspace, bare: psycopg.Connection[Any]) -> Step:
    statement = sql.SQL(
        "INSERT INTO bench_message ({}) VALUES (1, 1, 1, 'text', 'complete', %s, '', '', %s, now(), %s, 1)"
    ).format(sql.SQL(MESSAGE_COLUMNS))

    def insert() -> None:
        body = _message_body(world)
        lexemes = make_tsvector((body, BODY))
        bare.execute(statement, [body, count_tokens(body), lexemes])

    return insert
