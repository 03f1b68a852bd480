"""Who does a piece of work: the worker whose database session holds its advisory lock.

PostgreSQL drops the lock the moment the worker dies, however it dies, so work that is said to be under way but whose
lock is free has no owner. (A pooler in transaction mode would break this promise; docs/operations.md says so.)
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from django.db import DatabaseError, connection


@contextmanager
def owned(key: int) -> Iterator[bool]:
    """True while this session owns the work of this 64-bit key; False when another does.

    Each kind of work keeps a space of keys to itself: a number shifted left by 40, plus the id of a row.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(%s)", [key])
        (got,) = cursor.fetchone()
    try:
        yield bool(got)
    finally:
        if got:
            with suppress(DatabaseError), connection.cursor() as cursor:
                cursor.execute("SELECT pg_advisory_unlock(%s)", [key])
