"""`manage.py doctor`: one line for each thing OpenVibe needs, and what to do about those that are missing."""

import secrets
import shutil
import time
from argparse import ArgumentParser
from collections.abc import Callable
from typing import Any, NamedTuple

import psycopg
from django.conf import settings
from django.core.management.base import BaseCommand
from django.db import Error, connection
from django.db.models import Max
from django.utils import timezone
from django_celery_beat.models import PeriodicTask
from kombu.exceptions import OperationalError as BrokerUnavailable

from openvibe.base.queue import queue_is_in_database, queue_is_installed
from openvibe.base.tasks import DOCTOR_CHANNEL, answer_doctor
from openvibe.runner.bootstrap import count_unapplied_migrations, needs_adoption
from openvibe.search.space_lifecycle import diagnose_search

MIN_POSTGRESQL_VERSION = 150_000
MIN_FREE_BYTES = 1024**3
MAX_BEAT_SILENCE_SECONDS = 90  # it asks for a job every ten, and writes it down every thirty


class CheckResult(NamedTuple):
    """The state of one thing. `advice` is empty when all is well, and otherwise the next step."""

    subject: str
    state: str
    advice: str = ""


class Command(BaseCommand):
    help = "Checks database, extensions, queue, worker, scheduler, disk and secret key. Exits 1 when one is broken."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--wait", type=float, default=5.0, help="seconds a worker has to answer (%(default)s)")

    def handle(self, *_arguments: Any, wait: float, **_options: Any) -> None:
        failures = 0
        checks: dict[str, Callable[[], CheckResult]] = {
            "database": database,
            "extensions": extensions,
            "tables": migrations,
            "queue": queue,
            "workers": lambda: workers(wait),
            "scheduler": beat,
            "disk": disk,
            "secret key": secret_key,
            "search": search,
        }
        for subject, check in checks.items():
            try:
                result = check()
            except Error as error:
                result = CheckResult(subject, f"the database says: {error}".strip(), "Repair the database first.")
            failures += bool(result.advice)
            mark = self.style.ERROR("PROBLEM") if result.advice else self.style.SUCCESS("ok     ")
            self.stdout.write(f"{mark} {result.subject}: {result.state} {result.advice}".rstrip())
        if failures:
            raise SystemExit(1)


def database() -> CheckResult:
    """PostgreSQL answers and is new enough."""
    connection.ensure_connection()
    version = connection.pg_version  # type: ignore[attr-defined]
    kind = "embedded" if settings.DATABASES["default"]["ENGINE"] == "openvibe.runner.postgres" else "outside"
    state = f"PostgreSQL {version // 10_000}.{version % 10_000}, {kind}."
    advice = "Upgrade to PostgreSQL 15 or later." if version < MIN_POSTGRESQL_VERSION else ""
    return CheckResult("database", state, advice)


def extensions() -> CheckResult:
    """pgvector is there."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT default_version FROM pg_available_extensions WHERE name = 'vector'")
        row = cursor.fetchone()
    if row:
        return CheckResult("extensions", f"vector {row[0]} is available.")
    return CheckResult("extensions", "vector is missing.", "Install pgvector on the database server.")


def migrations() -> CheckResult:
    """The tables are those this version expects."""
    if needs_adoption():
        return CheckResult("tables", "made by the version before.", "Run `manage.py adopt_migrations`.")
    unapplied = count_unapplied_migrations()
    if unapplied:
        return CheckResult("tables", f"{unapplied} migrations wait.", "Run `manage.py migrate`.")
    return CheckResult("tables", "up to date.")


def queue() -> CheckResult:
    """The job queue exists."""
    if not queue_is_in_database():
        return CheckResult("queue", "an outside broker (CELERY_BROKER_URL).")
    if queue_is_installed():
        return CheckResult("queue", "in the database.")
    return CheckResult("queue", "not installed.", "Run `manage.py migrate`.")


def workers(wait: float) -> CheckResult:
    """Within `wait` seconds each queue's worker takes a job and answers it."""
    missing = {f"{queue.name} {secrets.token_hex(8)}": queue.name for queue in settings.CELERY_TASK_QUEUES}
    seconds = {}
    with psycopg.connect(**{**connection.get_connection_params(), "autocommit": True}) as listener:
        listener.execute(f"LISTEN {DOCTOR_CHANNEL}")
        started_at = time.monotonic()
        try:
            for token, queue_name in missing.items():
                answer_doctor.apply_async((token,), queue=queue_name, expires=60, retry=False)
        except (BrokerUnavailable, psycopg.Error, OSError) as error:
            state = f"the queue refuses jobs ({error})."
            return CheckResult("workers", state, "Check CELERY_BROKER_URL and the queue.")
        while missing and (left := started_at + wait - time.monotonic()) > 0:
            for notice in listener.notifies(timeout=left, stop_after=1):
                if queue_name := missing.pop(notice.payload, ""):
                    seconds[queue_name] = time.monotonic() - started_at
    answered = ", ".join(f"{name} after {after:.2f} s" for name, after in seconds.items())
    if not missing:
        return CheckResult("workers", f"answered a job: {answered}.")
    silent = ",".join(missing.values())
    advice = f"Start one with `make run`, or `celery -A openvibe.celery worker -Q {silent}`; if it runs, it is busy."
    return CheckResult("workers", f"no answer from the queue of {silent} within {wait:g} s.", advice)


def beat() -> CheckResult:
    """The scheduler asked for a recurring job lately, wherever it runs."""
    last_run_at = PeriodicTask.objects.aggregate(last=Max("last_run_at"))["last"]
    if last_run_at is None:
        return CheckResult("scheduler", "has asked for nothing yet.")
    silence = (timezone.now() - last_run_at).total_seconds()
    if silence <= MAX_BEAT_SILENCE_SECONDS:
        return CheckResult("scheduler", f"alive {max(0, silence):.0f} s ago.")
    advice = "Start it with `make run`, or `celery -A openvibe.celery beat`."
    return CheckResult("scheduler", f"silent for {silence:.0f} s.", advice)


def disk() -> CheckResult:
    """There is room to write."""
    free = shutil.disk_usage(settings.VAR).free
    state = f"{free / 1024**3:.1f} GiB free in {settings.VAR}."
    return CheckResult("disk", state, "Free at least 1 GiB." if free < MIN_FREE_BYTES else "")


def search() -> CheckResult:
    """Texts have their vectors, and embedders answer."""
    return CheckResult(*diagnose_search())


def secret_key() -> CheckResult:
    """The key that signs sessions is long enough, and is the operator's own in production."""
    if len(settings.SECRET_KEY) < 50:
        return CheckResult("secret key", "too short.", "Set OPENVIBE_SECRET_KEY to 50 or more random characters.")
    origin = "set by you." if settings.ENV.secret_key else "made on first use and kept in var/."
    return CheckResult("secret key", origin)
