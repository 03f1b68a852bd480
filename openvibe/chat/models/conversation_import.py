"""Imports of conversations from elsewhere, with the account of what was read; and where somebody or a channel that
came with one is from."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from openvibe.chat.models.channel import Channel
from openvibe.engines.database.locks import LockKind
from openvibe.engines.jobs.jobs import Job, JobKind

MAX_ORIGIN_CHARACTERS = 120


class ConversationImport(Job):
    """One file that was brought in. What it wrote stays whatever becomes of this row."""

    class State(models.TextChoices):
        QUEUED = "queued", "waiting"
        RUNNING = "running", "being read"
        DONE = "done", "done"
        FAILED = "failed", "failed"

    workspace = models.ForeignKey("workspaces.Workspace", on_delete=models.CASCADE, related_name="conversation_imports")
    requested_by = models.ForeignKey("workspaces.Participant", null=True, on_delete=models.SET_NULL, related_name="+")
    state = models.CharField(max_length=7, choices=State.choices, default=State.QUEUED)
    file_name = models.CharField(max_length=200)
    format = models.CharField(max_length=20, help_text="Which reader read it.")
    size = models.PositiveBigIntegerField(default=0, help_text="Bytes of the file.")
    channel = models.ForeignKey(
        Channel,
        null=True,
        on_delete=models.SET_NULL,
        related_name="+",
        help_text="Where all of it goes; empty: one channel for each of the export's.",
    )
    read = models.PositiveBigIntegerField(default=0, help_text="Messages read so far.")
    written = models.PositiveBigIntegerField(default=0, help_text="Messages written so far.")
    threads = models.PositiveIntegerField(default=0)
    account = models.JSONField(default=dict, help_text="What was read, taken in and left out: kinds, left_out.")

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["workspace"], condition=Q(state="running"), name="conversation_import_one_at_a_time"
            ),
            models.CheckConstraint(
                condition=Q(state__in=["queued", "running", "done", "failed"]), name="conversation_import_state_known"
            ),
        ]

    def __str__(self) -> str:
        return f"Import {self.pk} ({self.state})"

    @property
    def is_unfinished(self) -> bool:
        return self.state in (self.State.QUEUED, self.State.RUNNING)


IMPORTS = JobKind(ConversationImport, LockKind.CONVERSATION_IMPORT, active=(ConversationImport.State.RUNNING,))


class Origin(models.Model):
    """What a source calls a speaker or a channel, in each of its exports: a later import finds them by it."""

    workspace = models.ForeignKey("workspaces.Workspace", on_delete=models.CASCADE, related_name="+", db_index=False)
    external_id = models.CharField(max_length=MAX_ORIGIN_CHARACTERS)
    participant = models.ForeignKey(
        "workspaces.Participant", null=True, on_delete=models.CASCADE, related_name="origins"
    )
    channel = models.ForeignKey(Channel, null=True, on_delete=models.CASCADE, related_name="origins")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["workspace", "external_id"], name="origin_once"),
            models.CheckConstraint(condition=Q(participant=None) ^ Q(channel=None), name="origin_of_one"),
        ]

    def __str__(self) -> str:
        return self.external_id


class ImportNotesSeen(models.Model):
    """The moment up to which somebody has put away what the inbox says of imports."""

    participant = models.OneToOneField("workspaces.Participant", on_delete=models.CASCADE, related_name="+")
    until = models.DateTimeField()

    def __str__(self) -> str:
        return f"Notes until {self.until}"
