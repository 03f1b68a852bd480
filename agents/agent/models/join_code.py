"""Codes that let an agent's program in: short, of one use, for ten minutes."""

from __future__ import annotations

import hashlib
from datetime import datetime

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from django.utils import timezone
from django.utils.crypto import get_random_string, salted_hmac

from agents.agent.models.agent import Agent

CODE_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
"""Digits and letters that nobody takes for one another."""
CODE_CHARACTERS = 12
SEED_CHARACTERS = 32


class JoinCode(models.Model):
    """One code. Only its SHA-256 is kept: its maker's page works the code out again, from the seed and the server's
    secret key. `token` is what it was exchanged for."""

    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="join_codes")
    made_by = models.ForeignKey("workspaces.Participant", on_delete=models.CASCADE, related_name="+")
    seed = models.CharField(max_length=SEED_CHARACTERS, editable=False)
    digest = models.CharField(max_length=64, unique=True, editable=False)
    command = models.CharField(max_length=200, help_text="What was said to run as the agent.")
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True, editable=False)
    token = models.OneToOneField("api.Token", null=True, on_delete=models.SET_NULL, related_name="+", editable=False)

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.CheckConstraint(condition=Q(token=None) | Q(used_at__isnull=False), name="join_code_used")
        ]

    def __str__(self) -> str:
        return f"Join code {self.pk}"

    @property
    def code(self) -> str:
        """The code itself, in three groups, such as 7K3M-QX2P-9RTD."""
        digest = int.from_bytes(salted_hmac("agents.join_code", self.seed, algorithm="sha256").digest())
        letters = "".join(CODE_ALPHABET[digest >> 5 * place & 31] for place in range(CODE_CHARACTERS))
        return "-".join(letters[start : start + 4] for start in range(0, CODE_CHARACTERS, 4))

    @property
    def is_open(self) -> bool:
        """Whether it can be used still."""
        return self.used_at is None and self.expires_at > timezone.now()

    @classmethod
    def make(cls, *, agent: Agent, made_by_id: int, command: str, expires_at: datetime) -> JoinCode:
        """A new code, not saved."""
        code = cls(agent=agent, made_by_id=made_by_id, command=command, expires_at=expires_at)
        code.seed = get_random_string(SEED_CHARACTERS)
        code.digest = cls.digest_of(code.code)
        return code

    @staticmethod
    def digest_of(code: str) -> str:
        """The SHA-256 of a code as people may write it: in small letters, without dashes, with an O for a zero."""
        letters = code.upper().translate(str.maketrans("OIL", "011", "- \t\r\n"))
        return hashlib.sha256(letters.encode()).hexdigest()
