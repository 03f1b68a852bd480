"""The memory plugin a workspace uses, every compaction that was requested, an outside agent's sessions, and how far
each agent has reviewed a thread."""

import pgtrigger
from django.db import models
from django.db.models import Q

from memory.plugins.base import MAX_FOCUS_CHARACTERS
from openvibe.chat.models import Thread
from openvibe.engines.database.locks import LockKind
from openvibe.engines.database.models import TimestampedModel
from openvibe.engines.jobs.jobs import Job, JobKind
from openvibe.workspaces.models import Participant, Workspace

DEFAULT_PLUGIN = "memory/lcm"


class MemoryPlugin(TimestampedModel):
    """A plugin's place in a workspace: switched on or off, and its settings. Without rows, DEFAULT_PLUGIN is on."""

    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="memory_plugins", db_index=False)
    name = models.CharField(max_length=80, help_text="For example memory/lcm.")
    enabled = models.BooleanField(default=False)
    config = models.JSONField(default=dict, blank=True)
    changed_by = models.ForeignKey(Participant, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["workspace", "name"], name="memory_plugin_once"),
            models.UniqueConstraint(
                fields=["workspace"], condition=Q(enabled=True), name="memory_plugin_one_enabled_per_workspace"
            ),
        ]

    def __str__(self) -> str:
        return self.name


class Compaction(Job):
    """One compaction of a thread: asked for, running, then done, nothing to do, or failed with its reason.

    At most one per thread is waiting or running. Sizes in tokens of the whole context, envelopes included.
    """

    class Trigger(models.TextChoices):
        THRESHOLD = "threshold", "The conversation grew past its threshold"
        TOOL_RESULT = "tool_result", "A tool answered at great length"
        MILESTONE = "milestone", "A milestone was reached"
        APPROVAL = "approval", "The work waits for an approval"
        RESUME = "resume", "Long work was taken up again"
        CHANGED = "changed", "A message was edited or deleted"
        HAND = "hand", "Somebody asked for it"
        AGENT = "agent", "An agent asked for it"

    class State(models.TextChoices):
        QUEUED = "queued", "waiting"
        RUNNING = "running", "running"
        DONE = "done", "done"
        NOTHING = "nothing", "nothing to do"
        FAILED = "failed", "failed"

    thread = models.ForeignKey(Thread, on_delete=models.CASCADE, related_name="compactions", db_index=False)
    plugin = models.CharField(max_length=80)
    trigger = models.CharField(max_length=11, choices=Trigger.choices)
    full = models.BooleanField(default=False)
    focus = models.CharField(
        max_length=MAX_FOCUS_CHARACTERS, blank=True, help_text="What to keep in most detail, in the asker's words."
    )
    state = models.CharField(max_length=7, choices=State.choices, default=State.QUEUED)
    requested_by = models.ForeignKey(Participant, null=True, on_delete=models.SET_NULL, related_name="+")
    tokens_before = models.PositiveIntegerField(null=True)
    tokens_after = models.PositiveIntegerField(null=True)
    created_count = models.PositiveIntegerField(default=0, help_text="Summaries made.")
    summary_ids = models.JSONField(default=list)
    at_seq = models.PositiveBigIntegerField(default=0, help_text="The thread's newest message when it ended.")
    done_messages = models.PositiveIntegerField(default=0)
    of_messages = models.PositiveIntegerField(default=0)
    note = models.TextField(blank=True, help_text="What people should know of how it was done.")

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["thread"], condition=Q(state__in=["queued", "running"]), name="compaction_one_at_a_time"
            ),
            models.CheckConstraint(
                condition=Q(state__in=["queued", "running", "done", "nothing", "failed"]), name="compaction_state_known"
            ),
            models.CheckConstraint(condition=~Q(state="failed") | ~Q(error=""), name="compaction_failure_has_reason"),
        ]
        indexes = [
            models.Index(fields=["thread", "-id"], name="compaction_of_thread"),
            models.Index(fields=["sent_at"], condition=Q(state__in=["queued", "running"]), name="compaction_waiting"),
        ]
        triggers = [
            pgtrigger.Trigger(
                name="tell_progress",
                operation=pgtrigger.Insert | pgtrigger.Update,
                when=pgtrigger.After,
                func=(
                    "INSERT INTO base_event (kind, workspace_id, channel_id, thread_id, created_at)"
                    " SELECT 'memory_changed', workspace_id, channel_id, id, now() FROM chat_thread"
                    " WHERE id = NEW.thread_id; RETURN NULL;"
                ),
            )
        ]

    def __str__(self) -> str:
        return f"Compaction {self.pk} ({self.state})"

    @property
    def is_over(self) -> bool:
        return self.state in (self.State.DONE, self.State.NOTHING, self.State.FAILED)


COMPACTIONS = JobKind(Compaction, LockKind.COMPACTION, active=(Compaction.State.RUNNING,))


class SessionInfo(TimestampedModel):
    """What an agent keeps about one of its sessions: a title, its own id, whatever it likes (JSON, small)."""

    agent = models.ForeignKey(Participant, on_delete=models.CASCADE, related_name="+", db_index=False)
    thread = models.ForeignKey(Thread, on_delete=models.CASCADE, related_name="+")
    external_id = models.CharField(max_length=80, blank=True)
    info = models.JSONField(default=dict, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["agent", "thread"], name="session_info_once"),
            models.UniqueConstraint(
                fields=["agent", "external_id"], condition=~Q(external_id=""), name="session_external_id_once"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.agent} in {self.thread_id}"


class ReviewMark(models.Model):
    """The message up to which an agent has reviewed a thread for what it can learn."""

    agent = models.ForeignKey(Participant, on_delete=models.CASCADE, related_name="+", db_index=False)
    thread = models.ForeignKey(Thread, on_delete=models.CASCADE, related_name="+")
    reviewed_seq = models.PositiveBigIntegerField(default=0)
    reviewed_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["agent", "thread"], name="review_mark_once")]

    def __str__(self) -> str:
        return f"{self.agent} reviewed {self.thread_id} up to {self.reviewed_seq}"
