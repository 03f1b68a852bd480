"""Webhooks and their deliveries: ids only, never text. What a delivery says is read when it is sent."""

from __future__ import annotations

import uuid
from datetime import datetime, timedelta
from typing import ClassVar
from urllib.parse import urlsplit

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Count, Min, OuterRef, Q, Subquery
from django.db.models.functions import Coalesce, Now
from django.utils import timezone
from django.utils.timesince import timesince

from openvibe.chat.queries import token_owners
from openvibe.engines.database.fields import EncryptedTextField
from openvibe.engines.database.models import TimestampedModel
from openvibe.engines.network.receiver_connection import MAX_RESPONSE_CHARACTERS
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Participant, Workspace

KINDS = (
    "mention",
    "message_posted",
    "message_changed",
    "thread_changed",
    "run_changed",
    "work_changed",
    "memory_changed",
    "knowledge_changed",
    "pins_changed",
    "dive_changed",
    "channel_changed",
    "agent_changed",
    "members_changed",
    "workspace_changed",
)
"""Kinds of events that a webhook may ask for: those of the event stream that are not one reader's own."""
TEST_KIND = "test"
SECRET_OVERLAP = timedelta(hours=24)
"""How long deliveries are signed with the secret before, too."""
MAX_PENDING = 1_000
"""Deliveries of one webhook that wait as rows; what comes after them waits in the event stream."""
LONGEST_DELAY_SECONDS = 3_600.0
"""The time between two attempts."""
MAX_SHOWN_CHARACTERS = 20
"""The most characters of the first part of an address' path; a longer one may be a token, as Telegram's."""


def may_direct(access: Access, participant_id: int) -> bool:
    """Whether the asker may be told what a participant sees: herself, or an agent whose tokens she manages."""
    return access.participant_id == participant_id or token_owners(access).filter(pk=participant_id).exists()


def mask_url(url: str) -> str:
    """The address without what may be a secret: of the path only how it begins, where more follows, and no query."""
    parts = urlsplit(url)
    root = f"{parts.scheme}://{parts.netloc}"
    first, _, rest = parts.path.removeprefix("/").partition("/")
    begin = f"{root}/{first}/" if rest and len(first) <= MAX_SHOWN_CHARACTERS else f"{root}/"
    return url if url in (root, begin) else f"{begin}…"


class WebhookQuerySet(models.QuerySet["Webhook"]):
    def visible_to(self, access: Access) -> WebhookQuerySet:
        """The webhooks that are visible: for admins all of the workspace, for an agent its own, for others none."""
        rows = self.filter(workspace=access.workspace_id)
        if access.administers:
            return rows
        return rows.filter(participant=access.participant_id) if access.is_agent else rows.none()

    def with_backlog(self) -> WebhookQuerySet:
        """Adds how many deliveries wait (`pending`), and since when the oldest does (`oldest_pending_at`)."""
        pending = Delivery.objects.filter(webhook=OuterRef("pk"), state=Delivery.State.PENDING).order_by()
        count = pending.values("webhook").annotate(count=Count("pk")).values("count")
        waiting = Delivery.objects.waiting().filter(webhook=OuterRef("pk")).order_by()
        oldest = waiting.values("webhook").annotate(at=Min("created_at")).values("at")
        return self.annotate(pending=Coalesce(Subquery(count), 0), oldest_pending_at=Subquery(oldest))


class Webhook(TimestampedModel):
    """An address that is told what `participant` sees: an agent, or the admin who made it for the workspace.

    `position`: the event up to which deliveries were written. `failing_since`: of the first attempt that failed after
    the last one that did not. While it rests or is paused nothing is written and nothing is sent.
    """

    class State(models.TextChoices):
        ACTIVE = "active", "active"
        PAUSED = "paused", "paused"
        RESTING = "resting", "resting"

    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="webhooks")
    participant = models.ForeignKey(Participant, on_delete=models.CASCADE, related_name="webhooks")
    made_by = models.ForeignKey(
        Participant,
        null=True,
        editable=False,
        on_delete=models.CASCADE,
        related_name="+",
        help_text="Who said last where it sends. Empty: nobody knows, of one made before this was kept.",
    )
    url = models.CharField(max_length=500)
    kinds = ArrayField(models.CharField(max_length=40))
    secret = EncryptedTextField(editable=False)
    previous_secret = EncryptedTextField(blank=True, default="", editable=False)
    rotated_at = models.DateTimeField(null=True, editable=False)
    state = models.CharField(max_length=8, choices=State.choices, default=State.ACTIVE)
    reason = models.CharField(max_length=300, blank=True, help_text="Why it rests, in words for people.")
    position = models.BigIntegerField(default=0, editable=False)
    failing_since = models.DateTimeField(null=True, editable=False)
    next_attempt_at = models.DateTimeField(db_default=Now(), editable=False)

    objects: ClassVar[models.Manager[Webhook]] = WebhookQuerySet.as_manager()

    class Meta:
        ordering = ["id"]
        constraints = [
            models.CheckConstraint(condition=Q(state__in=["active", "paused", "resting"]), name="webhook_state_known"),
            models.CheckConstraint(
                condition=Q(kinds__contained_by=list(KINDS)) & Q(kinds__len__gt=0), name="webhook_kinds_known"
            ),
            models.CheckConstraint(condition=~Q(state="resting") | ~Q(reason=""), name="webhook_rest_has_reason"),
        ]

    def __str__(self) -> str:
        return self.masked_url

    @property
    def masked_url(self) -> str:
        return mask_url(self.url)

    @property
    def backlog_label(self) -> str:
        """`12 waiting, the oldest for 3 minutes`, of `with_backlog`."""
        count: int = getattr(self, "pending", 0)
        oldest: datetime | None = getattr(self, "oldest_pending_at", None)
        if oldest is None:
            return f"{count:,} waiting"
        age = timezone.now() - oldest
        words = timesince(oldest, depth=1) if age >= timedelta(minutes=1) else "less than a minute"
        return f"{count:,} waiting, the oldest for {words}".replace("\xa0", " ")

    def is_directed_by(self, access: Access) -> bool:
        """Whether the asker may say where it sends what, and read what is answered there: her own, and those of agents
        whose tokens she manages. What others see, she may not have sent to her."""
        return may_direct(access, self.participant_id)


class DeliveryQuerySet(models.QuerySet["Delivery"]):
    def visible_to(self, access: Access) -> DeliveryQuerySet:
        """Those of webhooks that the asker directs: what is answered may repeat what was sent."""
        own = Q(webhook__participant=access.participant_id)
        rows = self.filter(webhook__in=Webhook.objects.visible_to(access))
        return rows.filter(own | Q(webhook__participant__in=token_owners(access).order_by().values("pk")))

    def waiting(self) -> DeliveryQuerySet:
        """Keeps those that wait to be sent since they were written; not those that were sent and are to be sent
        again."""
        return self.filter(Q(attempts__gt=0) | Q(attempted_at=None), state=Delivery.State.PENDING)


class Delivery(models.Model):
    """One event for one webhook, written once. `uid` stays the same however often it is sent."""

    class State(models.TextChoices):
        PENDING = "pending", "waiting"
        DELIVERED = "delivered", "delivered"
        GIVEN_UP = "given_up", "given up"
        WITHHELD = "withheld", "withheld"

    webhook = models.ForeignKey(Webhook, on_delete=models.CASCADE, related_name="deliveries", db_index=False)
    uid = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    position = models.BigIntegerField(null=True, help_text="Of the event; empty for a test.")
    kind = models.CharField(max_length=40)
    channel_id = models.BigIntegerField(null=True)
    thread_id = models.BigIntegerField(null=True)
    message_id = models.BigIntegerField(null=True)
    state = models.CharField(max_length=9, choices=State.choices, default=State.PENDING)
    attempts = models.PositiveIntegerField(default=0)
    status = models.PositiveSmallIntegerField(null=True, help_text="Of the last answer; empty where none came.")
    response = models.CharField(
        max_length=MAX_RESPONSE_CHARACTERS, blank=True, help_text="How the last answer begins, secrets masked."
    )
    error = models.CharField(max_length=300, blank=True, help_text="Why the last attempt failed.")
    milliseconds = models.PositiveIntegerField(null=True, help_text="How long the last attempt took.")
    attempted_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    objects: ClassVar[models.Manager[Delivery]] = DeliveryQuerySet.as_manager()

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(fields=["webhook", "position"], name="delivery_once_per_event"),
            models.CheckConstraint(
                condition=Q(state__in=["pending", "delivered", "given_up", "withheld"]), name="delivery_state_known"
            ),
        ]
        indexes = [
            models.Index(fields=["webhook", "position", "id"], condition=Q(state="pending"), name="delivery_waiting"),
            models.Index(fields=["webhook", "-id"], name="delivery_recent"),
            models.Index(fields=["message_id"], condition=~Q(response=""), name="delivery_of_message"),
            models.Index(fields=["created_at"], name="delivery_age"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} ({self.state})"
