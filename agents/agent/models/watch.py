"""Watching: the channels in which an agent looks by itself whether to speak up, and each of its looks."""

from __future__ import annotations

from typing import ClassVar

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from agents.agent.models.agent import Agent
from openvibe.chat.models import Channel
from openvibe.engines.database.models import TimestampedModel
from openvibe.workspaces.access import Access

MAX_REST_MINUTES = 240
"""The longest that people may have said nothing before an agent looks: four hours."""


class WatchQuerySet(models.QuerySet["Watch"]):
    def visible_to(self, access: Access) -> WatchQuerySet:
        """Those of channels that the asker sees."""
        return self.filter(channel__in=Channel.objects.visible_to(access), agent__workspace=access.workspace_id)


class Watch(TimestampedModel):
    """A channel that an agent watches for what its SOUL's `proactive_triggers` name.

    `rest_minutes`: how long people have said nothing in a thread before it looks. `judged_from`: verdicts on what it
    posted are counted from then on (`agents.watching.thresholds`). `note` says why it did not look the last time, or
    who stopped it. `silence_count` and `post_count`: what its looks came to.
    """

    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="watches", db_index=False)
    channel = models.ForeignKey(Channel, on_delete=models.CASCADE, related_name="+", db_index=False)
    is_active = models.BooleanField(default=True)
    rest_minutes = models.PositiveSmallIntegerField(
        default=5,
        validators=[MinValueValidator(1), MaxValueValidator(MAX_REST_MINUTES)],
        help_text="Minutes that people have said nothing in a thread before it looks.",
    )
    author = models.ForeignKey("workspaces.Participant", on_delete=models.PROTECT, related_name="+")
    note = models.CharField(max_length=300, blank=True)
    judged_from = models.DateTimeField(db_default=Now(), editable=False)
    silence_count = models.PositiveIntegerField(default=0, editable=False)
    post_count = models.PositiveIntegerField(default=0, editable=False)

    objects: ClassVar[models.Manager[Watch]] = WatchQuerySet.as_manager()

    class Meta:
        ordering = ["id"]
        verbose_name_plural = "watches"
        constraints = [
            models.UniqueConstraint(fields=["agent", "channel"], name="watch_once"),
            models.CheckConstraint(
                condition=Q(rest_minutes__gte=1, rest_minutes__lte=MAX_REST_MINUTES), name="watch_rest_bounded"
            ),
        ]
        indexes = [models.Index(fields=["channel", "id"], name="watch_of_channel")]

    def __str__(self) -> str:
        return f"@{self.agent.handle} watches {self.channel}"


class WatchedThread(models.Model):
    """A thread of a watched channel in which people said something since it is watched: a trigger on messages notes it.

    `talk_seq` is the number of the newest message of people, `looked_seq` that up to which it has looked or need not
    look any more. `due_at`: when it is to look next; empty where there is nothing to look at.
    """

    watch = models.ForeignKey(Watch, on_delete=models.CASCADE, related_name="threads", db_index=False)
    thread = models.ForeignKey("chat.Thread", on_delete=models.CASCADE, related_name="+")
    talk_seq = models.PositiveBigIntegerField()
    talked_at = models.DateTimeField()
    looked_seq = models.PositiveBigIntegerField()
    due_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["id"]
        constraints = [models.UniqueConstraint(fields=["watch", "thread"], name="watched_thread_once")]
        indexes = [models.Index(fields=["due_at"], condition=Q(due_at__isnull=False), name="watched_thread_due")]

    def __str__(self) -> str:
        return f"Thread {self.thread_id}, up to {self.looked_seq} of {self.talk_seq}"


class WatchLook(models.Model):
    """One look at what people said in a thread: the question to the model, and what came of it.

    It is written before the model is asked, and asked once: a look whose worker died stays `asking` for ever.
    `content` is the prompt, packed as those of runs are; it goes, and so does `why`, with a deleted message of the
    thread. After PROMPT_RETENTION_DAYS what did not speak goes altogether, what did loses its prompt. `line` is the
    line in the thread that its run answers, where it spoke.
    """

    class Outcome(models.TextChoices):
        ASKING = "asking", "Under way, or broken off"
        SILENT = "silent", "Silent"
        SPOKE = "spoke", "Spoke up"
        OVERTAKEN = "overtaken", "People went on"
        FAILED = "failed", "The model did not answer"

    watch = models.ForeignKey(Watch, on_delete=models.CASCADE, related_name="looks", db_index=False)
    thread = models.ForeignKey("chat.Thread", on_delete=models.CASCADE, related_name="+")
    upto_seq = models.PositiveBigIntegerField(help_text="Number of the newest message of people that it looked at.")
    outcome = models.CharField(max_length=9, choices=Outcome.choices, default=Outcome.ASKING)
    trigger = models.TextField(blank=True, help_text="Of the SOUL's proactive triggers, the one that it names.")
    sure = models.PositiveSmallIntegerField(null=True, help_text="How sure the model says it is, in percent.")
    why = models.CharField(max_length=300, blank=True, help_text="In the model's words; or why nothing was posted.")
    line = models.OneToOneField("chat.Message", null=True, on_delete=models.SET_NULL, related_name="watch_look")
    model = models.CharField(max_length=120, blank=True)
    tokens = models.PositiveIntegerField(default=0, help_text="Of its prompt.")
    content = models.BinaryField(null=True)
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    finished_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(fields=["watch", "thread", "upto_seq"], name="looked_once"),
            models.CheckConstraint(
                condition=Q(outcome__in=["asking", "silent", "spoke", "overtaken", "failed"]), name="look_outcome_known"
            ),
            models.CheckConstraint(condition=~Q(outcome="spoke") | ~Q(trigger=""), name="look_speaks_for_trigger"),
        ]
        indexes = [
            models.Index(fields=["watch", "-id"], name="look_of_watch"),
            models.Index(
                fields=["created_at"], condition=~Q(outcome="spoke") | Q(content__isnull=False), name="look_expires"
            ),
        ]

    def __str__(self) -> str:
        return f"Look at thread {self.thread_id} ({self.outcome})"
