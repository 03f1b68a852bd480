"""How deliveries reach webhooks: at least once, under the same id, in the order of the events of each webhook.

One process at a time sends, to many webhooks at once, one delivery of each: it prepares and records on its own thread,
for all that are due together, and other threads do nothing but wait for those that answer. What is said is read when it
is sent, and only what the webhook's participant may see then."""

import json
import random
import time
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import connection, transaction
from django.utils import timezone
from rest_framework.utils.encoders import JSONEncoder

from openvibe.chat.api.event_frames import event_data
from openvibe.chat.live.batch import EventBatch, EventRow, LiveEvent, make_batch
from openvibe.chat.models import Message
from openvibe.engines.database.locks import LockKind, advisory_lock
from openvibe.engines.network.receiver_connection import AttemptResult, ReceiverConnection
from openvibe.engines.text.absolute_links import absolute_links
from openvibe.webhooks.models import LONGEST_DELAY_SECONDS, SECRET_OVERLAP, TEST_KIND, Delivery, Webhook
from openvibe.webhooks.outbox import write_deliveries
from openvibe.webhooks.queries import (
    DueWebhook,
    deliveries_by_id,
    due_webhooks,
    lock_deliveries,
    lock_webhooks,
    messages_by_id,
)
from openvibe.webhooks.readers import access_viewers, start_rest
from openvibe.webhooks.signatures import signature_headers

MAX_SENDERS, MAX_FAILING_SENDERS = 32, 8
"""Webhooks that are sent to at the same time; of these, so many whose last attempt failed: they hold up no other."""
TURN_SECONDS = 15.0
"""How long one turn begins attempts; the next one goes on."""
LOOK_SECONDS = 0.5
"""How often it is looked for new events and for webhooks that fail, while others are sent to."""
GATHER_SECONDS = 0.01
"""How long answers wait for those that come with them."""
FIRST_DELAY = 5.0  # seconds
GIVE_UP_AFTER = timedelta(days=1)
MAX_REFUSALS = 5
"""Attempts at one delivery that is refused as such (3xx and 4xx): those behind it go on then."""
PASSING_STATUSES = (408, 425, 429)
FAILED_FOR_A_DAY = "Nothing was received for a day. See the last answer below, then let it try again."


def send_due(*, seconds: float = TURN_SECONDS) -> int:
    """Writes what is new and sends what is due, for one turn; returns how many attempts were made. Does nothing while
    another process does, and without an active webhook."""
    if not Webhook.objects.filter(state=Webhook.State.ACTIVE).exists():
        return 0
    with advisory_lock(LockKind.WEBHOOKS, 0) as is_owner:
        if not is_owner:
            return 0
        with _open_senders() as senders:
            return _run_turn(senders, seconds)


@dataclass(frozen=True)
class _Attempt:
    delivery: Delivery
    is_failing: bool
    """Whether the webhook's last attempt failed."""


@dataclass
class _Senders:
    """Threads that send, what they are at, and the connections to receivers, which stay open for a turn."""

    pool: ThreadPoolExecutor
    in_flight: dict[Future[AttemptResult], _Attempt] = field(default_factory=dict)
    connections: dict[tuple[int, str], ReceiverConnection] = field(default_factory=dict)

    @property
    def busy_ids(self) -> set[int]:
        return {attempt.delivery.webhook_id for attempt in self.in_flight.values()}

    def room(self, *, failing: bool) -> int:
        taken = sum(attempt.is_failing == failing for attempt in self.in_flight.values())
        return (MAX_FAILING_SENDERS if failing else MAX_SENDERS - MAX_FAILING_SENDERS) - taken

    def begin(self, webhook: Webhook, delivery: Delivery, body: bytes) -> None:
        key = (webhook.pk, webhook.url)
        if key not in self.connections:
            self.connections[key] = ReceiverConnection(webhook.url, allow_private=settings.ALLOW_PRIVATE_ENDPOINTS)
        future = self.pool.submit(self.connections[key].post, body, _headers(webhook, delivery, body))
        self.in_flight[future] = _Attempt(delivery, webhook.failing_since is not None)

    def record_answers(self) -> None:
        """Waits for the next answers, and records those that are there: together, for each costs as much alone."""
        done = wait(self.in_flight, timeout=GATHER_SECONDS).done
        done = done or wait(self.in_flight, timeout=LOOK_SECONDS, return_when=FIRST_COMPLETED).done
        if done:
            record([(self.in_flight.pop(future).delivery, future.result()) for future in done])


@contextmanager
def _open_senders() -> Iterator[_Senders]:
    with ThreadPoolExecutor(MAX_SENDERS, thread_name_prefix="webhook") as pool:
        senders = _Senders(pool)
        try:
            yield senders
        finally:
            wait(senders.in_flight)
            for each in senders.connections.values():
                each.close()


def _run_turn(senders: _Senders, seconds: float) -> int:
    """Sends what is due for so many seconds; returns how many attempts were begun.

    Once the time is up, the turn goes on only beside attempts begun before that have no answer yet, and with nobody
    whose last one failed: a receiver that stalls holds up no other, and no turn goes on for ever."""
    ends_at, look_at, attempts, has_more = time.monotonic() + seconds, 0.0, 0, False
    is_over, begun_in_time = False, set[Future[AttemptResult]]()
    while True:
        has_withheld = False
        if not is_over or not begun_in_time.isdisjoint(senders.in_flight):
            is_look = not senders.in_flight or time.monotonic() >= look_at
            if is_look:
                has_more, look_at = write_deliveries(), time.monotonic() + LOOK_SECONDS
            begun, has_withheld = _begin_attempts(senders, with_failing=is_look and not is_over)
            attempts += begun
            begun_in_time = begun_in_time if is_over else set(senders.in_flight)
        if senders.in_flight:
            senders.record_answers()
        elif is_over or not (has_more or has_withheld):
            return attempts
        is_over = time.monotonic() >= ends_at


def _begin_attempts(senders: _Senders, *, with_failing: bool) -> tuple[int, bool]:
    """Sends the next delivery of each webhook that is due, as far as there is room; returns how many these are, and
    whether others were withheld."""
    busy_ids = senders.busy_ids
    due = due_webhooks(senders.room(failing=False), except_ids=busy_ids)
    if with_failing:
        due += due_webhooks(senders.room(failing=True), failing=True, except_ids=busy_ids)
    prepared = prepare(due)
    for webhook, delivery, body in prepared.sendable:
        senders.begin(webhook, delivery, body)
    return len(prepared.sendable), bool(prepared.withheld_ids)


@dataclass(frozen=True)
class Preparation:
    """The deliveries that may be sent now, and those that tell of what may not be seen any more."""

    sendable: Sequence[tuple[Webhook, Delivery, bytes]] = ()
    withheld_ids: Collection[int] = ()


def prepare(due: Sequence[DueWebhook]) -> Preparation:
    """The next delivery of each webhook with its body; as many queries for many as for one of
    a workspace. What may not be seen any more is withheld, and nothing is said of one whose webhook rests now.

    Messages are read first, then access, then what each event is about: what a body holds was there before any access
    was taken."""
    by_id = deliveries_by_id(one.delivery_id for one in due) if due else {}
    pairs = [(webhook, by_id[delivery_id]) for webhook, delivery_id in due if delivery_id in by_id]
    batches = {workspace_id: _read_messages(workspace_id, pairs) for workspace_id in {w.workspace_id for w, _ in pairs}}
    viewers = access_viewers(webhook for webhook, _ in pairs) if pairs else {}
    events = {key: event for batch in batches.values() for key, event in _read_events(batch, pairs).items()}
    bodies: dict[EventKey, bytes] = {}
    sendable, withheld_ids = [], []
    for webhook, delivery in pairs:
        key, viewer = _event_key(webhook, delivery), viewers.get(webhook.pk)
        event, batch = events.get(key), batches[webhook.workspace_id]
        if viewer is None:
            continue
        if event is not None and not (viewer.sees(event) and _is_there(event, batch)):
            withheld_ids.append(delivery.pk)
            continue
        if key not in bodies:
            bodies[key] = _body(delivery, event, batch)
        sendable.append((webhook, delivery, bodies[key]))
    if withheld_ids:
        Delivery.objects.filter(pk__in=withheld_ids).update(state=Delivery.State.WITHHELD)
    return Preparation(sendable, withheld_ids)


EventKey = tuple[int, str, int | None]
"""A workspace, a kind as it is told, and a position: what webhooks are told alike."""


def _event_key(webhook: Webhook, delivery: Delivery) -> EventKey:
    return webhook.workspace_id, delivery.kind, delivery.position


def _read_messages(workspace_id: int, pairs: Sequence[tuple[Webhook, Delivery]]) -> EventBatch:
    """The messages that deliveries in this workspace tell of, as they are now."""
    message_ids = (delivery.message_id for webhook, delivery in pairs if webhook.workspace_id == workspace_id)
    batch = EventBatch(workspace_id, 0)
    batch.messages = messages_by_id({pk for pk in message_ids if pk})
    return batch


def _read_events(batch: EventBatch, pairs: Sequence[tuple[Webhook, Delivery]]) -> dict[EventKey, LiveEvent]:
    """The events in the batch's workspace, with what they are about now; none of tests."""
    rows = {
        _event_key(webhook, delivery): EventRow(
            delivery.position or 0,
            "message_posted" if delivery.kind == "mention" else delivery.kind,
            *(delivery.channel_id, delivery.thread_id, delivery.message_id, None),
        )
        for webhook, delivery in pairs
        if webhook.workspace_id == batch.workspace_id and delivery.kind != TEST_KIND
    }
    return dict(zip(rows, make_batch(batch.workspace_id, list(rows.values())).events, strict=True))


def _is_there(event: LiveEvent, batch: EventBatch) -> bool:
    return event.message_id is None or event.message_id in batch.messages


def _body(delivery: Delivery, event: LiveEvent | None, batch: EventBatch) -> bytes:
    """The body: what the event stream tells with `include=data`; of a test, that it is one."""
    data: dict[str, Any]
    if event is None:
        data = {"kind": TEST_KIND, "channel": None, "thread": None, "message": None, "data": None}
    else:
        data = event_data(event, delivery.kind, batch)
        if message := data["data"]:
            data = {**data, "data": {**message, "body": absolute_links(message["body"], settings.PUBLIC_URL)}}
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
        "OpenVibe-Event": delivery.kind,
        **signature_headers(keys, delivery_id=str(delivery.uid), timestamp=int(now.timestamp()), body=body),
    }


# Each with an array: a CASE for each row and column takes longer to write than to carry out.
_UPDATE_DELIVERIES = """
UPDATE webhooks_delivery AS d
SET state = v.state, attempts = v.attempts, status = v.status, response = v.response, error = v.error,
    milliseconds = v.milliseconds, attempted_at = %s
FROM unnest(%s::bigint[], %s::text[], %s::int[], %s::smallint[], %s::text[], %s::text[], %s::int[])
    AS v(id, state, attempts, status, response, error, milliseconds)
WHERE d.id = v.id
"""


@transaction.atomic
def record(answers: Sequence[tuple[Delivery, AttemptResult]]) -> None:
    """Stores what came of attempts, one of each webhook, and when the next ones are due. Nothing of webhooks that were
    deleted meanwhile. As many queries for many as for one, but one more for each that failed."""
    now = timezone.now()
    webhook_ids, delivery_ids = ({getattr(row, name) for row, _ in answers} for name in ("webhook_id", "pk"))
    webhooks, deliveries = lock_webhooks(webhook_ids), lock_deliveries(delivery_ids)
    message_ids = {delivery.message_id for delivery in deliveries.values() if delivery.message_id}
    deleted = Message.objects.filter(pk__in=message_ids).exclude(deleted_at=None)
    deleted_ids = set(deleted.values_list("pk", flat=True))
    received_ids, changed = [], []
    for row, answer in answers:
        webhook, delivery = webhooks.get(row.webhook_id), deliveries.get(row.pk)
        if webhook is None or delivery is None:
            continue
        delivery.attempts, delivery.status, delivery.error = delivery.attempts + 1, answer.status, answer.error
        delivery.response = "" if delivery.message_id in deleted_ids else answer.text  # it may repeat what it was told
        delivery.milliseconds = answer.milliseconds
        changed.append(delivery)
        if answer.error:
            _record_failure(webhook, delivery, now)
            webhook.save(update_fields=["failing_since", "next_attempt_at"])
        else:
            delivery.state = Delivery.State.DELIVERED
            received_ids.append(webhook.pk)
    Webhook.objects.filter(pk__in=received_ids).update(failing_since=None, next_attempt_at=now)
    columns = ("pk", "state", "attempts", "status", "response", "error", "milliseconds")
    values = [[getattr(delivery, name) for delivery in changed] for name in columns]
    with connection.cursor() as cursor:
        cursor.execute(_UPDATE_DELIVERIES, [now, *values])


def _record_failure(webhook: Webhook, delivery: Delivery, now: datetime) -> None:
    webhook.failing_since = webhook.failing_since or now
    webhook.next_attempt_at = now + timedelta(seconds=retry_delay(delivery.attempts))
    is_refusal = delivery.status is not None and 300 <= delivery.status < 500
    if delivery.kind == TEST_KIND:
        delivery.state, webhook.next_attempt_at = Delivery.State.GIVEN_UP, now  # a test says how it is now
    elif now - webhook.failing_since >= GIVE_UP_AFTER:
        delivery.state = Delivery.State.GIVEN_UP
        start_rest(webhook, FAILED_FOR_A_DAY)
    elif is_refusal and delivery.status not in PASSING_STATUSES and delivery.attempts >= MAX_REFUSALS:
        delivery.state, webhook.next_attempt_at = Delivery.State.GIVEN_UP, now


def retry_delay(attempts: int) -> float:
    """Seconds until the next attempt after so many: doubled each time up to an hour, give or take a quarter."""
    delay = min(FIRST_DELAY * 2.0 ** min(attempts - 1, 20), LONGEST_DELAY_SECONDS)
    return delay * random.uniform(0.75, 1.25)
