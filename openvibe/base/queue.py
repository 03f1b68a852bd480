"""The job queue inside PostgreSQL: where it is, its one-time install, and Celery's transport to it.

Unused when CELERY_BROKER_URL is set."""

import os
import re
from typing import Any

import psycopg
from django.conf import settings
from django.db import connections
from kombu.transport import pgmq
from pgmq.install import install_pgmq_from_sql
from psycopg.conninfo import make_conninfo

INSTALL_LOCK = 0x6F70_656E_7669_6265  # an advisory lock of our own: one installer at a time
CONNECTION_PARAMETERS = ("host", "port", "user", "password", "dbname")
TLS_PARAMETERS = ("sslmode", "sslrootcert", "sslcert", "sslkey")


def queue_is_in_database() -> bool:
    """Whether jobs wait in PostgreSQL (the default) rather than in an outside broker."""
    return str(settings.CELERY_BROKER_URL).startswith("pgmq:")


def queue_conninfo(using: str = "default") -> str:
    """A libpq connection string to the database Django uses, tests included; starts the embedded server if need be.

    Made for pgmq, which takes it apart and puts it together again without quotes and without TLS options: values are
    quoted twice, and TLS options travel in libpq's own environment variables.
    """
    parameters = connections[using].get_connection_params()
    for key in TLS_PARAMETERS:
        if parameters.get(key):
            os.environ.setdefault(f"PG{key.upper()}", str(parameters[key]))
    conninfo = {key: str(parameters[key]) for key in CONNECTION_PARAMETERS if parameters.get(key)}
    return make_conninfo(**{key: _quote(value) for key, value in conninfo.items()})


def _quote(value: str) -> str:
    if not re.search(r"[\s'\\]", value):
        return value
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def install_queue(*, using: str = "default", **_signal: Any) -> None:
    """Creates the queue's tables and functions unless they are there. Safe to call again and from several processes.

    Also a receiver of Django's `post_migrate`.
    """
    if not queue_is_in_database() or queue_is_installed(using=using):
        return
    connection = connections[using]
    with psycopg.connect(**connection.get_connection_params()) as fresh:  # the install needs a transaction of its own
        fresh.execute("SELECT pg_advisory_xact_lock(%s)", [INSTALL_LOCK])
        if not queue_is_installed(using=using):
            install_pgmq_from_sql(conn=fresh)


def queue_is_installed(*, using: str = "default") -> bool:
    with connections[using].cursor() as cursor:
        cursor.execute("SELECT to_regclass('pgmq.meta') IS NOT NULL")
        return bool(cursor.fetchone()[0])


DRAIN_TIMEOUT = 0.5  # a new job wakes the worker at once; this is how long Ctrl-C may go unnoticed
BUSY_DRAIN_TIMEOUT = 0.02  # of a worker that takes no more jobs: one it has finished is noticed here, and asks nothing


class Channel(pgmq.Channel):
    def _maybe_enable_notify(self, queue: Any, queue_name: str | None = None) -> None:
        """Listen for new jobs only where jobs are taken. kombu does it where a queue is declared, too: a connection
        that only sends them never reads what it hears, until its database session hangs and holds up others."""
        parent: Any = super()
        if queue_name is None:
            parent._maybe_enable_notify(queue)


class Transport(pgmq.Transport):
    """Registered under `pgmq` by openvibe/celery.py."""

    Channel = Channel

    def drain_events(self, connection: Any, timeout: float | None = None, **_options: Any) -> None:
        """Delivers what has come; raises `socket.timeout` when nothing came, which Celery takes as a pause."""
        takes_more = all(channel.qos.can_consume() for channel in self.channels or ())
        drain_timeout = min(timeout or DRAIN_TIMEOUT, DRAIN_TIMEOUT if takes_more else BUSY_DRAIN_TIMEOUT)
        super().drain_events(connection, timeout=drain_timeout)  # type: ignore[no-untyped-call]
