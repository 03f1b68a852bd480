"""Who does a piece of work: the worker whose database session holds its advisory lock.

PostgreSQL drops the lock the moment the worker dies, however it dies, so work that is said to be under way but whose
lock is free has no owner. (A pooler in transaction mode would break this promise; docs/operations.md says so.)
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import IntEnum, unique

from django.db import DatabaseError, connection


@unique
class Piece(IntEnum):
    """Every kind of work that has one owner at a time. Each keeps a space of 64-bit keys to itself."""

    RUN = 7002  # an agent's run
    FOLDING = 7003  # the summaries of a conversation
    COMPACTION = 7004  # a compaction job
    REVIEW = 7005  # an agent that looks back
    MESSAGE_VECTORS = 7006  # the messages of a vector space that wait
    ENTRY_VECTORS = 7007  # its knowledge entries that wait
    SPACES = 7008  # vector spaces that become ready or are removed
    COMPARISON = 7009  # a knowledge entry that is compared with its neighbours


def key_of(piece: Piece, number: int) -> int:
    """The lock's key; `number` is the id of the row that is worked on."""
    return (piece << 40) + number


@contextmanager
def owned(piece: Piece, number: int) -> Iterator[bool]:
    """True while this session owns the work on row `number`; False when another does."""
    key = key_of(piece, number)
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(%s)", [key])
        (got,) = cursor.fetchone()
    try:
        yield bool(got)
    finally:
        if got:
            with suppress(DatabaseError), connection.cursor() as cursor:
                cursor.execute("SELECT pg_advisory_unlock(%s)", [key])
