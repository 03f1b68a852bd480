"""What becomes of a text that was deleted or replaced: it leaves what was stored of it, and others may repeat it."""

from __future__ import annotations

import json

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from openvibe.base.quotation import Quotation
from openvibe.chat.models.message import Message
from openvibe.engines.database.fields import EncryptedTextField
from openvibe.workspaces.models import Participant


class Erasure(models.Model):
    """A text on its way out of stored prompts, answers and the like. A job works on it until nothing can bring it back.

    `texts` is a JSON list of what the message said, encrypted, and empty from the moment it is finished.
    `counts` says how much was rewritten, by what it is.
    """

    message = models.ForeignKey(Message, on_delete=models.CASCADE, related_name="erasures")
    by = models.ForeignKey(Participant, null=True, on_delete=models.SET_NULL, related_name="+")
    is_deletion = models.BooleanField()
    texts = EncryptedTextField(blank=True)
    counts = models.JSONField(default=dict)
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    finished_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["id"]
        constraints = [
            models.CheckConstraint(condition=Q(finished_at=None) | Q(texts=""), name="erasure_leaves_no_words"),
            models.UniqueConstraint(fields=["message"], condition=Q(is_deletion=True), name="erasure_of_deletion_once"),
        ]
        indexes = [models.Index(fields=["id"], condition=Q(finished_at=None), name="erasure_pending")]

    def __str__(self) -> str:
        return f"Erasure of message {self.message_id}"

    def quotation(self) -> Quotation:
        """What finds the words, of an edit those that are gone; nothing once they are forgotten, or cannot be read."""
        stored = Erasure.objects.values_list("texts", flat=True).get(pk=self.pk)
        return Quotation(json.loads(stored or "[]"), kept_text=self.message.body)


class Quote(models.Model):
    """A text of somebody's own that repeats a deleted message: ids only. `kind` is the name of a QuoteKind, `ref` the
    id of its row. `kept_at`: its owner said that it stays."""

    message = models.ForeignKey(Message, on_delete=models.CASCADE, related_name="quotes", db_index=False)
    kind = models.CharField(max_length=12)
    ref = models.PositiveBigIntegerField()
    owner = models.ForeignKey(Participant, null=True, on_delete=models.CASCADE, related_name="+")
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    kept_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["id"]
        constraints = [models.UniqueConstraint(fields=["message", "kind", "ref"], name="quote_once")]
        indexes = [models.Index(fields=["owner"], condition=Q(kept_at=None), name="quote_of_owner")]

    def __str__(self) -> str:
        return f"{self.kind} {self.ref}"
