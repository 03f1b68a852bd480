"""Messages that people keep for themselves."""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Now

from openvibe.chat.models.message import Message
from openvibe.workspaces.models import Participant


class SavedMessage(models.Model):
    """A message that a person wants to find again. Nobody else knows of it. Gone when the message is deleted."""

    participant = models.ForeignKey(Participant, on_delete=models.CASCADE, related_name="+")
    message = models.ForeignKey(Message, on_delete=models.CASCADE, related_name="saved", db_index=False)
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["message", "participant"], name="saved_message_once")]
