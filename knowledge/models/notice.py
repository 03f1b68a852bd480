"""What the owner of an entry finds in the inbox."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from knowledge.models.entry import Entry
from openvibe.workspaces.models import Participant


class Notice(models.Model):
    """An entry needs its owner. One open notice an entry, person and reason; seen once its page or the queue was."""

    participant = models.ForeignKey(Participant, on_delete=models.CASCADE, related_name="knowledge_notices")
    entry = models.ForeignKey(Entry, on_delete=models.CASCADE, related_name="notices")
    reason = models.CharField(max_length=16, choices=[*Entry.Reason.choices, ("proposed", "An agent suggested it")])
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    seen_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["participant", "entry", "reason"], condition=Q(seen_at=None), name="notice_once_while_unseen"
            )
        ]
        indexes = [models.Index(fields=["participant", "-id"], condition=Q(seen_at=None), name="notice_unseen")]

    def __str__(self) -> str:
        return f"{self.reason}: {self.entry_id}"
