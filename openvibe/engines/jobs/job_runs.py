"""Runs of recurring jobs: a row for each, written by Celery's signals around the task, or by whoever asks for one.

The row of one that runs is owned by an advisory lock of its worker's session: whoever finds it without an owner says
that it failed. A task says what it did by returning a dict of counts, `{"events deleted": 3}`."""

import json
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

import structlog
from celery import current_app, signals
from django.conf import settings
from django.db import DatabaseError, IntegrityError, transaction
from django.db.models import F, QuerySet, Window
from django.db.models.functions import RowNumber
from django.utils import timezone
from django_celery_beat.models import PeriodicTask

from openvibe.engines.database.locks import LockKind, advisory_lock
from openvibe.engines.jobs.models import JobRun
from openvibe.engines.text.masking import mask_secrets

RUNS_PER_STATE = 100
"""The number of runs kept of each job: that many that went well and as many that failed are kept."""
MAX_WAIT = timedelta(minutes=2)
"""What no worker took for so long is said to have failed, and may be asked for again. Taken later, it runs still."""
NO_WORKER = "No worker took it within two minutes."
NO_RESULT = "It ended without a result: its worker was stopped, or lost the database."
OVER = (JobRun.State.DONE, JobRun.State.FAILED)

log = structlog.get_logger(__name__)


class JobBusy(Exception):
    """A job that waits or runs already. `message` says so, and what to do."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


@signals.task_prerun.connect
def _begin_run(task: Any, task_id: str, **_signal: Any) -> None:
    """Writes the row of a job that recurs, owned by this session's lock. That it cannot be is no reason not to run."""
    if task.name not in recurring_tasks():
        return
    run, lock = JobRun(task=task.name, task_id=task_id), ExitStack()
    task.request.job_run, task.request.job_lock = run, lock
    run.state, run.started_at, run.worker = JobRun.State.RUNNING, timezone.now(), task.request.hostname or ""
    try:
        with transaction.atomic():
            run.pk = JobRun.objects.filter(task_id=task_id).values_list("pk", flat=True).first()
            run.save()
            lock.enter_context(advisory_lock(LockKind.JOB_RUN, run.pk))  # before anybody sees the row
    except DatabaseError as error:
        log.warning("job_run_not_recorded", task=task.name, error=type(error).__name__)


@signals.task_postrun.connect
def _end_run(task: Any, retval: Any, state: str, **_signal: Any) -> None:
    run: JobRun | None = getattr(task.request, "job_run", None)
    if run is None:
        return
    is_done = state == "SUCCESS"
    run.state = JobRun.State.DONE if is_done else JobRun.State.FAILED
    run.problem = "" if is_done else mask_secrets(f"{type(retval).__name__}: {retval}")[:500]
    run.counts = retval if is_done and isinstance(retval, dict) else {}
    run.milliseconds = (timezone.now() - run.started_at) // timedelta(milliseconds=1)
    try:
        with transaction.atomic():
            run.save()
    except DatabaseError as error:
        log.warning("job_run_not_recorded", task=task.name, error=type(error).__name__)
    finally:
        task.request.job_lock.close()


def end_orphaned_runs() -> None:
    """Marks the runs whose worker is gone, and those that no worker took, as failed."""
    for pk in JobRun.objects.filter(state=JobRun.State.RUNNING).values_list("pk", flat=True):
        with advisory_lock(LockKind.JOB_RUN, pk) as is_orphaned:
            if is_orphaned:
                _fail(JobRun.objects.filter(pk=pk, state=JobRun.State.RUNNING), NO_RESULT)
    too_old = timezone.now() - MAX_WAIT
    _fail(JobRun.objects.filter(state=JobRun.State.WAITING, started_at__lt=too_old), NO_WORKER)


def _fail(runs: QuerySet[JobRun], problem: str) -> None:
    runs.update(state=JobRun.State.FAILED, problem=problem)


def recurring_tasks() -> frozenset[str]:
    return frozenset(job["task"] for job in settings.CELERY_BEAT_SCHEDULE.values())


def request_job_run(job: PeriodicTask) -> str:
    """Asks a worker to run the job now; returns the task id of its `JobRun`.

    Raises JobBusy while it waits or runs already, and OperationalError or DatabaseError when the queue does not take
    it.
    """
    end_orphaned_runs()
    if JobRun.objects.filter(task=job.task, state=JobRun.State.RUNNING).exists():
        raise JobBusy(f"“{job.name}” runs already. Its result will stand in the list; then it can be run again.")
    task_id = str(uuid4())
    try:
        with transaction.atomic():
            run = JobRun.objects.create(
                task=job.task, task_id=task_id, state=JobRun.State.WAITING, started_at=timezone.now()
            )
    except IntegrityError:
        raise JobBusy(f"“{job.name}” waits for a worker already, and is run once.") from None
    try:
        current_app.send_task(job.task, json.loads(job.args), json.loads(job.kwargs), task_id=task_id, retry=False)
    except Exception:
        run.delete()
        raise
    return task_id


def next_run_at(job: PeriodicTask, now: datetime) -> datetime | None:
    """The next run, as the scheduler reckons: from the last run, or from when a job that never ran was made or changed;
    `now` for what is overdue. None for a job that is switched off."""
    if not job.enabled:
        return None
    seconds = job.schedule.remaining_estimate(job.last_run_at or job.date_changed).total_seconds()
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
    """A recurring job, its newest run that is over (None before one is recorded), the one that waits or runs now, and
    when it runs next."""

    job: PeriodicTask
    last_run: JobRun | None
    current_run: JobRun | None
    next_run: datetime | None

    @property
    def schedule(self) -> str:
        return schedule_in_words(self.job)


def read_job_statuses() -> list[JobStatus]:
    """All recurring jobs by name. Five statements, however many there are."""
    now, last_runs = timezone.now(), newest_runs()
    current = {run.task: run for run in JobRun.objects.exclude(state__in=OVER).order_by("pk")}
    jobs = PeriodicTask.objects.select_related("interval", "crontab").order_by("name")
    return [JobStatus(job, last_runs.get(job.task), current.get(job.task), next_run_at(job, now)) for job in jobs]


def newest_runs() -> Mapping[str, JobRun]:
    """The newest run of each task that is over."""
    over = JobRun.objects.filter(state__in=OVER)
    return {run.task: run for run in over.order_by("task", "-pk").distinct("task")}


def newest_starts(task: str, count: int) -> list[datetime]:
    """Returns when the newest runs of a job began, the newest first."""
    runs = JobRun.objects.filter(task=task).order_by("-started_at")
    return list(runs.values_list("started_at", flat=True)[:count])


def delete_old_runs() -> int:
    """All but the newest `RUNS_PER_STATE` of each job, those that failed counted apart; how many were deleted."""
    end_orphaned_runs()
    place = Window(RowNumber(), partition_by=[F("task"), F("state")], order_by=F("pk").desc())
    old = JobRun.objects.filter(state__in=OVER).annotate(place=place).filter(place__gt=RUNS_PER_STATE).values("pk")
    return JobRun.objects.filter(pk__in=list(old.values_list("pk", flat=True))).delete()[0]
