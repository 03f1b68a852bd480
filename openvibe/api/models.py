"""Tokens that let scripts and agents in, and the keys that make a repeated POST harmless."""

import hashlib

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from django.utils import timezone

TOKEN_PREFIX = "ovk_"
SCOPE_WORDS = {
    "read": "read channels, threads, messages and knowledge; build prompts; follow events",
    "write": "post, edit, give feedback, stop runs, make channels and threads",
    "memory": "memory, blocks, notes, work, progress, approvals, sessions",
    "knowledge": "write, suggest and review knowledge",
    "admin": "manage its owner's tokens; with an admin as owner SOULs, levels, instructions",
}
SCOPES = tuple(SCOPE_WORDS)


class Token(models.Model):
    """A bearer token of one participant, member or agent. Shown once, stored as its SHA-256."""

    participant = models.ForeignKey("workspaces.Participant", on_delete=models.CASCADE, related_name="tokens")
    made_by = models.ForeignKey(
        "workspaces.Participant",
        null=True,
        editable=False,
        on_delete=models.SET_NULL,
        related_name="+",
        help_text="Who holds its secret. Empty: whoever runs the server.",
    )
    name = models.CharField(max_length=80)
    token_hash = models.CharField(max_length=64, unique=True, editable=False)
    hint = models.CharField(max_length=8, editable=False, help_text="The last four characters.")
    scopes = ArrayField(models.CharField(max_length=10, choices=[(s, s) for s in SCOPES]), default=list)
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True, editable=False)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(scopes__contained_by=list(SCOPES)), name="token_scopes_known")
        ]

    def __str__(self) -> str:
        return f"{self.name} (…{self.hint})"

    @staticmethod
    def digest(secret: str) -> str:
        return hashlib.sha256(secret.encode()).hexdigest()

    @property
    def maker(self) -> str:
        """The one who holds its secret, in words."""
        return str(self.made_by) if self.made_by_id else "whoever runs the server"

    @property
    def is_valid(self) -> bool:
        return self.revoked_at is None and (self.expires_at is None or self.expires_at > timezone.now())


class IdempotencyKey(models.Model):
    """The answer once given to a POST, given again for the same key. Kept 24 hours."""

    participant = models.ForeignKey(
        "workspaces.Participant", on_delete=models.CASCADE, related_name="+", db_index=False
    )
    key = models.CharField(max_length=200)
    fingerprint = models.CharField(max_length=64, help_text="SHA-256 of method, path and body.")
    status = models.PositiveSmallIntegerField(null=True, help_text="Empty while the first call is under way.")
    body = models.JSONField(null=True)
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["participant", "key"], name="idempotency_key_once")]
        indexes = [models.Index(fields=["created_at"], name="idempotency_key_age")]

    def __str__(self) -> str:
        return self.key


class CallCount(models.Model):
    """How often somebody called in the minute that is running; one row each (see `throttles`)."""

    subject = models.CharField(max_length=40, primary_key=True)
    minute = models.BigIntegerField(help_text="Whole minutes since 1970.")
    calls = models.PositiveIntegerField()

    def __str__(self) -> str:
        return f"{self.subject}: {self.calls}"
