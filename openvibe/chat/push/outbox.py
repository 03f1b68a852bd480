"""Writes who is sent a push of what: decided once for each event of a workspace, by the rule of notifications
(`is_notified`). The position moves in the transaction that writes the deliveries: nothing is lost or written twice."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta

from django.contrib.sessions.models import Session
from django.db import transaction
from django.db.models import Exists, OuterRef, Q
from django.utils import timezone

from openvibe.base.events import newest_position
from openvibe.chat.live.batch import EventBatch, position_before_news, read_batch
from openvibe.chat.live.viewers import Viewer, is_notified, refresh_viewers
from openvibe.chat.models import PushDelivery, PushPosition, PushSubscription

GRACE = timedelta(seconds=5)
"""How long a page has to show a message, or to say that it was read, before other browsers are sent it."""


def close_ended_subscriptions() -> int:
    """Deletes the subscriptions whose session has ended, however it did; returns how many rows went."""
    open_sessions = Session.objects.filter(session_key=OuterRef("session_key"), expire_date__gt=timezone.now())
    return PushSubscription.objects.filter(~Exists(open_sessions) | Q(user__is_active=False)).delete()[0]


def write_deliveries() -> None:
    """Turns new events into deliveries, in every workspace where somebody wants pushes."""
    standing = PushSubscription.objects.filter(user__memberships__removed_at=None).order_by()
    for workspace_id in standing.values_list("user__memberships__workspace", flat=True).distinct():
        while _write_batch(workspace_id):
            pass


@transaction.atomic
def _write_batch(workspace_id: int) -> bool:
    """The deliveries of the next events; whether there are more."""
    row = PushPosition.objects.select_for_update().filter(workspace=workspace_id).first()
    if row is None:
        position = newest_position(workspace_id)
        PushPosition.objects.bulk_create(
            [PushPosition(workspace_id=workspace_id, position=position)], ignore_conflicts=True
        )
        return False
    batch = read_batch(workspace_id, after=position_before_news(workspace_id, after=row.position))
    if batch.position != row.position:
        PushDelivery.objects.bulk_create(_deliveries(batch), ignore_conflicts=True)
        row.position = batch.position
        row.save(update_fields=["position"])
    return batch.has_more


def _deliveries(batch: EventBatch) -> Iterator[PushDelivery]:
    announced = [event for event in batch.events if event.announces]
    subscription_ids = _subscriptions_by_participant(batch.workspace_id) if announced else {}
    viewers = [Viewer(batch.workspace_id, participant_id) for participant_id in subscription_ids]
    if viewers:
        refresh_viewers(viewers)
    due_at = timezone.now() + GRACE
    for event in announced:
        for viewer in viewers:
            if viewer.sees(event) and is_notified(viewer, event, batch):
                ids = {"message_id": event.message_id, "participant_id": viewer.participant_id}
                for pk in subscription_ids[viewer.participant_id]:
                    yield PushDelivery(subscription_id=pk, due_at=due_at, **ids)


def _subscriptions_by_participant(workspace_id: int) -> Mapping[int, Sequence[int]]:
    rows = PushSubscription.objects.filter(
        user__memberships__workspace=workspace_id, user__memberships__removed_at=None
    ).order_by()
    by_participant = defaultdict(list)
    for participant_id, pk in rows.values_list("user__memberships__participant", "pk"):
        by_participant[participant_id].append(pk)
    return by_participant
