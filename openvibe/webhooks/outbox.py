"""Deliveries are written once, from the event stream: a webhook's position moves in the transaction that writes them,
so that nothing is lost and nothing is written twice, whoever dies."""

from django.db import transaction
from django.db.models import Exists, OuterRef

from openvibe.base.models import Event
from openvibe.chat.api.event_frames import event_kind
from openvibe.chat.live.batch import EventBatch, LiveEvent, read_batch
from openvibe.chat.live.viewers import Viewer
from openvibe.chat.models import Message
from openvibe.webhooks.models import MAX_PENDING, Delivery, Webhook
from openvibe.webhooks.readers import access_viewers

MAX_BATCHES = 5
"""The most batches of one webhook, before it is the next one's turn."""


def write_deliveries() -> bool:
    """Turns new events into deliveries, for every webhook that has any and room for them; returns whether more of them
    wait."""
    new = Event.objects.filter(workspace_id=OuterRef("workspace_id"), position__gt=OuterRef("position"))
    rows = Webhook.objects.filter(Exists(new), state=Webhook.State.ACTIVE)
    has_more = False
    for webhook_id in list(rows.order_by("pk").values_list("pk", flat=True)):
        has_more |= all(_write_batch(webhook_id) for _ in range(MAX_BATCHES))
    return has_more


@transaction.atomic
def _write_batch(webhook_id: int) -> bool:
    """The deliveries of the next events; whether there are more, and room for them."""
    rows = Webhook.objects.select_for_update(of=("self",), skip_locked=True).select_related("participant")
    webhook = rows.filter(pk=webhook_id, state=Webhook.State.ACTIVE).first()
    if webhook is None or webhook.deliveries.filter(state=Delivery.State.PENDING).count() >= MAX_PENDING:
        return False
    viewer = access_viewers([webhook]).get(webhook.pk)
    if viewer is None:
        return False
    batch = read_batch(webhook.workspace_id, after=webhook.position)
    Delivery.objects.bulk_create(_deliveries(webhook, viewer, batch))
    webhook.position = batch.position
    webhook.save(update_fields=["position"])
    return batch.has_more


def _deliveries(webhook: Webhook, viewer: Viewer, batch: EventBatch) -> list[Delivery]:
    """Returns what the webhook asks for of a batch and its participant sees. Of changes that follow one another the
    last, and none of a reply while it is written."""
    changed_ids = {e.message_id for e in batch.events if e.kind == "message_changed" and e.message_id}
    pending_deliveries = webhook.deliveries.filter(state=Delivery.State.PENDING, attempts=0, kind="message_changed")
    untold = (
        {*pending_deliveries.filter(message_id__in=changed_ids).values_list("message_id", flat=True)}
        if changed_ids
        else set()
    )
    writing = Message.objects.filter(pk__in=changed_ids, state=Message.State.WRITING)
    untold |= {*writing.values_list("pk", flat=True)} if changed_ids else set()
    deliveries = []
    for event in batch.events:
        kind = _kind(webhook, event)
        is_untold = event.kind == "message_changed" and (event.is_outdated or event.message_id in untold)
        if kind and not is_untold and viewer.sees(event):
            ids = {"channel_id": event.channel_id, "thread_id": event.thread_id, "message_id": event.message_id}
            deliveries.append(Delivery(webhook=webhook, position=event.position, kind=kind, **ids))
    return deliveries


def _kind(webhook: Webhook, event: LiveEvent) -> str:
    """The first of the event's kinds that the webhook asks for; empty where it asks for none."""
    kinds = (event_kind(event, webhook.participant_id), event.kind)
    return next((kind for kind in kinds if kind in webhook.kinds), "")
