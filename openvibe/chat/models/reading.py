"""What each member has read, and what they were about to say."""

from django.db import models

from openvibe.chat.models.thread import Thread
from openvibe.workspaces.models import Participant


class ReadMarker(models.Model):
    """Up to which message somebody has read a thread."""

    thread = models.ForeignKey(Thread, on_delete=models.CASCADE, related_name="read_markers")
    participant = models.ForeignKey(Participant, on_delete=models.CASCADE, related_name="read_markers")
    last_read_seq = models.PositiveBigIntegerField(default=0)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["participant", "thread"], name="read_marker_once")]

    def __str__(self) -> str:
        return f"{self.participant} read {self.thread_id} up to {self.last_read_seq}"


class Draft(models.Model):
    """Text in a composer, kept on the server so that nothing typed is lost."""

    thread = models.ForeignKey(Thread, on_delete=models.CASCADE, related_name="drafts")
    participant = models.ForeignKey(Participant, on_delete=models.CASCADE, related_name="drafts")
    body = models.TextField()
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["participant", "thread"], name="draft_once")]

    def __str__(self) -> str:
        return f"Draft of {self.participant}"
