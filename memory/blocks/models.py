"""Context blocks, profile notes, and the versions of both."""

from __future__ import annotations

import pgtrigger
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now

from memory.blocks.values import BLOCK_TOKEN_LIMIT, LABEL_PATTERN, PROFILE_TOKEN_LIMIT
from openvibe.engines.database.models import TimestampedModel
from openvibe.workspaces.models import Participant


class Block(TimestampedModel):
    """`content` is at most `max_tokens` (o200k_base). Every change has a version; writers name the one they saw."""

    agent = models.ForeignKey(Participant, on_delete=models.CASCADE, related_name="blocks", db_index=False)
    label = models.CharField(max_length=40)
    description = models.CharField(max_length=300, blank=True)
    content = models.TextField(blank=True)
    tokens = models.PositiveIntegerField(default=0, help_text="Tokens of the content (o200k_base).")
    max_tokens = models.PositiveIntegerField(
        default=300, validators=[MinValueValidator(1), MaxValueValidator(BLOCK_TOKEN_LIMIT)]
    )
    readonly = models.BooleanField(default=False, help_text="Nobody changes it until an admin takes this back.")
    version = models.PositiveIntegerField(default=1)
    changed_by = models.ForeignKey(Participant, null=True, on_delete=models.SET_NULL, related_name="+")

    class Meta:
        ordering = ["label"]
        constraints = [
            models.UniqueConstraint(fields=["agent", "label"], name="block_label_once"),
            models.CheckConstraint(condition=Q(label__regex=rf"^{LABEL_PATTERN}$"), name="block_label_form"),
            models.CheckConstraint(condition=Q(tokens__lte=F("max_tokens")), name="block_fits"),
            models.CheckConstraint(condition=Q(max_tokens__gte=1, max_tokens__lte=2000), name="block_limit_sensible"),
        ]

    def __str__(self) -> str:
        return self.label


class ProfileNote(TimestampedModel):
    """What one agent noted about one person, at most `max_tokens` (o200k_base). Never shown to other agents."""

    agent = models.ForeignKey(Participant, on_delete=models.CASCADE, related_name="profile_notes", db_index=False)
    person = models.ForeignKey(Participant, on_delete=models.CASCADE, related_name="+")
    content = models.TextField(blank=True)
    tokens = models.PositiveIntegerField(default=0)
    version = models.PositiveIntegerField(default=1)
    changed_by = models.ForeignKey(Participant, null=True, on_delete=models.SET_NULL, related_name="+")
    max_tokens = PROFILE_TOKEN_LIMIT

    class Meta:
        ordering = ["person__name", "id"]
        constraints = [
            models.UniqueConstraint(fields=["agent", "person"], name="profile_note_once"),
            models.CheckConstraint(condition=Q(tokens__lte=PROFILE_TOKEN_LIMIT), name="profile_note_fits"),
        ]

    def __str__(self) -> str:
        return f"{self.agent} about {self.person}"


class CarriedVersion(models.Model):
    """What a block or a profile note said at one time, and who wrote it. Never changed; it goes with its block."""

    block = models.ForeignKey(Block, null=True, on_delete=models.CASCADE, related_name="versions", db_index=False)
    note = models.ForeignKey(ProfileNote, null=True, on_delete=models.CASCADE, related_name="versions", db_index=False)
    number = models.PositiveIntegerField()
    content = models.TextField(blank=True)
    author = models.ForeignKey(Participant, null=True, on_delete=models.SET_NULL, related_name="+")
    how = models.CharField(
        max_length=40, help_text="What changed it: page, api, admin, agent, review, import, default."
    )
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        ordering = ["-number"]
        constraints = [
            models.UniqueConstraint(fields=["block", "number"], name="block_version_once"),
            models.UniqueConstraint(fields=["note", "number"], name="note_version_once"),
            models.CheckConstraint(
                condition=Q(block=None, note__isnull=False) | Q(block__isnull=False, note=None),
                name="version_of_block_or_note",
            ),
        ]
        triggers = [
            pgtrigger.Protect(
                name="text_is_final",
                operation=pgtrigger.Update,
                condition=pgtrigger.Condition("OLD.content <> NEW.content OR OLD.number <> NEW.number"),
            )
        ]

    def __str__(self) -> str:
        return f"Version {self.number}"
