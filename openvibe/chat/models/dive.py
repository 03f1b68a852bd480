"""Dives: a focused side thread between one person and one agent, and what it brought.

A dive is a thread (`Thread.parent` is the thread it started in), so messages, memory, search and permissions work on
it unchanged. This row says whose it is and how it stands.
"""

from __future__ import annotations

from typing import ClassVar

import pgtrigger
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now

from openvibe.chat.models.message import Message
from openvibe.chat.models.thread import Thread
from openvibe.chat.models.visibility import visible_threads
from openvibe.engines.llm.offline.drafts import (
    MAX_BULLETS,
    MAX_DEFERRED,
    MAX_HEADLINE_CHARACTERS,
    MAX_QUESTIONS,
    MIN_BULLETS,
    ResultDraft,
)
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Participant

MAX_ACTIVE_DIVES = 7
"""Active dives in one thread."""


class DiveQuerySet(models.QuerySet["Dive"]):
    def visible_to(self, access: Access) -> DiveQuerySet:
        """Dives whose thread the asker sees: whoever may see the thread they started in."""
        return self.filter(visible_threads(access, "thread__"))


class Dive(models.Model):
    """`active → published | discarded`. `slot` is 1 to 7 while it is active: the database counts them."""

    class State(models.TextChoices):
        ACTIVE = "active", "Active"
        PUBLISHED = "published", "Published"
        DISCARDED = "discarded", "Discarded"

    thread = models.OneToOneField(Thread, on_delete=models.CASCADE, related_name="dive")
    parent = models.ForeignKey(Thread, on_delete=models.CASCADE, related_name="dives", db_index=False)
    source = models.ForeignKey(Message, on_delete=models.CASCADE, related_name="dives_from_here")
    agent = models.ForeignKey(Participant, on_delete=models.PROTECT, related_name="+")
    started_by = models.ForeignKey(Participant, on_delete=models.PROTECT, related_name="+")
    state = models.CharField(max_length=9, choices=State.choices, default=State.ACTIVE)
    slot = models.PositiveSmallIntegerField(null=True, editable=False)
    result = models.OneToOneField(Message, null=True, on_delete=models.SET_NULL, related_name="published_dive")
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    ended_at = models.DateTimeField(null=True)
    ended_by = models.ForeignKey(
        Participant, null=True, on_delete=models.PROTECT, related_name="+", help_text="Who published or discarded it."
    )

    objects: ClassVar[models.Manager[Dive]] = DiveQuerySet.as_manager()

    class Meta:
        ordering = [F("id").desc()]
        constraints = [
            models.UniqueConstraint(fields=["parent", "slot"], name="dive_slot_once"),
            models.CheckConstraint(
                condition=Q(state="active", slot__gte=1, slot__lte=MAX_ACTIVE_DIVES, ended_at=None)
                | (~Q(state="active") & Q(slot=None, ended_at__isnull=False)),
                name="dive_slot_while_active",
            ),
            models.CheckConstraint(
                condition=Q(state__in=["active", "published", "discarded"]), name="dive_state_known"
            ),
        ]
        indexes = [models.Index(fields=["parent", "-id"], name="dive_of_thread")]

    def __str__(self) -> str:
        return f"Dive {self.pk} ({self.state})"

    @property
    def is_active(self) -> bool:
        return self.state == self.State.ACTIVE


class DiveResult(models.Model):
    """What a published dive posted, in its parts. The message holds headline and bullets; deleting it deletes this row,
    by a trigger."""

    message = models.OneToOneField(Message, on_delete=models.CASCADE, related_name="dive_result")
    dive = models.ForeignKey(Dive, null=True, on_delete=models.SET_NULL, related_name="results")
    headline = models.CharField(max_length=MAX_HEADLINE_CHARACTERS)
    bullets = ArrayField(models.TextField())
    full = models.TextField(blank=True)
    full_tokens = models.PositiveIntegerField(default=0, help_text="Tokens of the full text (o200k_base).")
    deferred = ArrayField(models.TextField(), default=list)
    questions = ArrayField(models.TextField(), default=list)
    agent = models.ForeignKey(Participant, on_delete=models.PROTECT, related_name="+")
    published_by = models.ForeignKey(Participant, on_delete=models.PROTECT, related_name="+")
    published_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=~Q(headline=""), name="result_has_headline"),
            models.CheckConstraint(
                condition=Q(bullets__len__gte=MIN_BULLETS, bullets__len__lte=MAX_BULLETS), name="result_bullets"
            ),
            models.CheckConstraint(condition=Q(deferred__len__lte=MAX_DEFERRED), name="result_deferred"),
            models.CheckConstraint(condition=Q(questions__len__lte=MAX_QUESTIONS), name="result_questions"),
        ]
        triggers = [
            pgtrigger.Protect(
                name="result_is_final",
                operation=pgtrigger.Update,
                condition=pgtrigger.Condition(
                    "OLD.headline <> NEW.headline OR OLD.bullets <> NEW.bullets OR OLD.full <> NEW.full"
                ),
            )
        ]

    def __str__(self) -> str:
        return self.headline

    @property
    def parts(self) -> ResultDraft:
        lists = (tuple(items) for items in (self.deferred, self.questions))
        return ResultDraft(self.headline, tuple(self.bullets), self.full, *lists)
