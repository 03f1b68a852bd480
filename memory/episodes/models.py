"""Feedback on messages, episodes (what one agent remembers of its past), and proposals of what to learn."""

from __future__ import annotations

import re
from typing import ClassVar

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.db.models.functions import MD5, Now
from django.utils import timezone

from openvibe.chat.models import Channel, Message, Thread, open_to_agent
from openvibe.engines.database.models import TimestampedModel
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Participant

PRAISE = "feedback:"
"""What the subject of an episode begins with that tells of a 👍."""


class Feedback(TimestampedModel):
    """One verdict per person and message, changeable."""

    class Verdict(models.TextChoices):
        UP = "up", "Helpful"
        DOWN = "down", "Not helpful"

    class Tag(models.TextChoices):
        INACCURATE = "inaccurate", "Inaccurate"
        WRONG_FORMAT = "wrong_format", "Wrong format"
        NOT_USEFUL = "not_useful", "Not useful"

    message = models.ForeignKey(Message, on_delete=models.CASCADE, related_name="feedback", db_index=False)
    participant = models.ForeignKey(Participant, on_delete=models.CASCADE, related_name="feedback_given")
    verdict = models.CharField(max_length=4, choices=Verdict.choices)
    tags = ArrayField(models.CharField(max_length=16, choices=Tag.choices), default=list, blank=True)
    text = models.TextField(blank=True, max_length=2000)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["message", "participant"], name="feedback_once_per_person"),
            models.CheckConstraint(condition=Q(verdict__in=["up", "down"]), name="feedback_verdict_known"),
        ]

    def __str__(self) -> str:
        return f"{self.participant} {self.verdict} {self.message_id}"


class EpisodeQuerySet(models.QuerySet["Episode"]):
    def of(self, agent: Participant | int) -> EpisodeQuerySet:
        """The agent's own, not archived and not past their day."""
        alive = Q(expires_at=None) | Q(expires_at__gt=timezone.now())
        return self.filter(alive, agent=agent, archived_at=None)

    def usable_in(self, channel: Channel | int, by: Access) -> EpisodeQuerySet:
        """Episodes without what was learned where this channel's members were not the audience (spec: agents.md).

        Threads that are closed to the agent `by` give nothing; private channels and restricted threads only to
        themselves.
        """
        elsewhere_is_fine = Q(channel__is_private=False, thread__access=Thread.Access.OPEN) | Q(thread=None)
        same_audience = Q(channel=channel) & open_to_agent(by, "thread__")
        return self.filter(elsewhere_is_fine | same_audience)

    def without_praise(self) -> EpisodeQuerySet:
        """Episodes without 👍, which is stored and counted, and stands in no prompt."""
        return self.exclude(kind=Episode.Kind.TASK_COMPLETED, subject__regex=f"^{PRAISE}")

    def open_feedback(self) -> EpisodeQuerySet:
        """Feedback received and not yet applied, newest first."""
        return self.filter(kind=Episode.Kind.FEEDBACK_RECEIVED, applied_at=None).order_by("-created_at", "-id")


class Episode(models.Model):
    """`feedback_received` stays until applied or deleted by a person; other kinds live 90 days.

    `subject` names what it tells of where that is one thing, such as `work:12`: there is one episode of it at most.
    """

    class Kind(models.TextChoices):
        FEEDBACK_RECEIVED = "feedback_received", "Feedback received"
        LEARNING_ACQUIRED = "learning_acquired", "Learning acquired"
        TASK_COMPLETED = "task_completed", "Task completed"
        TASK_FAILED = "task_failed", "Task failed"
        TRUST_CHECK = "trust_check", "Trust check"

    agent = models.ForeignKey(Participant, on_delete=models.CASCADE, related_name="episodes", db_index=False)
    kind = models.CharField(max_length=20, choices=Kind.choices)
    summary = models.TextField(max_length=2000)
    learning = models.TextField(blank=True, max_length=2000)
    subject = models.CharField(max_length=40, blank=True, default="")
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
    soul_version = models.PositiveIntegerField(
        null=True, editable=False, help_text="Number of the version of the agent's SOUL that applied it."
    )
    suggested_at = models.DateTimeField(
        null=True, editable=False, help_text="When whoever gave the feedback suggested to apply it always."
    )
    archived_at = models.DateTimeField(null=True, blank=True)

    objects: ClassVar[models.Manager[Episode]] = EpisodeQuerySet.as_manager()

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(
                    kind__in=["feedback_received", "learning_acquired", "task_completed", "task_failed", "trust_check"]
                ),
                name="episode_kind_known",
            ),
            models.CheckConstraint(
                condition=~Q(kind="feedback_received") | Q(expires_at=None), name="episode_feedback_is_permanent"
            ),
            models.UniqueConstraint(
                fields=["agent", "kind", "subject"], condition=~Q(subject=""), name="episode_once_per_subject"
            ),
            models.CheckConstraint(
                condition=Q(soul_version=None) | Q(applied_how="soul"), name="episode_applied_by_soul_version"
            ),
            models.CheckConstraint(
                condition=Q(suggested_at=None) | Q(applied_at=None), name="episode_suggested_while_open"
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


class Proposal(models.Model):
    """Something an agent would learn from a review. It takes effect when an admin accepts it, and can be undone.

    An episode proposal becomes a `learning_acquired` episode; a profile proposal replaces the notes about `person`
    (`before` is what they said, so that undoing brings it back).
    """

    class Kind(models.TextChoices):
        EPISODE = "episode", "Learning"
        PROFILE = "profile", "Profile notes"

    class State(models.TextChoices):
        PROPOSED = "proposed", "Proposed"
        ACCEPTED = "accepted", "Accepted"
        REJECTED = "rejected", "Rejected"
        UNDONE = "undone", "Undone"

    agent = models.ForeignKey(Participant, on_delete=models.CASCADE, related_name="proposals", db_index=False)
    thread = models.ForeignKey(Thread, on_delete=models.CASCADE, related_name="+")
    kind = models.CharField(max_length=7, choices=Kind.choices)
    person = models.ForeignKey(Participant, null=True, on_delete=models.CASCADE, related_name="+")
    text = models.TextField(max_length=2000)
    before = models.TextField(blank=True)
    because = models.TextField(blank=True, help_text="Which messages it was learned from, in words.")
    since_seq = models.PositiveBigIntegerField()
    upto_seq = models.PositiveBigIntegerField()
    state = models.CharField(max_length=8, choices=State.choices, default=State.PROPOSED)
    episode = models.OneToOneField(Episode, null=True, on_delete=models.SET_NULL, related_name="proposal")
    decided_by = models.ForeignKey(Participant, null=True, on_delete=models.SET_NULL, related_name="+")
    decided_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.CheckConstraint(condition=Q(kind__in=["episode", "profile"]), name="proposal_kind_known"),
            models.CheckConstraint(condition=Q(text__regex=r"\S"), name="proposal_not_empty"),
            models.UniqueConstraint(
                "agent", "thread", "kind", "person", "upto_seq", MD5("text"), name="proposal_once", nulls_distinct=False
            ),
        ]
        indexes = [models.Index(fields=["agent", "-id"], name="proposal_of_agent")]

    def __str__(self) -> str:
        return self.text[:60]

    @property
    def first_cited_seq(self) -> int:
        """The first message it was learned from, by number."""
        match = re.match(r"Messages? (\d+)", self.because)
        return int(match[1]) if match else self.upto_seq
