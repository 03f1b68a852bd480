"""How pushes reach browsers: each message once to each, at the push service that the browser named.

One process at a time sends. A delivery is claimed, which is committed, before it leaves: whoever dies in between leaves
it to be sent again after LEASE, under the same topic and tag, so that a browser shows one. What is said is read when it
is sent (`contents`)."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from time import monotonic

import structlog
from cryptography.hazmat.primitives.asymmetric import ec
from django.conf import settings
from django.db import transaction
from django.db.models import F
from django.utils import timezone

from openvibe.chat.models import PushDelivery, PushSubscription
from openvibe.chat.push.contents import Push, make_pushes
from openvibe.chat.push.outbox import close_ended_subscriptions, write_deliveries
from openvibe.chat.services import push_key
from openvibe.engines.database.locks import LockKind, advisory_lock
from openvibe.engines.network.receiver_connection import AttemptResult, ReceiverConnection
from openvibe.engines.network.web_push import encrypt, read_browser_keys, signature_header

TURN_SECONDS = 15.0
"""How long one turn begins attempts; what is left is sent at the next one."""
ATTEMPT_SECONDS = 10.0
"""How long a push service may take to answer."""
LEASE = timedelta(seconds=60)
MAX_SENDERS, MAX_FAILING_SENDERS = 24, 8
"""Deliveries that are sent at the same time, and to browsers whose last one failed: they hold up no other."""
GIVE_UP_AFTER = timedelta(hours=1)
"""What could not be sent by then is found in the inbox."""
FORGET_BROWSER_AFTER = timedelta(days=7)
"""The time in which nothing arrives at a browser, until its subscription is deleted."""
FIRST_DELAY, LONGEST_DELAY = timedelta(seconds=15), timedelta(hours=1)
GONE_STATUSES = (404, 410)
"""A push service knows no such browser (any more): RFC 8030, 7.3."""
PASSING_STATUSES = (408, 425, 429)
TTL_SECONDS = 4 * 3600
"""How long a push service keeps a message for a browser that is not connected."""
RETENTION = timedelta(days=1)
log = structlog.get_logger(__name__)


def send_due(*, seconds: float = TURN_SECONDS, attempt_seconds: float = ATTEMPT_SECONDS) -> int:
    """Writes what is new and sends what is due, for one turn; returns how many attempts were made. Does nothing while
    another process does, and where nobody wants pushes."""
    if not PushSubscription.objects.exists():
        return 0
    with advisory_lock(LockKind.PUSHES, 0) as is_owner:
        if not is_owner:
            return 0
        close_ended_subscriptions()
        write_deliveries()
        private_key, attempts, ends_at = push_key(), 0, monotonic() + seconds
        while monotonic() < ends_at and (claimed := _claim_due()):
            attempts += _send(_make_pushes(claimed), private_key, attempt_seconds)
        return attempts


def delete_old_deliveries() -> int:
    """Deletes the deliveries of which no event can tell any more; returns how many."""
    return PushDelivery.objects.filter(created_at__lt=timezone.now() - RETENTION).delete()[0]


@transaction.atomic
def _claim_due() -> list[PushDelivery]:
    """What is to be sent next, this process's for as long as LEASE."""
    now = timezone.now()
    due = PushDelivery.objects.filter(done_at=None, due_at__lte=now, subscription__resumes_at__lte=now)
    due = due.order_by("due_at", "pk")
    ids = list(due.filter(subscription__failing_since=None).values_list("pk", flat=True)[:MAX_SENDERS])
    failing = due.filter(subscription__failing_since__isnull=False).values_list("pk", flat=True)
    ids += failing[:MAX_FAILING_SENDERS]
    PushDelivery.objects.filter(pk__in=ids).update(due_at=now + LEASE, attempts=F("attempts") + 1)
    return list(PushDelivery.objects.filter(pk__in=ids).select_related("subscription__user").order_by("pk"))


def _make_pushes(deliveries: Sequence[PushDelivery]) -> list[Push]:
    """What may be sent of these; with the others, and with what waited for too long, it is over."""
    now = timezone.now()
    fresh = [delivery for delivery in deliveries if now - delivery.created_at < GIVE_UP_AFTER]
    pushes = make_pushes(fresh)
    sent_ids = {push.delivery.pk for push in pushes}
    unwanted_ids = [delivery.pk for delivery in deliveries if delivery.pk not in sent_ids]
    PushDelivery.objects.filter(pk__in=unwanted_ids).update(done_at=now)
    return pushes


def _send(pushes: Sequence[Push], private_key: ec.EllipticCurvePrivateKey, attempt_seconds: float) -> int:
    """Sends these at the same time, and records what came of each."""

    def attempt(push: Push) -> AttemptResult:
        endpoint = push.delivery.subscription.endpoint
        connection = ReceiverConnection(
            endpoint, allow_private=settings.ALLOW_PRIVATE_ENDPOINTS, seconds=attempt_seconds
        )
        try:
            return connection.post(*_request(push, private_key))
        finally:
            connection.close()

    if pushes:
        with ThreadPoolExecutor(len(pushes), thread_name_prefix="push") as pool:
            for push, result in zip(pushes, pool.map(attempt, pushes), strict=True):
                record(push.delivery, result)
    return len(pushes)


def _request(push: Push, private_key: ec.EllipticCurvePrivateKey) -> tuple[bytes, dict[str, str]]:
    """Body and headers of a push (RFC 8030)."""
    subscription = push.delivery.subscription
    body = encrypt(push.payload, read_browser_keys(subscription.p256dh, subscription.auth))
    now = timezone.now()
    return body, {
        "Content-Type": "application/octet-stream",
        "Content-Encoding": "aes128gcm",
        "TTL": str(TTL_SECONDS),
        "Urgency": "high" if push.is_named else "normal",
        "Topic": f"m{push.delivery.message_id}",  # one that is sent again takes the place of the first
        "Authorization": signature_header(private_key, endpoint=subscription.endpoint, contact=contact(), now=now),
        "User-Agent": "OpenVibe-Push/1",
    }


def contact() -> str:
    """How push services reach the operator: by e-mail where that is set up, else at the public address."""
    is_public = settings.PUBLIC_URL.startswith("https://")
    return (
        settings.PUBLIC_URL if is_public and not settings.EMAIL_CONFIGURED else f"mailto:{settings.DEFAULT_FROM_EMAIL}"
    )


@transaction.atomic
def record(delivery: PushDelivery, result: AttemptResult) -> None:
    """Stores what came of an attempt. A browser that its push service does not know any more is forgotten; one that is
    asked too often, or not reached, is let alone for a while."""
    subscription = PushSubscription.objects.select_for_update().filter(pk=delivery.subscription_id).first()
    if subscription is None:
        return
    now, row = timezone.now(), PushDelivery.objects.filter(pk=delivery.pk)
    if not result.error:
        row.update(done_at=now)
        subscription.failing_since = None
        subscription.save(update_fields=["failing_since"])
        return
    since = subscription.failing_since or now
    if result.status in GONE_STATUSES or now - since >= FORGET_BROWSER_AFTER:
        subscription.delete()
        return
    delay = max(retry_delay(delivery.attempts), read_retry_after(result.retry_after, now))
    is_refusal = result.status is not None and 300 <= result.status < 500 and result.status not in PASSING_STATUSES
    if is_refusal:
        log.warning("push_refused", status=result.status, answer=result.text[:200])
        row.update(done_at=now)
    else:
        row.update(due_at=now + delay)
    subscription.failing_since, subscription.resumes_at = since, now + delay
    subscription.save(update_fields=["failing_since", "resumes_at"])


def retry_delay(attempts: int) -> timedelta:
    """The time until the next attempt after so many: doubled each time."""
    return min(FIRST_DELAY * float(1 << min(max(attempts - 1, 0), 20)), LONGEST_DELAY)


def read_retry_after(text: str, now: datetime) -> timedelta:
    """What `Retry-After` asks for, in seconds or as a date (RFC 9110, 10.2.3), at most LONGEST_DELAY; nothing where it
    says nothing that can be read."""
    delay = timedelta()
    if text.isascii() and text.isdigit() and len(text) < 10:
        delay = timedelta(seconds=int(text))
    elif text:
        try:
            moment = parsedate_to_datetime(text)
        except ValueError:
            return delay
        delay = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - now
    return min(max(delay, timedelta()), LONGEST_DELAY)
