"""The job queue inside PostgreSQL: where it is, its one-time install, and Celery's transport to it.

Unused when CELERY_BROKER_URL is set. A job is sent over the database session its sender has anyway: no second session
has to be had, so what could be saved can be sent. Only workers listen."""

import json
import os
import re
from typing import Any

import psycopg
from amqp.protocol import queue_declare_ok_t
from django.conf import settings
from django.db import connection, connections
from kombu.transport import pgmq, virtual
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
    """Creates the queues with their functions unless they are there. Safe to call again and from several processes.

    Also a receiver of Django's `post_migrate`.
    """
    if not queue_is_in_database() or queue_is_installed(using=using):
        return
    connection = connections[using]
    with psycopg.connect(
        **connection.get_connection_params()
    ) as new_connection:  # the install needs a transaction of its own
        new_connection.execute("SELECT pg_advisory_xact_lock(%s)", [INSTALL_LOCK])
        if not queue_is_installed(using=using):
            create_queues(new_connection)


def create_queues(session: psycopg.Connection[Any]) -> None:
    """Creates the queues, in the caller's transaction. Triggers of an earlier version go: who sends a job notifies
    workers."""
    if session.execute("SELECT to_regclass('pgmq.meta')").fetchone() == (None,):
        install_pgmq_from_sql(conn=session)
    for queue in settings.CELERY_TASK_QUEUES:
        session.execute("SELECT pgmq.create(%s)", [queue.name])
        session.execute("SELECT pgmq.disable_notify_insert(%s)", [queue.name])


def queue_is_installed(*, using: str = "default") -> bool:
    names = [f"q_{queue.name}" for queue in settings.CELERY_TASK_QUEUES]
    with connections[using].cursor() as cursor:
        cursor.execute(_COUNT_QUEUES, [names])
        return bool(cursor.fetchone()[0] == len(names))


_COUNT_QUEUES = """SELECT count(*) FROM pg_class WHERE relnamespace = to_regnamespace('pgmq') AND relname = ANY(%s)
AND NOT EXISTS (SELECT FROM pg_trigger WHERE tgrelid = pg_class.oid AND NOT tgisinternal)"""

_SEND = "SELECT pgmq.send(queue_name => %s, msg => %s::jsonb, headers => %s::jsonb), pg_notify(%s, '')"


class Channel(pgmq.Channel):
    """Sends over the calling thread's Django connection, and finds the queues made: `install_queue` did it."""

    def queue_declare(self, queue: str | None = None, passive: bool = False, **_options: Any) -> Any:
        return queue_declare_ok_t(str(queue), 0, 0)

    def _new_queue(self, queue: str, **_options: Any) -> None:
        """Does nothing: the queue is there."""

    def _maybe_enable_notify(self, queue: str, queue_name: str | None = None) -> None:
        """Enables notification only of who takes jobs: a session that listens and is not read would fill up."""
        transport: Any = self.connection
        transport._register_notify_queue(queue_name or self._queue_name(queue))

    def _put(self, queue: str, message: dict[str, Any], **_options: Any) -> None:
        name = self._queue_name(queue)
        headers = self._pgmq_send_kwargs(message).get("headers")
        values = [name, json.dumps(message), headers and json.dumps(headers), f"pgmq.q_{name}.INSERT"]
        if not connection.in_atomic_block:
            connection.close_if_unusable_or_obsolete()
        with connection.cursor() as cursor:
            cursor.execute(_SEND, values)


DRAIN_TIMEOUT = 0.5  # a new job wakes the worker at once; this is how long Ctrl-C may go unnoticed
BUSY_DRAIN_TIMEOUT = 0.02  # of a worker that takes no more jobs: one it has finished is noticed here, and asks nothing


class Transport(pgmq.Transport):
    """Registered under `pgmq` by openvibe/celery.py. With the option `only_sends` it opens no database session."""

    Channel = Channel

    def establish_connection(self) -> Any:
        if self._only_sends:
            return virtual.Transport.establish_connection(self)
        establish: Any = super().establish_connection
        return establish()

    def verify_connection(self, connection: Any) -> bool:
        return self._only_sends or bool(super().verify_connection(connection))

    @property
    def _only_sends(self) -> bool:
        client: Any = self.client
        return bool(client.transport_options.get("only_sends"))

    def drain_events(self, connection: Any, timeout: float | None = None, **_options: Any) -> None:
        """Delivers what has come; raises `socket.timeout` when nothing came, which Celery takes as a pause."""
        takes_more = all(channel.qos.can_consume() for channel in self.channels or ())
        drain_timeout = min(timeout or DRAIN_TIMEOUT, DRAIN_TIMEOUT if takes_more else BUSY_DRAIN_TIMEOUT)
        super().drain_events(connection, timeout=drain_timeout)  # type: ignore[no-untyped-call]  # kombu has no types
