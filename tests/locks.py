"""Waiting for what waits: two sessions of which one holds what the other wants."""

from threading import Thread
from time import monotonic

from django.db import connection

BLOCKED = "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND pg_backend_pid() = ANY(pg_blocking_pids(pid)))"


def wait_until_blocked(other: Thread) -> None:
    """Waits until another session, that of the thread, waits for a lock of ours. Fails when it ends before, or after 30
    s."""
    given_up = monotonic() + 30
    with connection.cursor() as cursor:
        while True:
            cursor.execute(BLOCKED)
            if cursor.fetchone()[0]:
                return
            assert other.is_alive(), "it did not wait"
            assert monotonic() < given_up, "it does not wait"
