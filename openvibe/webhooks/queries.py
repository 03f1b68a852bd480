"""Reads of webhooks: which have something to send now, and for how long it has waited."""

from collections.abc import Collection, Iterable
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.db.models import Min, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.utils import timezone

from openvibe.chat.models import Message
from openvibe.chat.queries import with_authors_and_mentions
from openvibe.engines.database.compiled_queries import CompiledQuery, array_literal
from openvibe.webhooks.models import LONGEST_DELAY_SECONDS, Delivery, Webhook

MAX_DUE = 100
"""More than are sent to at the same time, which may be among them."""


def oldest_pending_at() -> datetime | None:
    """The time since which the oldest delivery of any active webhook waits; None when none does. One query."""
    rows = Delivery.objects.waiting().filter(webhook__state=Webhook.State.ACTIVE)
    oldest: datetime | None = rows.aggregate(oldest=Min("created_at"))["oldest"]
    return oldest


class DueWebhook(NamedTuple):
    webhook: Webhook
    delivery_id: int
    """What is to be sent next."""


def due_webhooks(limit: int, *, failing: bool = False, except_ids: Collection[int] = ()) -> list[DueWebhook]:
    """Active webhooks that have something to send now, those that have waited longest first: those whose last attempt
    did not fail, or `failing` those whose next attempt is due."""
    rows: Iterable[Any] = _failing_webhooks(timezone.now()) if failing else _sound_webhooks.objects()
    due = [DueWebhook(webhook, webhook.next_delivery_id) for webhook in rows if webhook.pk not in except_ids]
    return due[:limit]


@CompiledQuery
def _sound_webhooks() -> QuerySet[Webhook]:
    return _with_next_delivery().filter(failing_since=None)[:MAX_DUE]


def _failing_webhooks(now: datetime) -> QuerySet[Webhook]:
    was_ahead = Q(next_attempt_at__gt=now + timedelta(seconds=2 * LONGEST_DELAY_SECONDS))  # the clock, then
    is_due = Q(next_attempt_at__lte=now) | was_ahead
    return _with_next_delivery().filter(is_due, failing_since__isnull=False)[:MAX_DUE]


def _with_next_delivery() -> QuerySet[Webhook]:
    """Active webhooks that have something to send: tests first, then events in their order."""
    pending = Delivery.objects.filter(webhook=OuterRef("pk"), state=Delivery.State.PENDING).values("pk")
    first_test = pending.filter(position=None).order_by("pk")[:1]
    first_event = pending.filter(position__isnull=False).order_by("position", "pk")[:1]
    rows = Webhook.objects.annotate(next_delivery_id=Coalesce(Subquery(first_test), Subquery(first_event)))
    rows = rows.filter(state=Webhook.State.ACTIVE).exclude(next_delivery_id=None)
    return rows.select_related("participant").order_by("next_attempt_at", "pk")


def deliveries_by_id(ids: Iterable[int]) -> dict[int, Delivery]:
    return {delivery.pk: delivery for delivery in _deliveries.objects(array_literal(ids))}


@CompiledQuery
def _deliveries(ids: int) -> QuerySet[Delivery]:
    return Delivery.objects.filter(pk__any_of=ids).order_by("pk")


def lock_webhooks(ids: Iterable[int]) -> dict[int, Webhook]:
    return {webhook.pk: webhook for webhook in _locked_webhooks.objects(array_literal(ids))}


@CompiledQuery
def _locked_webhooks(ids: int) -> QuerySet[Webhook]:
    return Webhook.objects.select_for_update(of=("self",)).filter(pk__any_of=ids).order_by("pk")


def lock_deliveries(ids: Iterable[int]) -> dict[int, Delivery]:
    return {delivery.pk: delivery for delivery in _locked_deliveries.objects(array_literal(ids))}


@CompiledQuery
def _locked_deliveries(ids: int) -> QuerySet[Delivery]:
    return Delivery.objects.select_for_update(of=("self",)).filter(pk__any_of=ids).order_by("pk")


@CompiledQuery
def _whole_messages(ids: int) -> QuerySet[Message]:
    return with_authors_and_mentions(Message.objects.all()).filter(pk__any_of=ids).order_by("pk")


def messages_by_id(ids: Iterable[int]) -> dict[int, Message]:
    """Messages as the API gives them, as they are now."""
    return {message.pk: message for message in _whole_messages.objects(array_literal(ids))}
