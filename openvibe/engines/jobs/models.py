"""Rows of recurring jobs and of those who do them. They are of the app `base`, which has their tables."""

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now


class JobRun(models.Model):
    """One run of a recurring job. `job_runs` writes and deletes them."""

    class State(models.TextChoices):
        WAITING = "waiting", "waits for a worker"
        RUNNING = "running", "running"
        DONE = "done", "OK"
        FAILED = "failed", "failed"

    task = models.CharField(max_length=80)
    task_id = models.CharField(max_length=64, help_text="Of the message that asked a worker for it.")
    state = models.CharField(max_length=8, choices=State.choices, default=State.DONE, db_default="done")
    worker = models.CharField(max_length=120, blank=True, default="", db_default="", help_text="Who runs it, or did.")
    started_at = models.DateTimeField(help_text="While it waits: when somebody asked for it.")
    milliseconds = models.PositiveIntegerField("duration (ms)", null=True)
    problem = models.CharField(max_length=500, blank=True, default="", help_text="Why it failed.")
    counts = models.JSONField(default=dict, help_text="What it did, in numbers.")

    class Meta:
        app_label = "base"
        ordering = ["-id"]
        indexes = [
            models.Index(fields=["task", "-id"], name="job_run_of_task"),
            models.Index(fields=["task_id"], name="job_run_of_message"),
        ]
        constraints = [
            models.UniqueConstraint(fields=["task"], condition=Q(state="waiting"), name="job_waits_once"),
            models.CheckConstraint(
                condition=Q(state__in=["waiting", "running", "done"], problem="") | Q(state="failed") & ~Q(problem=""),
                name="job_run_failed_says_why",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.task} at {self.started_at:%Y-%m-%d %H:%M:%S}"

    @property
    def is_over(self) -> bool:
        return self.state in (self.State.DONE, self.State.FAILED)

    @property
    def summary(self) -> str:
        """What it did: "3 events deleted, 1 …"; what came to nothing is not named."""
        return ", ".join(f"{count:,} {words}" for words, count in self.counts.items() if count) or "nothing to do"


class Heartbeat(models.Model):
    """The time at which a worker or the scheduler was last heard. `heartbeats` writes and reads them."""

    class Kind(models.TextChoices):
        WORKER = "worker", "worker"
        SCHEDULER = "scheduler", "scheduler"

    name = models.CharField(max_length=200, primary_key=True)
    kind = models.CharField(max_length=9, choices=Kind.choices)
    queues = ArrayField(models.CharField(max_length=80), help_text="A worker's.")
    started_at = models.DateTimeField(db_default=Now())
    seen_at = models.DateTimeField(db_default=Now())

    class Meta:
        app_label = "base"
        constraints = [
            models.CheckConstraint(condition=Q(kind__in=["worker", "scheduler"]), name="heartbeat_kind_known")
        ]

    def __str__(self) -> str:
        return f"{self.name}, heard at {self.seen_at:%Y-%m-%d %H:%M:%S}"


class QueueProbe(models.Model):
    """A job that does nothing, sent into a queue to measure how long jobs wait there. `sent_at` is empty once a worker
    took it; `attempted_at` is when it was sent last, as what a broker loses is sent again."""

    queue = models.CharField(max_length=80, primary_key=True)
    sent_at = models.DateTimeField(null=True)
    attempted_at = models.DateTimeField(db_default=Now())

    class Meta:
        app_label = "base"

    def __str__(self) -> str:
        return self.queue
