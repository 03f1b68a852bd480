"""Revisions: every change of an entry, who made it, when, what changed and why. Never changed, never deleted."""

from __future__ import annotations

import pgtrigger
from django.db import models
from django.db.models.functions import Now

from knowledge.models.entry import Entry
from openvibe.workspaces.models import Participant


class Revision(models.Model):
    """`number` is the entry's version after the change; `by` is None where a job made it.

    `changes` is `{field: [before, after]}`; the first revision holds what the entry began with.
    """

    class Action(models.TextChoices):
        CREATED = "created", "Written"
        PINNED = "pinned", "Pinned"
        SUGGESTED = "suggested", "Suggested"
        IMPORTED = "imported", "Imported"
        ACCEPTED = "accepted", "Accepted"
        REJECTED = "rejected", "Rejected"
        EDITED = "edited", "Edited"
        RENEWED = "renewed", "Renewed"
        SUPERSEDED = "superseded", "Superseded"
        ARCHIVED = "archived", "Archived"
        RESTORED = "restored", "Brought back"
        FLAGGED = "flagged", "Sent to review"
        EXPIRED = "expired", "Expired"
        SETTLED = "settled", "Contradiction settled"

    entry = models.ForeignKey(Entry, on_delete=models.CASCADE, related_name="revisions")
    number = models.PositiveIntegerField()
    action = models.CharField(max_length=10, choices=Action.choices)
    by = models.ForeignKey(Participant, null=True, on_delete=models.PROTECT, related_name="+")
    how = models.CharField(max_length=10, help_text="What changed it: page, api, admin, agent, import, job.")
    note = models.TextField(blank=True, help_text="Why, in the words of whoever did it.")
    changes = models.JSONField(default=dict)
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        ordering = ["-number"]
        constraints = [models.UniqueConstraint(fields=["entry", "number"], name="revision_number_once")]
        triggers = [
            pgtrigger.Protect(
                name="final",
                operation=pgtrigger.Update | pgtrigger.Delete,
            )
        ]

    def __str__(self) -> str:
        return f"{self.get_action_display()} ({self.number})"
