"""What webhooks plug into chat: notes in the inbox, and its signal."""

from typing import Any

from django.db.models import Q, QuerySet
from django.dispatch import receiver
from django.urls import reverse
from django.utils import timezone

from openvibe.chat.models import Message
from openvibe.chat.queries import AccessQuery
from openvibe.chat.wiring import INBOX_NOTES, InboxNote, message_revised
from openvibe.webhooks.models import Delivery, Webhook, mask_url
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import User
from openvibe.workspaces.services import ACCOUNT_CLEARERS

MAX_NOTES = 10


REASON_CLEARED = (
    "Whoever gave it this address may have been somebody else: the owner of the account's e-mail address came later. "
    "Look at the address, then let it go on."
)


def wire() -> None:
    INBOX_NOTES.add(resting_notes)
    ACCOUNT_CLEARERS.add(rest_webhooks_of)


def rest_webhooks_of(user: User) -> None:
    """Lets those rest that tell what the account sees, or whose address it gave, until an admin lets them go on."""
    rows = Webhook.objects.filter(Q(participant__member__user=user) | Q(made_by__member__user=user))
    rows = rows.exclude(state=Webhook.State.RESTING)
    rows.update(state=Webhook.State.RESTING, reason=REASON_CLEARED, updated_at=timezone.now())


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
