"""What the inbox tells admins of webhooks."""

from django.urls import reverse

from openvibe.chat.wiring import InboxNote
from openvibe.webhooks.models import Webhook
from openvibe.workspaces.access import Access

MAX_NOTES = 10


def resting_notes(access: Access) -> list[InboxNote]:
    """Webhooks that rest, for admins, the newest first. One query."""
    if not access.administers:
        return []
    rows = Webhook.objects.visible_to(access).filter(state=Webhook.State.RESTING).order_by("-updated_at")
    columns = rows.values_list("workspace__slug", "pk", "url", "reason", "updated_at")
    return [
        InboxNote(reverse("webhook", args=[slug, pk]), f"The webhook to {url} rests. {reason}", at)
        for slug, pk, url, reason, at in columns[:MAX_NOTES]
    ]
