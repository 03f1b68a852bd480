"""Episodes: what one agent remembers about its own past. Never shared between agents."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from django.utils import timezone

from openvibe.chat.models import Channel, Thread
from openvibe.workspaces.models import Participant


class EpisodeQuerySet(models.QuerySet["Episode"]):
    def of(self, agent: Participant | int) -> EpisodeQuerySet:
        """The agent's own, not archived and not past their day."""
        alive = Q(expires_at=None) | Q(expires_at__gt=timezone.now())
        return self.filter(alive, agent=agent, archived_at=None)

    def usable_in(self, channel: Channel | int) -> EpisodeQuerySet:
        """Without what was learned where this channel's members were not the audience (spec: agents.md).

        People-only threads give nothing to anybody; private channels and restricted threads only to themselves.
        """
        elsewhere_is_fine = Q(channel__is_private=False, thread__access=Thread.Access.OPEN) | Q(thread=None)
        same_audience = Q(channel=channel) & ~Q(thread__access=Thread.Access.HUMAN_ONLY)
        return self.filter(elsewhere_is_fine | same_audience)

    def open_feedback(self) -> EpisodeQuerySet:
        """Feedback received and not yet applied, newest first."""
        return self.filter(kind=Episode.Kind.FEEDBACK_RECEIVED, applied_at=None).order_by("-created_at", "-id")


class Episode(models.Model):
    """`feedback_received` stays until applied or deleted by a person; other kinds live 90 days."""

    class Kind(models.TextChoices):
        FEEDBACK_RECEIVED = "feedback_received", "Feedback received"
        LEARNING_ACQUIRED = "learning_acquired", "Learning acquired"
        TASK_COMPLETED = "task_completed", "Task completed"
        TASK_FAILED = "task_failed", "Task failed"
        TRUST_CHECK = "trust_check", "Trust check"

    agent = models.ForeignKey(Participant, on_delete=models.CASCADE, related_name="episodes")
    kind = models.CharField(max_length=20, choices=Kind.choices)
    summary = models.TextField(max_length=2000)
    learning = models.TextField(blank=True, max_length=2000)
    feedback = models.OneToOneField(
        "memory.Feedback", null=True, blank=True, on_delete=models.SET_NULL, related_name="episode"
    )
    channel = models.ForeignKey(Channel, null=True, blank=True, on_delete=models.CASCADE, related_name="+")
    thread = models.ForeignKey(Thread, null=True, blank=True, on_delete=models.CASCADE, related_name="+")
    created_at = models.DateTimeField(db_default=Now())
    expires_at = models.DateTimeField(null=True, blank=True)
    prompt_count = models.PositiveIntegerField(default=0, help_text="How many runs had it in their prompt.")
    applied_at = models.DateTimeField(null=True, blank=True)
    applied_by = models.ForeignKey(Participant, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    applied_how = models.CharField(
        max_length=9,
        blank=True,
        choices=[("person", "By a person"), ("soul", "By a SOUL change"), ("withdrawn", "Withdrawn")],
    )
    archived_at = models.DateTimeField(null=True, blank=True)

    objects: ClassVar[models.Manager[Episode]] = EpisodeQuerySet.as_manager()

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(
                    kind__in=[
                        "feedback_received",
                        "learning_acquired",
                        "task_completed",
                        "task_failed",
                        "trust_check",
                    ]
                ),
                name="episode_kind_known",
            ),
            models.CheckConstraint(
                condition=~Q(kind="feedback_received") | Q(expires_at=None),
                name="episode_feedback_is_permanent",
            ),
        ]
        indexes = [
            models.Index(
                fields=["agent", "-created_at"],
                condition=Q(kind="feedback_received", applied_at=None),
                name="episode_open_feedback",
            ),
            models.Index(fields=["agent", "-created_at"], name="episode_recent"),
        ]

    def __str__(self) -> str:
        return self.summary[:60]
