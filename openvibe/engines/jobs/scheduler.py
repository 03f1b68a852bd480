"""Recurring jobs: beat's schedule stands in the database, where superusers change it and every machine reads it."""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

import structlog
from django.conf import settings
from django.db import close_old_connections, transaction
from django.utils import timezone
from django_celery_beat.models import PeriodicTask
from django_celery_beat.schedulers import DatabaseScheduler, ModelEntry

from openvibe.engines.jobs.heartbeats import HEARTBEAT_SECONDS, begin_probe, record_scheduler
from openvibe.engines.jobs.queue import queue_is_in_database

log = structlog.get_logger(__name__)
PROBE_TASK = "base.answer_probe"

DEFAULT_DESCRIPTION = "As delivered"
"""The description of a job that nobody changed: it follows the settings of the next version."""


class Scheduler(DatabaseScheduler):  # type: ignore[misc]  # the library has no types
    """A scheduler that writes every `sync_every` seconds when each job last ran: a restart neither forgets a daily job
    nor repeats it, and `manage.py doctor` sees from any machine that beat is alive.

    Celery reckons from when a job last ran, so what ran while the clock was ahead would wait until that time came
    again: by the right clock it ran just now. `clock` is there to be replaced in tests.
    """

    sync_every = 30
    clock: Callable[[], datetime] = staticmethod(timezone.now)
    _ticked_at: datetime | None = None
    _beaten_at: datetime | None = None

    def setup_schedule(self) -> None:
        synchronise_schedule(self.app.conf.beat_schedule)

    def tick(self, *arguments: Any, **options: Any) -> float:
        """Sends what is due, a job a call; returns the seconds until the next call. A clock that went back begins it
        anew."""
        now = self.clock()
        if self._ticked_at is not None and now < self._ticked_at:
            self._initial_read, self._heap = True, None
        self._ticked_at = now
        seconds: float = super().tick(*arguments, **options)
        if self._beaten_at is None or not timedelta() <= now - self._beaten_at < timedelta(seconds=HEARTBEAT_SECONDS):
            self._beaten_at = now
            self._beat()
        return seconds

    def _beat(self) -> None:
        """Says that the scheduler is alive, and measures how long jobs wait where the broker cannot be asked."""
        try:
            record_scheduler()
            if not queue_is_in_database():
                for queue in settings.CELERY_TASK_QUEUES:
                    if begin_probe(queue.name):
                        self.app.send_task(PROBE_TASK, (queue.name,), queue=queue.name, retry=False)
        except Exception as error:  # every broker has errors of its own; what was not sent is sent again
            log.info("heartbeat_not_written", error=type(error).__name__)
            close_old_connections()

    def all_as_schedule(self) -> dict[str, ModelEntry]:
        entries: dict[str, ModelEntry] = super().all_as_schedule()
        now = self.clock()
        for name, entry in entries.items():
            if entry.last_run_at > now:
                entry.last_run_at = entry.model.last_run_at = now
                self._dirty.add(name)
        return entries


@transaction.atomic
def synchronise_schedule(jobs: Mapping[str, Mapping[str, Any]]) -> None:
    """Makes the rows say what the settings say (`CELERY_BEAT_SCHEDULE`), except when a job runs if an admin chose."""
    for name, job in jobs.items():
        schedule, field = ModelEntry.to_model_schedule(job["schedule"])
        defaults = {"interval": None, "crontab": None, field: schedule, "description": DEFAULT_DESCRIPTION}
        row, _ = PeriodicTask.objects.get_or_create(name=name, defaults={"task": job["task"], **defaults})
        changes = {"task": job["task"], **(defaults if row.description == DEFAULT_DESCRIPTION else {})}
        if any(getattr(row, name) != value for name, value in changes.items()):
            for name, value in changes.items():
                setattr(row, name, value)
            row.save()
    for row in PeriodicTask.objects.exclude(name__in=jobs):
        row.delete()
