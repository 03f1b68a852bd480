"""Timestamps that models share, and the `Event` rows that tell open pages what changed."""

import pgtrigger
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from openvibe.engines.database.fields import EncryptedTextField


class TimestampedModel(models.Model):
    """Created and last changed, UTC."""

    created_at = models.DateTimeField(db_default=Now(), editable=False)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        abstract = True


class CacheEntry(models.Model):
    """A row of Django's cache (`DatabaseCache`, which reads and writes it): what processes on all machines share for a
    while. Rate limits of sign-in and one-time codes that were used are kept here."""

    cache_key = models.CharField(max_length=255, primary_key=True)
    value = models.TextField()
    expires = models.DateTimeField(db_index=True)

    def __str__(self) -> str:
        return self.cache_key


class OutgoingMail(models.Model):
    """An e-mail about an account that the mail server has not taken yet. Its text may open the account."""

    recipient = models.EmailField()
    subject = models.CharField(max_length=255)
    body = EncryptedTextField()
    created_at = models.DateTimeField(db_default=Now())
    due_at = models.DateTimeField(db_default=Now(), db_index=True)
    attempts = models.PositiveSmallIntegerField(default=0)
    error = models.CharField(max_length=500, blank=True, help_text="Why the server did not take it.")

    def __str__(self) -> str:
        return f"{self.subject} to {self.recipient}"


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

    def __str__(self) -> str:
        return self.queue


class Event(models.Model):
    """Something changed that a page may be showing: ids only, never text.

    `position` is given when the writing transaction commits, one workspace at a time, so a reader that has seen
    position n will never meet a smaller one later. Rows whose `participant_id` is set are for that participant alone.
    Kept for `EVENT_RETENTION_HOURS`.
    """

    position = models.BigIntegerField(null=True, unique=True, editable=False)
    workspace_id = models.BigIntegerField()
    kind = models.CharField(max_length=40)
    channel_id = models.BigIntegerField(null=True)
    thread_id = models.BigIntegerField(null=True)
    message_id = models.BigIntegerField(null=True)
    participant_id = models.BigIntegerField(null=True)
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        indexes = [
            models.Index(fields=["workspace_id", "position"], name="base_event_replay"),
            models.Index(fields=["created_at"], name="base_event_age"),
        ]
        triggers = [
            pgtrigger.Trigger(
                name="number_at_commit",
                operation=pgtrigger.Insert,
                when=pgtrigger.After,
                timing=pgtrigger.Deferred,
                declare=[("place", "bigint")],
                func=(
                    # One workspace's commits are numbered one after the other; others never wait.
                    "PERFORM pg_advisory_xact_lock(7001, NEW.workspace_id::int);"
                    " place := nextval('base_event_position');"
                    " UPDATE base_event SET position = place WHERE id = NEW.id;"
                    " PERFORM pg_notify('openvibe_events', NEW.workspace_id || ':' || place);"
                    " RETURN NULL;"
                ),
            )
        ]

    def __str__(self) -> str:
        return f"{self.kind} at {self.position}"


class AuditRecord(models.Model):
    """One change of who may do what: ids without foreign keys, so that it outlives all that it names.

    The database writes the names of workspace and actor as they are at this moment, and lets nobody change or delete a
    row. `record_audit` is the only writer.
    """

    class Action(models.TextChoices):
        TRUST = "trust", "Trust level"
        SOUL = "soul", "SOUL"
        AGENT = "agent", "Agent"
        TOOLS = "tools", "Tools of an agent"
        MEMBER = "member", "Membership"
        ROLE = "role", "Role"
        INVITATION = "invitation", "Invitation"
        CHANNEL = "channel", "Who is in a channel"
        ENDPOINT = "endpoint", "Model endpoint"
        MCP_SERVER = "mcp_server", "MCP server"
        BUDGET = "budget", "Budget"
        PLUGIN = "plugin", "Memory plugin"
        TOKEN = "token", "API token"
        WEBHOOK = "webhook", "Webhook"
        EXPORT = "export", "Export"
        SETTINGS = "settings", "Workspace settings"
        ACCOUNT = "account", "Account"

    created_at = models.DateTimeField("when", db_default=Now(), editable=False)
    action = models.CharField("what", max_length=12, choices=Action.choices)
    workspace_id = models.BigIntegerField(null=True)
    workspace_name = models.CharField("workspace", max_length=80, default="")
    actor_id = models.BigIntegerField(null=True)
    actor = models.CharField("who", max_length=120)
    subject = models.CharField(max_length=200)
    before = models.CharField(max_length=1000, blank=True, default="")
    after = models.CharField(max_length=1000, blank=True, default="")
    note = models.CharField(max_length=300, blank=True, default="")

    class Meta:
        ordering = ["-id"]
        indexes = [models.Index(fields=["workspace_id", "-id"], name="audit_of_workspace")]
        triggers = [
            pgtrigger.Protect(name="audit_is_append_only", operation=pgtrigger.Update | pgtrigger.Delete),
            pgtrigger.Trigger(
                name="audit_names",
                operation=pgtrigger.Insert,
                when=pgtrigger.Before,
                func=(
                    "NEW.actor := COALESCE((SELECT name || ' (@' || handle || ')' FROM workspaces_participant"
                    " WHERE id = NEW.actor_id), NEW.actor);"
                    " NEW.workspace_name := COALESCE((SELECT name FROM workspaces_workspace"
                    " WHERE id = NEW.workspace_id), '');"
                    " RETURN NEW;"
                ),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.get_action_display()}: {self.subject}"
