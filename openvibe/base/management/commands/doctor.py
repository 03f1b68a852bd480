"""`manage.py doctor`: one line for each thing OpenVibe needs, and what to do about those that are missing."""

import secrets
import shutil
import time
from argparse import ArgumentParser
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import psycopg
from django.conf import settings
from django.core.management.base import BaseCommand
from django.db import Error, connection
from django.utils.module_loading import import_string
from kombu.exceptions import OperationalError as BrokerUnavailable

from openvibe.base.preparing import waiting_migrations
from openvibe.base.queue import queue_is_in_database, queue_is_installed
from openvibe.base.tasks import DOCTOR_CHANNEL, answer_doctor

OLDEST_POSTGRESQL = 150_000
LEAST_FREE_BYTES = 1024**3
BEAT_MAY_BE_SILENT = 60  # seconds; it gives a sign of life every ten


@dataclass(frozen=True)
class Finding:
    """What one check found. `advice` is empty when all is well, and otherwise the next step."""

    what: str
    found: str
    advice: str = ""


class Command(BaseCommand):
    help = "Checks database, extensions, queue, worker, scheduler, disk and secret key. Exits 1 when one is broken."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--wait", type=float, default=5.0, help="seconds a worker has to answer (%(default)s)")

    def handle(self, *_arguments: Any, wait: float, **_options: Any) -> None:
        broken = 0
        checks: list[Callable[[], Finding]] = [
            database,
            extensions,
            migrations,
            queue,
            lambda: worker(wait),
            beat,
            disk,
        ]
        for check in [*checks, secret_key, *map(_of_other_floors, settings.DOCTOR_CHECKS)]:
            try:
                finding = check()
            except Error as error:
                name = getattr(check, "__name__", "worker")
                finding = Finding(name, f"the database says: {error}".strip(), "Repair the database first.")
            broken += bool(finding.advice)
            state = self.style.ERROR("PROBLEM") if finding.advice else self.style.SUCCESS("ok     ")
            self.stdout.write(f"{state} {finding.what}: {finding.found} {finding.advice}".rstrip())
        if broken:
            raise SystemExit(1)


def database() -> Finding:
    """PostgreSQL answers and is new enough."""
    connection.ensure_connection()
    version = connection.pg_version  # type: ignore[attr-defined]
    where = "embedded" if settings.DATABASES["default"]["ENGINE"] == "openvibe.base.postgres" else "outside"
    found = f"PostgreSQL {version // 10_000}.{version % 10_000}, {where}."
    return Finding("database", found, "Upgrade to PostgreSQL 15 or later." if version < OLDEST_POSTGRESQL else "")


def extensions() -> Finding:
    """pgvector is there."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT default_version FROM pg_available_extensions WHERE name = 'vector'")
        row = cursor.fetchone()
    if row:
        return Finding("extensions", f"vector {row[0]} is available.")
    return Finding("extensions", "vector is missing.", "Install pgvector on the database server.")


def migrations() -> Finding:
    """The tables are those this version expects."""
    waiting = waiting_migrations()
    if waiting:
        return Finding("tables", f"{waiting} migrations wait.", "Run `manage.py migrate`.")
    return Finding("tables", "up to date.")


def queue() -> Finding:
    """The job queue exists."""
    if not queue_is_in_database():
        return Finding("queue", "an outside broker (CELERY_BROKER_URL).")
    if queue_is_installed():
        return Finding("queue", "in the database.")
    return Finding("queue", "not installed.", "Run `manage.py migrate`.")


def worker(wait: float) -> Finding:
    """A worker takes a job within `wait` seconds and answers it."""
    token = secrets.token_hex(8)
    with psycopg.connect(**{**connection.get_connection_params(), "autocommit": True}) as listener:
        listener.execute(f"LISTEN {DOCTOR_CHANNEL}")
        began = time.monotonic()
        try:
            answer_doctor.apply_async((token,), expires=60, retry=False)
        except (BrokerUnavailable, psycopg.Error, OSError) as error:
            return Finding("worker", f"the queue refuses jobs ({error}).", "Check CELERY_BROKER_URL and the queue.")
        for notice in listener.notifies(timeout=wait):
            if notice.payload == token:
                return Finding("worker", f"answered a job after {time.monotonic() - began:.2f} s.")
    advice = "Start one with `make run`, or `celery -A openvibe.celery worker`; if it runs, it is busy."
    return Finding("worker", f"no answer within {wait:g} s.", advice)


def beat() -> Finding:
    """The scheduler gave a sign of life lately; without any sign it may run on another machine."""
    try:
        silent = time.time() - float((settings.VAR / "beat.alive").read_text())
    except (OSError, ValueError):
        return Finding("scheduler", "has not run from this folder yet.")
    if silent <= BEAT_MAY_BE_SILENT:
        return Finding("scheduler", f"alive {silent:.0f} s ago.")
    return Finding(
        "scheduler",
        f"silent for {silent:.0f} s.",
        "Start it with `make run`, or `celery -A openvibe.celery beat`.",
    )


def disk() -> Finding:
    """There is room to write."""
    free = shutil.disk_usage(settings.VAR).free
    found = f"{free / 1024**3:.1f} GiB free in {settings.VAR}."
    return Finding("disk", found, "Free at least 1 GiB." if free < LEAST_FREE_BYTES else "")


def _of_other_floors(path: str) -> Callable[[], Finding]:
    """A check that is known here as a string: it gives what a Finding is made of."""
    return lambda: Finding(*import_string(path)())


def secret_key() -> Finding:
    """The key that signs sessions is long enough, and is the operator's own in production."""
    if len(settings.SECRET_KEY) < 50:
        return Finding("secret key", "too short.", "Set OPENVIBE_SECRET_KEY to 50 or more random characters.")
    return Finding("secret key", "set by you." if settings.ENV.secret_key else "made on first use and kept in var/.")
