"""A person's verdict on an agent's message."""

from __future__ import annotations

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q

from openvibe.base.models import Timestamped
from openvibe.chat.models import Message
from openvibe.workspaces.models import Participant


class Feedback(Timestamped):
    """One verdict per person and message, changeable."""

    class Verdict(models.TextChoices):
        UP = "up", "Helpful"
        DOWN = "down", "Not helpful"

    class Tag(models.TextChoices):
        INACCURATE = "inaccurate", "Inaccurate"
        WRONG_FORMAT = "wrong_format", "Wrong format"
        NOT_USEFUL = "not_useful", "Not useful"

    message = models.ForeignKey(Message, on_delete=models.CASCADE, related_name="feedback")
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
