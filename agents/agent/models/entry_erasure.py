"""Knowledge that was erased, on its way out of stored prompts."""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Now

from knowledge.models import Entry
from openvibe.engines.database.fields import EncryptedTextField


class EntryErasure(models.Model):
    """An erased entry that stored prompts may still tell of. A job takes it out of them and deletes this row with it.

    Nobody is shown what stored prompts say of the entry, or any index of topics, as long as the row is there. `topics`
    is a JSON list of all that the entry was ever called, encrypted.
    """

    entry = models.OneToOneField(Entry, on_delete=models.CASCADE, related_name="+")
    topics = EncryptedTextField()
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        ordering = ["id"]

    def __str__(self) -> str:
        return f"Erasure of entry {self.entry_id}"
