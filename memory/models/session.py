"""An outside agent's own conversations, and how far each agent has reviewed a thread."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.db.models.functions import MD5, Now

from memory.models.episode import Episode
from openvibe.base.models import Timestamped
from openvibe.chat.models import Thread
from openvibe.workspaces.models import Participant


class SessionInfo(Timestamped):
    """What an agent keeps about one of its sessions: a title, its own id, whatever it likes (JSON, small)."""

    agent = models.ForeignKey(Participant, on_delete=models.CASCADE, related_name="+")
    thread = models.ForeignKey(Thread, on_delete=models.CASCADE, related_name="+")
    external_id = models.CharField(max_length=80, blank=True)
    info = models.JSONField(default=dict, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["agent", "thread"], name="session_info_once"),
            models.UniqueConstraint(
                fields=["agent", "external_id"], condition=~Q(external_id=""), name="session_external_id_once"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.agent} in {self.thread_id}"


class ReviewMark(models.Model):
    """Up to which message an agent has reviewed a thread for what it can learn."""

    agent = models.ForeignKey(Participant, on_delete=models.CASCADE, related_name="+")
    thread = models.ForeignKey(Thread, on_delete=models.CASCADE, related_name="+")
    reviewed_seq = models.PositiveBigIntegerField(default=0)
    reviewed_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["agent", "thread"], name="review_mark_once")]

    def __str__(self) -> str:
        return f"{self.agent} reviewed {self.thread_id} up to {self.reviewed_seq}"


class Proposal(models.Model):
    """Something an agent would learn from a review. It takes effect when an admin accepts it, and can be undone.

    An episode proposal becomes a `learning_acquired` episode; a profile proposal replaces the notes about `person`
    (`before` is what they said, so that undoing brings it back).
    """

    class Kind(models.TextChoices):
        EPISODE = "episode", "Learning"
        PROFILE = "profile", "Profile notes"

    class State(models.TextChoices):
        PROPOSED = "proposed", "Proposed"
        ACCEPTED = "accepted", "Accepted"
        REJECTED = "rejected", "Rejected"
        UNDONE = "undone", "Undone"

    agent = models.ForeignKey(Participant, on_delete=models.CASCADE, related_name="proposals")
    thread = models.ForeignKey(Thread, on_delete=models.CASCADE, related_name="+")
    kind = models.CharField(max_length=7, choices=Kind.choices)
    person = models.ForeignKey(Participant, null=True, on_delete=models.CASCADE, related_name="+")
    text = models.TextField(max_length=2000)
    before = models.TextField(blank=True)
    because = models.TextField(blank=True, help_text="Which messages it was learned from, in words.")
    since_seq = models.PositiveBigIntegerField()
    upto_seq = models.PositiveBigIntegerField()
    state = models.CharField(max_length=8, choices=State.choices, default=State.PROPOSED)
    episode = models.OneToOneField(Episode, null=True, on_delete=models.SET_NULL, related_name="proposal")
    decided_by = models.ForeignKey(Participant, null=True, on_delete=models.SET_NULL, related_name="+")
    decided_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.CheckConstraint(condition=Q(kind__in=["episode", "profile"]), name="proposal_kind_known"),
            models.CheckConstraint(condition=Q(text__regex=r"\S"), name="proposal_not_empty"),
            models.UniqueConstraint(
                "agent", "thread", "kind", "person", "upto_seq", MD5("text"), name="proposal_once", nulls_distinct=False
            ),
        ]  # fmt: skip
        indexes = [models.Index(fields=["agent", "-id"], name="proposal_of_agent")]

    def __str__(self) -> str:
        return self.text[:60]
