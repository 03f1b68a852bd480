"""Signs of life of workers and scheduler, kept in the database: any web process can tell, whatever the broker.

All times are the database's, so that the clocks of other machines do not matter. The rows are `Heartbeat` and
`QueueProbe`, which this module does not import: Celery wants it before there are models."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from django.conf import settings
from django.db import connection

HEARTBEAT_SECONDS = 10.0
ALIVE_SECONDS = 60.0
"""The silence in seconds after which a process is not counted as alive."""
FORGET_SECONDS = 600
"""A worker that was silent for so long is forgotten by the others. The last one is never forgotten."""
SCHEDULER = "scheduler"

_RECORD = """WITH forgotten AS (DELETE FROM base_heartbeat WHERE kind = 'worker' AND name <> %(name)s
AND seen_at < now() - make_interval(secs => %(forget)s))
INSERT INTO base_heartbeat (name, kind, queues, started_at, seen_at)
VALUES (%(name)s, %(kind)s, %(queues)s, now(), now())
ON CONFLICT (name) DO UPDATE SET queues = excluded.queues, seen_at = now()"""
_PROBE = """INSERT INTO base_queueprobe (queue, sent_at, attempted_at) VALUES (%s, clock_timestamp(), clock_timestamp())
ON CONFLICT (queue) DO UPDATE SET sent_at = coalesce(base_queueprobe.sent_at, clock_timestamp()),
attempted_at = clock_timestamp() WHERE base_queueprobe.sent_at IS NULL
OR clock_timestamp() - base_queueprobe.attempted_at
> greatest(interval '1 minute', base_queueprobe.attempted_at - base_queueprobe.sent_at)"""
_READ = """SELECT name, kind, queues, extract(epoch FROM clock_timestamp() - seen_at)::float
FROM base_heartbeat ORDER BY name"""
_READ_PROBES = """SELECT queue, coalesce(extract(epoch FROM clock_timestamp() - sent_at), 0)::float
FROM base_queueprobe"""


class HeartbeatAge(NamedTuple):
    """A name, a kind (`worker` or `scheduler`), the queues a worker takes, and the seconds since it was heard."""

    name: str
    kind: str
    queues: list[str]
    seconds: float


def record_worker(name: str, queues: Sequence[str]) -> None:
    _record(name, "worker", queues)


def record_scheduler() -> None:
    _record(SCHEDULER, "scheduler", [])


def _record(name: str, kind: str, queues: Sequence[str]) -> None:
    values: dict[str, Any] = {"name": name[:200], "kind": kind, "queues": list(queues), "forget": FORGET_SECONDS}
    with connection.cursor() as cursor:
        cursor.execute(_RECORD, values)


def forget_worker(name: str) -> None:
    """Deletes the heartbeat of a worker that was told to stop."""
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM base_heartbeat WHERE name = %s", [name[:200]])


def read_heartbeats() -> list[HeartbeatAge]:
    """Returns those of the scheduler and of all workers that are not forgotten."""
    with connection.cursor() as cursor:
        cursor.execute(_READ)
        return [HeartbeatAge(*row) for row in cursor.fetchall()]


def begin_probe(queue: str) -> bool:
    """Whether a probe is to be sent into the queue now: none is under way, or the last one may be lost. The time of the
    first one that nobody took stays."""
    with connection.cursor() as cursor:
        cursor.execute(_PROBE, [queue])
        return bool(cursor.rowcount)


def end_probe(queue: str) -> None:
    """Notes that a worker took the probe."""
    with connection.cursor() as cursor:
        cursor.execute("UPDATE base_queueprobe SET sent_at = NULL WHERE queue = %s", [queue])


def probe_ages() -> dict[str, float]:
    """Returns by queue for how many seconds the oldest job that was sent there has waited, to some ten seconds; 0 where
    each was taken. Measured where the broker cannot be asked."""
    with connection.cursor() as cursor:
        cursor.execute(_READ_PROBES)
        ages = dict(cursor.fetchall())
    return {queue.name: ages.get(queue.name, 0.0) for queue in settings.CELERY_TASK_QUEUES}
