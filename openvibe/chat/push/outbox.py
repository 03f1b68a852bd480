"""Who is sent a push of what: decided once for each event of a workspace, by the rule of notifications (`is_notified`).
The position moves in the transaction that writes the deliveries, so that nothing is lost or written twice."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta

from django.contrib.sessions.models import Session
from django.db import transaction
from django.db.models import Exists, Max, Min, OuterRef, Q
from django.utils import timezone

from openvibe.base.models import Event
from openvibe.chat.live.batch import NEWS_AGE, EventBatch, read_batch
from openvibe.chat.live.viewers import Viewer, is_notified, refresh_viewers
from openvibe.chat.models import PushDelivery, PushPosition, PushSubscription
from openvibe.workspaces.models import Member

GRACE = timedelta(seconds=5)
"""How long a page has to show a message, or to say that it was read, before other browsers are sent it."""


def close_ended_subscriptions() -> int:
    """Deletes the subscriptions whose session has ended, however it did; returns how many rows went."""
    open_sessions = Session.objects.filter(session_key=OuterRef("session_key"), expire_date__gt=timezone.now())
    return PushSubscription.objects.filter(~Exists(open_sessions) | Q(user__is_active=False)).delete()[0]


def write_deliveries() -> None:
    """Turns new events into deliveries, in every workspace where somebody wants pushes."""
    members = Member.objects.filter(removed_at=None, user__push_subscriptions__isnull=False)
    for workspace_id in members.order_by("workspace_id").values_list("workspace_id", flat=True).distinct():
        while _write_batch(workspace_id):
            pass


@transaction.atomic
def _write_batch(workspace_id: int) -> bool:
    """The deliveries of the next events; whether there are more."""
    row = PushPosition.objects.select_for_update().filter(workspace=workspace_id).first()
    if row is None:
        newest = Event.objects.filter(workspace_id=workspace_id).aggregate(newest=Max("position"))["newest"]
        PushPosition.objects.bulk_create(
            [PushPosition(workspace_id=workspace_id, position=newest or 0)], ignore_conflicts=True
        )
        return False
    batch = read_batch(workspace_id, after=_position_of_news(row))
    if batch.position != row.position:
        PushDelivery.objects.bulk_create(_deliveries(batch), ignore_conflicts=True)
        row.position = batch.position
        row.save(update_fields=["position"])
    return batch.has_more


def _position_of_news(row: PushPosition) -> int:
    """The position ahead of the first event that is news: others may be thousands, of when nobody wanted pushes."""
    events = Event.objects.filter(workspace_id=row.workspace_id, position__gt=row.position)
    first = events.filter(created_at__gte=timezone.now() - NEWS_AGE).aggregate(first=Min("position"))["first"]
    if first is None:
        return events.aggregate(last=Max("position"))["last"] or row.position
    return int(first) - 1


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
    members = Member.objects.filter(
        workspace=workspace_id, removed_at=None, user__push_subscriptions__isnull=False
    ).order_by()
    by_participant = defaultdict(list)
    for participant_id, pk in members.values_list("participant_id", "user__push_subscriptions"):
        by_participant[participant_id].append(pk)
    return by_participant
