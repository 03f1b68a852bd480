"""The job queue inside PostgreSQL: where it is, and its one-time install. Unused when CELERY_BROKER_URL is set."""

import os
import re
from typing import Any

import psycopg
from django.conf import settings
from django.db import connections
from pgmq.install import install_pgmq_from_sql
from psycopg.conninfo import make_conninfo

INSTALL_LOCK = 0x6F70_656E_7669_6265  # an advisory lock of our own: one installer at a time
CONNECTION_KEYS = ("host", "port", "user", "password", "dbname")
TLS_KEYS = ("sslmode", "sslrootcert", "sslcert", "sslkey")


def queue_is_in_database() -> bool:
    """Whether jobs wait in PostgreSQL (the default) rather than in an outside broker."""
    return str(settings.CELERY_BROKER_URL).startswith("pgmq:")


def queue_conninfo(using: str = "default") -> str:
    """A libpq connection string to the database Django uses, tests included; starts the embedded server if need be.

    Made for pgmq, which takes it apart and puts it together again without quotes and without TLS options: values are
    quoted twice, and TLS options travel in libpq's own environment variables.
    """
    parameters = connections[using].get_connection_params()
    for key in TLS_KEYS:
        if parameters.get(key):
            os.environ.setdefault(f"PG{key.upper()}", str(parameters[key]))
    given = {key: str(parameters[key]) for key in CONNECTION_KEYS if parameters.get(key)}
    return make_conninfo(**{key: _quoted(value) for key, value in given.items()})


def _quoted(value: str) -> str:
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
    with psycopg.connect(**connection.get_connection_params()) as apart:  # the install needs a transaction of its own
        apart.execute("SELECT pg_advisory_xact_lock(%s)", [INSTALL_LOCK])
        if not queue_is_installed(using=using):
            install_pgmq_from_sql(conn=apart)


def queue_is_installed(*, using: str = "default") -> bool:
    """Whether the database holds the queue."""
    with connections[using].cursor() as cursor:
        cursor.execute("SELECT to_regclass('pgmq.meta') IS NOT NULL")
        return bool(cursor.fetchone()[0])
