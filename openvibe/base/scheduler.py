"""Recurring jobs: beat's schedule stands in the database, where superusers change it and every machine reads it."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from django.db import transaction
from django.utils import timezone
from django_celery_beat.models import PeriodicTask
from django_celery_beat.schedulers import DatabaseScheduler, ModelEntry

DEFAULT_DESCRIPTION = "As delivered"
"""The description of a job that nobody changed: it follows the settings of the next version."""


class Scheduler(DatabaseScheduler):  # type: ignore[misc]  # the library has no types
    """When each job last ran is written every `sync_every` seconds: a restart neither forgets a daily job nor repeats
    it, and `manage.py doctor` sees from any machine that beat is alive.

    Celery reckons from when a job last ran, so what ran while the clock was ahead would wait until that time came
    again: by the right clock it ran just now. `clock` is there to be replaced in tests.
    """

    sync_every = 30
    clock: Callable[[], datetime] = staticmethod(timezone.now)
    _ticked_at: datetime | None = None

    def setup_schedule(self) -> None:
        synchronise_schedule(self.app.conf.beat_schedule)

    def tick(self, *arguments: Any, **options: Any) -> float:
        """Send what is due, a job a call; the seconds until the next call. A clock that went back begins it anew."""
        now = self.clock()
        if self._ticked_at is not None and now < self._ticked_at:
            self._initial_read, self._heap = True, None
        self._ticked_at = now
        seconds: float = super().tick(*arguments, **options)
        return seconds

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
    """Make the rows say what the settings say (`CELERY_BEAT_SCHEDULE`), except when a job runs if an admin chose."""
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
