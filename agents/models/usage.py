"""Where knowledge was used: which run had which entry before it."""

from __future__ import annotations

from django.db import models
from django.db.models.functions import Now

from agents.models.run import Run
from knowledge.models import Entry


class KnowledgeUse(models.Model):
    """An entry stood in a run's prompt, or a tool of the run returned it. Counted once a run, however often."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="knowledge_uses")
    entry = models.ForeignKey(Entry, on_delete=models.CASCADE, related_name="uses")
    how = models.CharField(max_length=8, default="prompt", help_text="prompt or tool")
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        ordering = ["-id"]
        constraints = [models.UniqueConstraint(fields=["run", "entry"], name="knowledge_used_once_per_run")]
        indexes = [models.Index(fields=["entry", "-id"], name="knowledge_used_recently")]

    def __str__(self) -> str:
        return f"Entry {self.entry_id} in run {self.run_id}"
