"""How events reach webhooks: deliveries are written once from the event stream, and sent at least once, in order.

A webhook's position moves in the transaction that writes its deliveries, so nothing is lost and nothing is written
twice, whoever dies. One process at a time sends, several webhooks at once, one delivery of each: it prepares and
records on its own thread, and other threads do nothing but wait for those that answer. What is said is read
when it is sent, and only what the webhook's participant may see then."""

import json
import random
import time
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, OuterRef, Q
from django.utils import timezone
from rest_framework.utils.encoders import JSONEncoder

from openvibe.base.locks import LockKind, advisory_lock
from openvibe.base.models import Event
from openvibe.chat.api.event_frames import event_data, event_kind
from openvibe.chat.live.batch import EventBatch, EventRow, LiveEvent, make_batch, read_batch
from openvibe.chat.live.viewers import Viewer, refresh_viewers
from openvibe.chat.models import Message
from openvibe.webhooks.http_client import AttemptResult, post
from openvibe.webhooks.models import SECRET_OVERLAP, TEST_KIND, Delivery, Webhook, may_direct
from openvibe.webhooks.signatures import signature_header
from openvibe.workspaces.models import Participant
from openvibe.workspaces.queries import participant_access

MAX_PENDING = 1_000
"""Deliveries of one webhook that wait as rows; what comes after them waits in the event stream."""
MAX_SENDERS = 8
"""Webhooks that are sent to at the same time."""
TURN_SECONDS = 15.0
"""How long one turn begins attempts; the next one goes on."""
LOOK_SECONDS = 0.5
"""How often it is looked for more, while an answer is waited for."""
FIRST_DELAY, LONGEST_DELAY = 5.0, 3_600.0  # seconds
GIVE_UP_AFTER = timedelta(days=1)
MAX_REFUSALS = 5
"""Attempts at one delivery that is refused as such (3xx and 4xx): those behind it go on then."""
PASSING_STATUSES = (408, 425, 429)
NO_ACCESS = "Whoever it belongs to has no access any more, so it says nothing more."
NO_ADMIN = "Whoever made it does not run the workspace any more. Delete it, or make one of your own."
MAKER_MAY_NOT_READ = (
    "Whoever said where it sends may not read all that it tells. Who may saves its address, then lets it try again."
)
FAILED_FOR_A_DAY = "Nothing was received for a day. See the last answer below, then let it try again."


def send_due(*, seconds: float = TURN_SECONDS) -> int:
    """Write what is new and send what is due, for one turn; how many attempts were made. Nothing while another
    process does, and without an active webhook."""
    if not Webhook.objects.filter(state=Webhook.State.ACTIVE).exists():
        return 0
    with advisory_lock(LockKind.WEBHOOKS, 0) as is_owner:
        return _run_turn(seconds) if is_owner else 0


def _run_turn(seconds: float) -> int:
    """Once its time is up, it goes on only beside attempts begun before that have no answer yet, and with nobody whose
    last one failed: a receiver that stalls holds up no other, and no turn goes on for ever."""
    ends_at, attempts, is_over = time.monotonic() + seconds, 0, False
    in_flight: dict[Future[AttemptResult], Delivery] = {}
    begun_in_time: set[Future[AttemptResult]] = set()
    with ThreadPoolExecutor(MAX_SENDERS, thread_name_prefix="webhook") as pool:
        while True:
            if not is_over or not begun_in_time.isdisjoint(in_flight):
                write_deliveries()
                attempts += _begin_attempts(pool, in_flight, with_failing=not is_over)
                begun_in_time = begun_in_time if is_over else set(in_flight)
            if not in_flight:
                return attempts
            for future in wait(in_flight, timeout=LOOK_SECONDS, return_when=FIRST_COMPLETED).done:
                record(in_flight.pop(future), future.result())
            is_over = time.monotonic() >= ends_at


def _begin_attempts(
    pool: ThreadPoolExecutor, in_flight: dict[Future[AttemptResult], Delivery], *, with_failing: bool
) -> int:
    """Add to `in_flight` as many as there is room for, one of each webhook that is due; how many these are."""
    busy, before = {delivery.webhook_id for delivery in in_flight.values()}, len(in_flight)
    for webhook in due_webhooks(MAX_SENDERS - before, except_ids=busy, with_failing=with_failing):
        if request := prepare(webhook):
            delivery, body, headers = request
            attempt = pool.submit(post, webhook.url, body, headers, allow_private=settings.ALLOW_PRIVATE_ENDPOINTS)
            in_flight[attempt] = delivery
    return len(in_flight) - before


def write_deliveries() -> None:
    """Turn new events into deliveries, for every webhook that has any and room for them."""
    new = Event.objects.filter(workspace_id=OuterRef("workspace_id"), position__gt=OuterRef("position"))
    rows = Webhook.objects.filter(Exists(new), state=Webhook.State.ACTIVE)
    for webhook_id in list(rows.order_by("pk").values_list("pk", flat=True)):
        while _write_batch(webhook_id):
            pass


@transaction.atomic
def _write_batch(webhook_id: int) -> bool:
    """The deliveries of the next events; whether there are more, and room for them."""
    rows = Webhook.objects.select_for_update(of=("self",), skip_locked=True).select_related("participant")
    webhook = rows.filter(pk=webhook_id, state=Webhook.State.ACTIVE).first()
    if webhook is None or webhook.deliveries.filter(state=Delivery.State.PENDING).count() >= MAX_PENDING:
        return False
    viewer = _viewer(webhook)
    if viewer is None:
        return False
    batch = read_batch(webhook.workspace_id, after=webhook.position)
    Delivery.objects.bulk_create(_deliveries(webhook, viewer, batch))
    webhook.position = batch.position
    webhook.save(update_fields=["position"])
    return batch.has_more


def _deliveries(webhook: Webhook, viewer: Viewer, batch: EventBatch) -> list[Delivery]:
    """Of a batch what the webhook asks for and its participant sees. Of changes that follow one another the last, and
    none of a reply while it is written."""
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


def due_webhooks(limit: int, *, except_ids: set[int], with_failing: bool) -> list[Webhook]:
    """Active webhooks that have something to send now, those that have waited longest first."""
    pending = Delivery.objects.filter(webhook=OuterRef("pk"), state=Delivery.State.PENDING)
    now = timezone.now()
    was_ahead = Q(next_attempt_at__gt=now + timedelta(seconds=2 * LONGEST_DELAY))  # the clock was, when it was set
    is_due = Q(failing_since=None)
    if with_failing:
        is_due |= Q(next_attempt_at__lte=now) | was_ahead
    rows = Webhook.objects.filter(is_due, Exists(pending), state=Webhook.State.ACTIVE)
    return list(rows.exclude(pk__in=except_ids).select_related("participant").order_by("next_attempt_at", "pk")[:limit])


def prepare(webhook: Webhook) -> tuple[Delivery, bytes, dict[str, str]] | None:
    """The next delivery with its body and headers. What may not be seen any more is withheld; None when nothing is
    left to send, or nobody may be told anything."""
    while delivery := webhook.deliveries.next_first().first():
        body = _body(webhook, delivery)
        viewer = _viewer(webhook)  # after the body was read: what it holds was there before any access was taken
        if viewer is None:
            return None
        if body is not None and (delivery.kind == TEST_KIND or viewer.sees(_live_event(webhook, delivery).event)):
            return delivery, body, _headers(webhook, delivery, body)
        Delivery.objects.filter(pk=delivery.pk).update(state=Delivery.State.WITHHELD)
    return None


def _viewer(webhook: Webhook) -> Viewer | None:
    """Whose eyes it sees with, as they are now. Without access the webhook rests, and when whoever said where it sends
    could not make it now."""
    viewer = Viewer(webhook.workspace_id, webhook.participant_id)
    refresh_viewers([viewer])
    if viewer.access is None:
        reason = NO_ACCESS
    elif not (viewer.access.is_agent or viewer.access.administers):
        reason = NO_ADMIN
    elif not _maker_may_direct(webhook):
        reason = MAKER_MAY_NOT_READ
    else:
        return viewer
    _start_rest(webhook, reason)
    return None


def _maker_may_direct(webhook: Webhook) -> bool:
    maker = Participant.objects.filter(pk=webhook.made_by_id or 0).first()
    access = participant_access(maker) if maker else None
    return access is not None and may_direct(access, webhook.participant_id)


def _start_rest(webhook: Webhook, reason: str) -> None:
    rows = Webhook.objects.filter(pk=webhook.pk, state=Webhook.State.ACTIVE)
    rows.update(state=Webhook.State.RESTING, reason=reason, updated_at=timezone.now())


@dataclass(frozen=True)
class _OneEvent:
    event: LiveEvent
    batch: EventBatch


def _live_event(webhook: Webhook, delivery: Delivery) -> _OneEvent:
    """The event of a delivery with what it is about, as things are now."""
    kind = "message_posted" if delivery.kind == "mention" else delivery.kind
    ids = (delivery.channel_id, delivery.thread_id, delivery.message_id, None)
    batch = make_batch(webhook.workspace_id, [EventRow(delivery.position or 0, kind, *ids)])
    return _OneEvent(batch.events[0], batch)


def _body(webhook: Webhook, delivery: Delivery) -> bytes | None:
    """What the event stream tells with `include=data`; None where the message is not there any more."""
    if delivery.kind == TEST_KIND:
        data = {"kind": TEST_KIND, "channel": None, "thread": None, "message": None, "data": None}
    else:
        one = _live_event(webhook, delivery)
        one.batch.wanted_ids = frozenset({delivery.message_id} if delivery.message_id else ())
        if delivery.message_id and delivery.message_id not in one.batch.messages:
            return None
        data = event_data(one.event, delivery.kind, one.batch)
    return json.dumps({**data, "position": delivery.position}, cls=JSONEncoder, ensure_ascii=False).encode()


def _headers(webhook: Webhook, delivery: Delivery, body: bytes) -> dict[str, str]:
    now = timezone.now()
    keys = [webhook.secret]
    if webhook.previous_secret and webhook.rotated_at and now - webhook.rotated_at < SECRET_OVERLAP:
        keys.append(webhook.previous_secret)
    return {
        "Content-Type": "application/json",
        "User-Agent": "OpenVibe-Webhooks/1",
        "OpenVibe-Webhook": str(webhook.pk),
        "OpenVibe-Delivery": str(delivery.uid),
        "OpenVibe-Event": delivery.kind,
        "OpenVibe-Signature": signature_header(keys, int(now.timestamp()), body),
    }


@transaction.atomic
def record(delivery: Delivery, answer: AttemptResult) -> None:
    """What came of an attempt, and when the next one is due. Nothing when the webhook was deleted meanwhile."""
    now = timezone.now()
    webhook = Webhook.objects.select_for_update(of=("self",)).filter(pk=delivery.webhook_id).first()
    current = Delivery.objects.select_for_update(of=("self",)).filter(pk=delivery.pk).first()
    if webhook is None or current is None:
        return
    current.attempts, current.attempted_at = current.attempts + 1, now
    is_deleted = Message.objects.filter(pk=current.message_id or 0).exclude(deleted_at=None).exists()
    current.status, current.response = (
        answer.status,
        "" if is_deleted else answer.text,
    )  # it may repeat what it was told
    current.error, current.milliseconds = answer.error, answer.milliseconds
    if not answer.error:
        current.state = Delivery.State.DELIVERED
        webhook.failing_since, webhook.next_attempt_at = None, now
    else:
        _record_failure(webhook, current, now)
    current.save()
    webhook.save(update_fields=["failing_since", "next_attempt_at"])


def _record_failure(webhook: Webhook, delivery: Delivery, now: datetime) -> None:
    webhook.failing_since = webhook.failing_since or now
    webhook.next_attempt_at = now + timedelta(seconds=retry_delay(delivery.attempts))
    is_refusal = delivery.status is not None and 300 <= delivery.status < 500
    if delivery.kind == TEST_KIND:
        delivery.state, webhook.next_attempt_at = Delivery.State.GIVEN_UP, now  # a test says how it is now
    elif now - webhook.failing_since >= GIVE_UP_AFTER:
        delivery.state = Delivery.State.GIVEN_UP
        _start_rest(webhook, FAILED_FOR_A_DAY)
    elif is_refusal and delivery.status not in PASSING_STATUSES and delivery.attempts >= MAX_REFUSALS:
        delivery.state, webhook.next_attempt_at = Delivery.State.GIVEN_UP, now


def retry_delay(attempts: int) -> float:
    """Seconds until the next attempt after so many: doubled each time up to an hour, give or take a quarter."""
    delay = min(FIRST_DELAY * 2.0 ** min(attempts - 1, 20), LONGEST_DELAY)
    return delay * random.uniform(0.75, 1.25)
