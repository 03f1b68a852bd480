"""Results of recurring jobs: a row for each time a worker ran one, written by Celery's signals around the task.

A task says what it did by returning a dict of counts, `{"events deleted": 3}`."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import structlog
from celery import current_app, signals
from django.conf import settings
from django.db import DatabaseError, transaction
from django.db.models import BooleanField, ExpressionWrapper, F, Q, Window
from django.db.models.functions import RowNumber
from django.utils import timezone
from django_celery_beat.models import PeriodicTask

from openvibe.base.masking import mask_secrets
from openvibe.base.models import JobRun

KEPT_RUNS = 100
"""Of each job as many that went well and as many that failed are kept."""

log = structlog.get_logger(__name__)


@signals.task_prerun.connect
def _note_start(task: Any, **_signal: Any) -> None:
    task.request.began_at = timezone.now()


@signals.task_postrun.connect
def _record_run(task: Any, task_id: str, retval: Any, state: str, **_signal: Any) -> None:
    """Only of jobs that recur. That a row cannot be written is no reason to fail the job."""
    began_at = getattr(task.request, "began_at", None)
    if began_at is None or task.name not in recurring_tasks():
        return
    problem = "" if state == "SUCCESS" else mask_secrets(f"{type(retval).__name__}: {retval}")[:500]
    try:
        with transaction.atomic():
            JobRun.objects.create(
                task=task.name,
                task_id=task_id,
                started_at=began_at,
                milliseconds=(timezone.now() - began_at) // timedelta(milliseconds=1),
                problem=problem,
                counts=retval if isinstance(retval, dict) and not problem else {},
            )
    except DatabaseError as error:
        log.warning("job_run_not_recorded", task=task.name, error=type(error).__name__)


def recurring_tasks() -> frozenset[str]:
    return frozenset(job["task"] for job in settings.CELERY_BEAT_SCHEDULE.values())


def request_job_run(job: PeriodicTask) -> str:
    """Ask a worker to run the job now: the id its `JobRun` will have. Raises OperationalError or DatabaseError when the
    queue does not take it."""
    return str(current_app.send_task(job.task, json.loads(job.args), json.loads(job.kwargs), retry=False).id)


def next_run(job: PeriodicTask, now: datetime) -> datetime | None:
    """After the last one, as the scheduler reckons; `now` for what is overdue. None before the first run, and for a job
    that is switched off."""
    if not job.enabled or job.last_run_at is None:
        return None
    seconds = job.schedule.remaining_estimate(job.last_run_at).total_seconds()
    return now + timedelta(seconds=max(0.0, float(seconds)))


def schedule_in_words(job: PeriodicTask) -> str:
    """*every 10 seconds*, *every day*; a time of the calendar as the scheduler writes it."""
    seconds = job.interval.schedule.run_every.total_seconds() if job.interval else 0
    for unit, size in (("day", 86_400), ("hour", 3_600), ("minute", 60), ("second", 1)):
        if seconds and not seconds % size:
            return f"every {unit}" if seconds == size else f"every {seconds / size:,.0f} {unit}s"
    return str(job.scheduler)


@dataclass(frozen=True)
class JobStatus:
    """A recurring job, its newest run (None before one is recorded) and when it runs next."""

    job: PeriodicTask
    last_run: JobRun | None
    next_run: datetime | None

    @property
    def schedule(self) -> str:
        return schedule_in_words(self.job)


def read_job_statuses() -> list[JobStatus]:
    """All recurring jobs by name. Four statements, however many there are."""
    now, last_runs = timezone.now(), newest_runs()
    jobs = PeriodicTask.objects.select_related("interval", "crontab").order_by("name")
    return [JobStatus(job, last_runs.get(job.task), next_run(job, now)) for job in jobs]


def newest_runs() -> Mapping[str, JobRun]:
    """The newest run of each task."""
    return {run.task: run for run in JobRun.objects.order_by("task", "-pk").distinct("task")}


def delete_old_runs() -> int:
    """All but the newest `KEPT_RUNS` of each job, those that failed counted apart; how many were deleted."""
    went_well = ExpressionWrapper(Q(problem=""), output_field=BooleanField())
    place = Window(RowNumber(), partition_by=[F("task"), went_well], order_by=F("pk").desc())
    old = JobRun.objects.annotate(place=place).filter(place__gt=KEPT_RUNS).values("pk")
    return JobRun.objects.filter(pk__in=list(old.values_list("pk", flat=True))).delete()[0]
