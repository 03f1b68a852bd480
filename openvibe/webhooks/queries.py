"""What is asked of webhooks' deliveries."""

from datetime import datetime

from django.db.models import Min

from openvibe.webhooks.models import Delivery, Webhook


def oldest_pending_at() -> datetime | None:
    """When the oldest delivery was written that waits to be sent; those of webhooks that rest or are paused do not
    wait."""
    pending = Delivery.objects.filter(state=Delivery.State.PENDING, webhook__state=Webhook.State.ACTIVE)
    oldest: datetime | None = pending.aggregate(oldest=Min("created_at"))["oldest"]
    return oldest
