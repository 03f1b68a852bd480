"""Recurring jobs: beat's schedule stands in the database, where superusers change it and every machine reads it."""

from collections.abc import Mapping
from typing import Any

from django.db import transaction
from django_celery_beat.models import PeriodicTask
from django_celery_beat.schedulers import DatabaseScheduler, ModelEntry

DELIVERED = "As delivered"
"""The description of a job that nobody changed: it follows the settings of the next version."""


class Scheduler(DatabaseScheduler):  # type: ignore[misc]  # the library has no types
    """When each job last ran is written every `sync_every` seconds: a restart neither forgets a daily job nor repeats
    it, and `manage.py doctor` sees from any machine that beat is alive."""

    sync_every = 30

    def setup_schedule(self) -> None:
        synchronise_schedule(self.app.conf.beat_schedule)


@transaction.atomic
def synchronise_schedule(jobs: Mapping[str, Mapping[str, Any]]) -> None:
    """Make the rows say what the settings say (`CELERY_BEAT_SCHEDULE`), except when a job runs if an admin chose."""
    for name, job in jobs.items():
        schedule, field = ModelEntry.to_model_schedule(job["schedule"])
        defaults = {"interval": None, "crontab": None, field: schedule, "description": DELIVERED}
        row, _ = PeriodicTask.objects.get_or_create(name=name, defaults={"task": job["task"], **defaults})
        changes = {"task": job["task"], **(defaults if row.description == DELIVERED else {})}
        if any(getattr(row, name) != value for name, value in changes.items()):
            for name, value in changes.items():
                setattr(row, name, value)
            row.save()
    for row in PeriodicTask.objects.exclude(name__in=jobs):
        row.delete()
