"""Who carries a run out: the worker whose database session holds the run's advisory lock.

PostgreSQL drops the lock the moment the worker dies, however it dies, so an active run whose lock is free has no
owner. (A pooler in transaction mode would break this promise; docs/operations.md says so.)
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from django.db import DatabaseError, connection

RUNS = 7002 << 40
"""Keeps these locks apart from others in PostgreSQL's one space of 64-bit keys."""


@contextmanager
def owned(run_id: int) -> Iterator[bool]:
    """True while this session owns the run; False when another does."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(%s)", [RUNS + run_id])
        (got,) = cursor.fetchone()
    try:
        yield bool(got)
    finally:
        if got:
            with suppress(DatabaseError), connection.cursor() as cursor:
                cursor.execute("SELECT pg_advisory_unlock(%s)", [RUNS + run_id])
