"""`bench append`: one message with everything that belongs to it, against one bare INSERT of the same bytes."""

from collections.abc import Sequence
from contextlib import closing
from typing import Any

import psycopg
from psycopg import sql

from agents.bench.content import COLUMNS, World, make_thread, make_world, settle
from agents.bench.profiling import shares
from agents.bench.report import Aim, Report, Row
from agents.bench.scratch import bare_connection
from agents.bench.timing import Step, interleaved
from openvibe.chat.models import Thread
from openvibe.chat.services import post_message
from openvibe.llm.tokens import count

SIZES = (100, 1_000, 10_000, 100_000)
MOST_OF_FLOOR = 2.2
MOST_GROWTH = 1.15
PLACES = (
    ("SQL, driver included", "psycopg/cursor.py", "execute"),
    ("the commit", "psycopg/connection.py", "commit"),
    ("message, mentions, reading place and draft", "chat/services/messages.py", "_said"),
    ("asking which agents answer", "agents/receivers.py", "answer"),
)
BARE_TABLE = """CREATE TABLE IF NOT EXISTS bench_message
(LIKE chat_message INCLUDING DEFAULTS INCLUDING IDENTITY, PRIMARY KEY (id))"""


def measure_append(*, sizes: Sequence[int] = SIZES, repeats: int = 200, warm_up: int = 20) -> Report:
    """`post_message` with a mention in threads of growing length: one committed transaction.

    In it: the message with its count, number and text index, the mention, the event for open pages, the author's
    reading place, and the draft that is done. A member is named, so no run is part of it.
    The floor is one INSERT in autocommit into a table of the same columns that has a primary key and nothing else.
    """
    world = make_world()
    threads = {size: make_thread(world, size) for size in sizes}
    settle()
    with closing(bare_connection()) as bare:
        bare.execute(BARE_TABLE)
        steps: dict[str, Step] = {"floor": _inserting(world, bare)}
        steps |= {f"append {size}": _posting(world, thread) for size, thread in threads.items()}
        medians = interleaved(steps, repeats=repeats, warm_up=warm_up)
    floor = medians["floor"]
    rows = [Row("floor: one bare INSERT", floor, "ms")]
    for size in sizes:
        taken = medians[f"append {size}"]
        rows.append(Row(f"a message into a thread of {size:,}", taken, "ms", taken / floor))
    again = _posting(world, threads[sizes[-1]])
    rows += shares(again, repeats=min(repeats, 100), whole="post_message", places=PLACES)
    ratios = [medians[f"append {size}"] / floor for size in sizes]
    aims = (
        Aim("a message costs at most so many times a bare INSERT", max(ratios), MOST_OF_FLOOR),
        Aim(f"time at {sizes[-1]:,} messages over time at {sizes[0]:,}", ratios[-1] / ratios[0], MOST_GROWTH),
    )
    return Report("append", rows, aims)


def _text(world: World) -> str:
    return f"@dora {world.language.message()}"


def _posting(world: World, thread: Thread) -> Step:
    by = world.by
    return lambda: post_message(thread=thread, by=by, body=_text(world))


def _inserting(world: World, bare: psycopg.Connection[Any]) -> Step:
    statement = sql.SQL(
        "INSERT INTO bench_message ({}) VALUES (1, 1, 1, 'text', 'complete', %s, '', '', %s, now())"
    ).format(sql.SQL(COLUMNS))

    def insert() -> None:
        body = _text(world)
        bare.execute(statement, [body, count(body)])

    return insert
