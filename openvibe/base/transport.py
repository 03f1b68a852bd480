"""Celery's road to the queue in PostgreSQL: kombu's, which looks up more often to see whether it should stop."""

from typing import Any

from kombu.transport import pgmq

LOOK_UP_SECONDS = 0.5  # a new job wakes the worker at once; this is how long Ctrl-C may go unnoticed


class Transport(pgmq.Transport):
    """Registered under `pgmq` by openvibe/celery.py."""

    def drain_events(self, connection: Any, timeout: float | None = None, **_options: Any) -> None:
        """Delivers what has come; raises `socket.timeout` when nothing came, which Celery takes as a pause."""
        within = min(timeout or LOOK_UP_SECONDS, LOOK_UP_SECONDS)
        super().drain_events(connection, timeout=within)  # type: ignore[no-untyped-call]
