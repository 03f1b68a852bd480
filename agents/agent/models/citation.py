"""What answers cite of what their runs were shown."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models import Q

from agents.agent.models.run import Run


class Citation(models.Model):
    """Something that a run's answer cites, or whose words it repeats without naming it (`words` is empty then).

    Found once, at the run's end: the prompt that showed it is kept for PROMPT_RETENTION_DAYS, this stays as long as the
    answer and what is cited. `words` are the answer's own, where they stand for the `occurrence`-th time in its texts.

    A file and an image name the message that they came with, and their row by `ref`, as work does: no foreign key,
    since triggers remove files with their message; where the row is gone, nobody sees it any more.
    """

    class Kind(models.TextChoices):
        MESSAGE = "message", "A message"
        KNOWLEDGE = "knowledge", "An entry of knowledge"
        FILE = "file", "A file"
        IMAGE = "image", "An image"
        WORK = "work", "A row of work"

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="citations", db_index=False)
    position = models.PositiveSmallIntegerField(help_text="Its place in the answer, from 0; the unnamed ones last.")
    words = models.CharField(max_length=200, blank=True)
    occurrence = models.PositiveIntegerField(default=0, help_text="From 0.")
    kind = models.CharField(max_length=9, choices=Kind.choices)
    message = models.ForeignKey("chat.Message", null=True, on_delete=models.CASCADE, related_name="+")
    entry = models.ForeignKey("knowledge.Entry", null=True, on_delete=models.CASCADE, related_name="+")
    ref = models.PositiveBigIntegerField(help_text="The id of the row that is cited.")
    item_key = models.CharField(
        max_length=100, blank=True, help_text="Of the item of the run's prompt that held it; empty: a tool returned it."
    )

    objects: ClassVar[models.Manager[Citation]] = models.Manager()

    class Meta:
        ordering = ["run", "position"]
        constraints = [
            models.UniqueConstraint(fields=["run", "position"], name="citation_once_per_place"),
            models.CheckConstraint(
                condition=Q(kind__in=["message", "file", "image"], message__isnull=False, entry=None)
                | Q(kind="knowledge", entry__isnull=False, message=None)
                | Q(kind="work", message=None, entry=None),
                name="citation_cites_one_thing",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.ref} in run {self.run_id}"
