"""Jobs: rows that one worker at a time carries out, until they are done or failed where people see it.

A job belongs to the worker whose database session holds its advisory lock, so one that is said to be under way but
whose lock is free has no owner: recovery queues it again. Each claim is an `attempt`, and a worker's writes are fenced
by it: one that only seemed dead changes nothing."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property
from typing import Generic, TypeVar

from django.db import IntegrityError, models, transaction
from django.db.models import Q
from django.db.models.functions import Now
from django.utils import timezone

from openvibe.engines.database.compiled_queries import CompiledQuery
from openvibe.engines.database.locks import LockKind, advisory_lock

QUEUED, FAILED = "queued", "failed"
"""States that every kind of job has; those in between and other ends are its own."""

RESEND_AFTER = timedelta(seconds=30)
"""A queued job nobody has begun for this long is sent to a worker again."""

MAX_DELAY = timedelta(minutes=10)
"""No job is put off for longer: one that is to begin later was queued while the clock was ahead, and is sent again."""

BATCH_SIZE = 200


class JobLost(Exception):
    """Another worker carries the job out by now."""


class Job(models.Model):
    """What the row of every job holds. Attempts are never counted back: each is one worker's."""

    state = models.CharField(max_length=16, default=QUEUED)
    attempt = models.PositiveSmallIntegerField(default=0)
    error = models.TextField(blank=True)
    queued_at = models.DateTimeField(db_default=Now())
    sent_at = models.DateTimeField(db_default=Now(), help_text="When a worker was last asked to carry it out.")
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)

    class Meta:
        abstract = True


JobT = TypeVar("JobT", bound=Job)


def lock_queued(rows: models.QuerySet[JobT], job_id: int) -> models.QuerySet[JobT]:
    """The job as long as it is queued, locked until the transaction ends; nothing while another has it locked."""
    return rows.filter(pk=job_id, state=QUEUED).select_for_update(no_key=True, of=("self",), skip_locked=True)


@dataclass(frozen=True)
class JobKind(Generic[JobT]):
    """One kind of job: its table, its lock, and the states in which a worker has it, beginning with the claim's.

    `max_attempts`: workers that may die over a job before it fails for good. Attempts come in batches of so many,
    because a restarted job counts on. `condition`: the rows of the table that are jobs of this kind.
    """

    model: type[JobT]
    lock_kind: LockKind
    active: tuple[str, ...]
    max_attempts: int = 3
    condition: models.Q = field(default_factory=models.Q)

    @property
    def unfinished(self) -> tuple[str, ...]:
        return (QUEUED, *self.active)

    @contextmanager
    def claim(
        self,
        job_id: int,
        rows: models.QuerySet[JobT] | CompiledQuery,
        prepare: Callable[[JobT], bool] = lambda job: True,
    ) -> Iterator[JobT | None]:
        """The queued job of `rows`, this worker's own within the context; None when there is nothing to do.

        `rows` may be compiled: a query of the job's id for its row, queued and locked (`lock_queued`).
        `prepare` is called with the row locked: False when it is not its turn. What it sets is saved with the claim.
        """
        with advisory_lock(self.lock_kind, job_id) as is_owner:
            job = None
            if is_owner:
                with suppress(IntegrityError):  # a job that must not be under way beside it was begun this moment
                    job = self._begin(job_id, rows, prepare)
            yield job

    @transaction.atomic
    def _begin(
        self, job_id: int, rows: models.QuerySet[JobT] | CompiledQuery, prepare: Callable[[JobT], bool]
    ) -> JobT | None:
        queued_rows = rows.objects(job_id) if isinstance(rows, CompiledQuery) else lock_queued(rows, job_id)
        job: JobT | None = next(iter(queued_rows), None)
        if job is None or not prepare(job):
            return None
        job.state, job.attempt, job.started_at = self.active[0], job.attempt + 1, timezone.now()
        job.save()
        return job

    def owned_row(self, job: JobT) -> models.QuerySet[JobT]:
        """The row as long as it is this attempt's; no row any more once it was lost."""
        return self._active_rows().filter(pk=job.pk, attempt=job.attempt)

    def lock_owned(self, job: JobT) -> JobT:
        """The row, locked until the transaction ends. Raises JobLost."""
        rows: list[JobT] = self._lock_active.objects(job.pk)
        if not rows or rows[0].attempt != job.attempt:
            raise JobLost
        return rows[0]

    def update_owned(self, job: JobT, **fields: object) -> None:
        """Writes to the row in one statement. Raises JobLost."""
        if not self.owned_row(job).update(**fields):
            raise JobLost

    def requeue(self, job: JobT, *, delay: int = 0, **fields: object) -> bool:
        """Queue the job for its next attempt, due in `delay` seconds. False when it was lost."""
        due_at = timezone.now() + timedelta(seconds=delay)
        return bool(self.owned_row(job).update(state=QUEUED, sent_at=due_at, **fields))

    def fail(self, job: JobT, error: str, **fields: object) -> bool:
        """Ends the job with a reason people can read. False when it was lost."""
        return bool(self.owned_row(job).update(state=FAILED, finished_at=timezone.now(), error=error, **fields))

    def has_attempts_left(self, job: JobT) -> bool:
        return job.attempt % self.max_attempts != 0

    def restart(self, job: JobT) -> None:
        """Saves the job, which the caller has locked, as queued anew: the next attempt is the first of its batch."""
        job.state, job.attempt = QUEUED, -(-job.attempt // self.max_attempts) * self.max_attempts
        job.queued_at = job.sent_at = timezone.now()  # what it uses counts for today
        job.save()

    def recover(self, fail_orphan: Callable[[JobT], object]) -> list[int]:
        """Ids of jobs to send to a worker now: those without an owner, and those whose message got lost.

        `fail_orphan` is called, in a transaction, for a job without an owner that has no attempts left.
        """
        return [*self._requeue_orphans(fail_orphan), *self._mark_resent()]

    def _requeue_orphans(self, fail_orphan: Callable[[JobT], object]) -> list[int]:
        job_ids = []
        for job_id in self._active_rows().order_by("pk").values_list("pk", flat=True)[:BATCH_SIZE]:
            with advisory_lock(self.lock_kind, job_id) as is_orphan, transaction.atomic():
                rows = self._active_rows().select_for_update(no_key=True, of=("self",)).filter(pk=job_id)
                job = rows.first() if is_orphan else None
                if job is None:
                    continue
                if not self.has_attempts_left(job):
                    fail_orphan(job)
                elif self.requeue(job):
                    job_ids.append(job_id)
        return job_ids

    @transaction.atomic
    def _mark_resent(self) -> list[int]:
        queued_rows = self.model._default_manager.filter(self.condition, state=QUEUED)
        now = timezone.now()
        rows = queued_rows.filter(Q(sent_at__lt=now - RESEND_AFTER) | Q(sent_at__gt=now + MAX_DELAY))
        locked = rows.select_for_update(no_key=True, skip_locked=True).order_by("pk")
        ids = list(locked.values_list("pk", flat=True)[:BATCH_SIZE])
        self.model._default_manager.filter(pk__in=ids).update(sent_at=now)
        return ids

    @cached_property
    def _lock_active(self) -> CompiledQuery:
        locked = self._active_rows().select_for_update(no_key=True, of=("self",))
        return CompiledQuery(lambda job_id: locked.filter(pk=job_id))

    def _active_rows(self) -> models.QuerySet[JobT]:
        return self.model._default_manager.filter(self.condition, state__in=self.active)
