"""What webhooks plug into chat: notes in the inbox, and its signal."""

from typing import Any

from django.db.models import QuerySet
from django.dispatch import receiver
from django.urls import reverse

from openvibe.chat.models import AccessQuery, Message
from openvibe.chat.wiring import INBOX_NOTES, InboxNote, message_revised
from openvibe.webhooks.models import Delivery, Webhook, mask_url
from openvibe.workspaces.access import Access

MAX_NOTES = 10


def wire() -> None:
    INBOX_NOTES.add(resting_notes)


def resting_notes(access: Access) -> list[InboxNote]:
    """Webhooks that rest, for admins, the newest first. One query."""
    if not access.administers:
        return []
    return [
        InboxNote(reverse("webhook", args=[slug, pk]), f"The webhook to {mask_url(url)} rests. {reason}", at)
        for slug, pk, url, reason, at in _resting_webhooks.rows(access)
    ]


@AccessQuery
def _resting_webhooks(access: Access) -> QuerySet[Any, Any]:
    rows = Webhook.objects.visible_to(access).filter(state=Webhook.State.RESTING).order_by("-updated_at")
    return rows.values_list("workspace__slug", "pk", "url", "reason", "updated_at")[:MAX_NOTES]


@receiver(message_revised, dispatch_uid="webhooks.forget_answers")
def erase_answers(sender: type[Message], message: Message, **_: Any) -> None:
    """What a receiver of deliveries answered may repeat the message, and goes with it."""
    answered = Delivery.objects.filter(message_id=message.pk).exclude(response="")
    ids = list(answered.select_for_update(of=("self",)).order_by("pk").values_list("pk", flat=True))
    if ids:  # locked in the order in which answers are recorded
        Delivery.objects.filter(pk__in=ids).update(response="")
