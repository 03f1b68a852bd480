"""Browsers that are sent notifications while no page is open (Web Push), and what is on its way to them: ids only."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from openvibe.chat.models.message import Message
from openvibe.engines.database.fields import EncryptedTextField
from openvibe.workspaces.models import Participant, User, Workspace

MAX_PUSH_ENDPOINT = 1_000
"""Characters; those of the known push services have some 200."""
MAX_PUSH_SUBSCRIPTIONS = 10
"""Browsers of one person."""


class PushKey(models.Model):
    """The one key that this server signs its pushes with (VAPID): made at the first start, in each backup."""

    private_key = EncryptedTextField()
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        constraints = [models.CheckConstraint(condition=Q(id=1), name="push_key_is_one")]

    def __str__(self) -> str:
        return "The key that signs pushes"


class PushSubscription(models.Model):
    """A browser of a person that shows what she is notified of in all her workspaces, for as long as the session holds
    in which she turned it on.

    `resumes_at`: nothing is sent before; `failing_since`: since when nothing arrives there.
    """

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="push_subscriptions")
    endpoint = models.CharField(max_length=MAX_PUSH_ENDPOINT, unique=True, help_text="Its address at a push service.")
    p256dh = models.CharField(max_length=100)
    auth = models.CharField(max_length=32)
    session_key = models.CharField(max_length=40, db_index=True)
    auth_hash = models.CharField(max_length=128, help_text="Of the password that the session was opened with.")
    browser = models.CharField(max_length=60, help_text="As in Firefox on Linux.")
    shows_private = models.BooleanField(
        default=False, help_text="Whether words of private channels and direct messages are shown."
    )
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    resumes_at = models.DateTimeField(db_default=Now())
    failing_since = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return self.browser


class PushPosition(models.Model):
    """The event of a workspace up to which it was decided who is sent a push."""

    workspace = models.OneToOneField(Workspace, on_delete=models.CASCADE, related_name="+", primary_key=True)
    position = models.BigIntegerField()

    def __str__(self) -> str:
        return str(self.position)


class PushDelivery(models.Model):
    """A message that one browser is to show, once. What it says is read when it is sent. Kept for a while after it is
    done with (`done_at`), so that nothing is sent again."""

    subscription = models.ForeignKey(
        PushSubscription, on_delete=models.CASCADE, related_name="deliveries", db_index=False
    )
    message = models.ForeignKey(Message, on_delete=models.CASCADE, related_name="+")
    participant = models.ForeignKey(Participant, on_delete=models.CASCADE, related_name="+")
    created_at = models.DateTimeField(db_default=Now(), editable=False, db_index=True)
    due_at = models.DateTimeField()
    attempts = models.PositiveSmallIntegerField(default=0)
    done_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["subscription", "message"], name="pushed_once_to_a_browser")]
        indexes = [models.Index(fields=["due_at"], condition=Q(done_at=None), name="push_delivery_due")]

    def __str__(self) -> str:
        return f"{self.message_id} to {self.subscription_id}"
