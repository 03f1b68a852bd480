"""Two entries on one subject that do not agree."""

from __future__ import annotations

from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now

from knowledge.models.entry import Entry
from openvibe.workspaces.models import Participant


class Contradiction(models.Model):
    """`first` is the older entry. Found once a pair: settled as no contradiction, it is found again only when one of
    the two changes (`first_version`, `second_version` are what was compared)."""

    workspace = models.ForeignKey("workspaces.Workspace", on_delete=models.CASCADE, related_name="+")
    first = models.ForeignKey(Entry, on_delete=models.CASCADE, related_name="+")
    second = models.ForeignKey(Entry, on_delete=models.CASCADE, related_name="contradictions")
    first_version = models.PositiveIntegerField()
    second_version = models.PositiveIntegerField()
    why = models.CharField(max_length=300, help_text="What differs, in words for people.")
    found_by = models.CharField(max_length=10, default="rule", help_text="rule or model")
    found_at = models.DateTimeField(db_default=Now(), editable=False)
    settled_at = models.DateTimeField(null=True)
    settled_by = models.ForeignKey(Participant, null=True, on_delete=models.SET_NULL, related_name="+")
    settled_how = models.CharField(max_length=20, blank=True, help_text="both_hold, edited, superseded or archived")

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(fields=["first", "second"], name="contradiction_once_per_pair"),
            models.CheckConstraint(condition=Q(first__lt=F("second")), name="contradiction_older_first"),
        ]
        indexes = [
            models.Index(fields=["workspace", "-id"], condition=Q(settled_at=None), name="contradiction_open"),
            models.Index(fields=["second"], condition=Q(settled_at=None), name="contradiction_open_second"),
        ]

    def __str__(self) -> str:
        return f"{self.first_id} and {self.second_id}"
