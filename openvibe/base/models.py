"""What the whole product writes: cache, e-mails that wait, events that tell open pages what changed, and the audit log.

Rows of the jobs engine are of this app, too: it has no tables of its own."""

import pgtrigger
from django.db import models
from django.db.models.functions import Now

from openvibe.engines.database.fields import EncryptedTextField
from openvibe.engines.jobs.models import Heartbeat, JobRun, QueueProbe

__all__ = ["AuditRecord", "CacheEntry", "Event", "Heartbeat", "JobRun", "OutgoingMail", "QueueProbe"]


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
