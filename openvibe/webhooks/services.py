"""Verbs of webhooks: create, change, rotate the secret, resume, send a test, send again, delete."""

from collections.abc import Collection
from datetime import timedelta
from urllib.parse import urlsplit

from django.conf import settings
from django.db import transaction
from django.db.models import Max
from django.utils import timezone

from openvibe.base.audit import AuditAction, record_audit
from openvibe.base.events import EVENT_RETENTION_HOURS
from openvibe.base.models import Event
from openvibe.base.problems import Conflict, Missing, Problem, Refused
from openvibe.engines.network.ssrf_guard import AddressRefused, check_url
from openvibe.webhooks.models import KINDS, TEST_KIND, Delivery, Webhook, may_direct
from openvibe.webhooks.signatures import is_standard, make_secret
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Participant, Workspace

MAX_WEBHOOKS = 50  # of a workspace


@transaction.atomic
def create_webhook(
    *, by: Access, participant: Participant, url: str, kinds: Collection[str], made_by_id: int | None = None
) -> tuple[Webhook, str]:
    """A webhook that is told from now on what `participant` sees, and its secret: show it once.

    `participant` is an agent, or the admin who makes it, for the workspace; `made_by_id` is who holds the token that an
    agent calls with. Raises Problem (address, kinds, too many) and Refused.
    """
    is_own = participant.pk == by.participant_id
    if participant.workspace_id != by.workspace_id or not (by.administers or (by.is_agent and is_own)):
        raise Refused("Only owners and admins make webhooks, and an agent its own.")
    if not may_direct(by, participant.pk):
        raise Refused(
            "A webhook tells what you see yourself, or what an agent does that reads no private channel without you."
        )
    Workspace.objects.select_for_update(no_key=True).get(pk=by.workspace_id)  # two at once count one another
    if Webhook.objects.filter(workspace=by.workspace_id).count() >= MAX_WEBHOOKS:
        raise Problem(f"A workspace has at most {MAX_WEBHOOKS} webhooks. Delete one first.", code="too_many")
    url, clean_kinds = _clean_url(url), _clean_kinds(kinds)
    newest = Event.objects.filter(workspace_id=by.workspace_id).aggregate(last=Max("position"))["last"] or 0
    secret = make_secret()
    webhook = Webhook.objects.create(
        workspace_id=by.workspace_id,
        participant=participant,
        made_by_id=made_by_id or by.participant_id,
        url=url,
        kinds=clean_kinds,
        secret=secret,
        position=newest,
    )
    _audit(webhook, by, after=f"made, told of {', '.join(clean_kinds)}")
    return webhook, secret


@transaction.atomic
def update_webhook(
    *,
    webhook: Webhook,
    by: Access,
    url: str | None = None,
    kinds: Collection[str] | None = None,
    paused: bool | None = None,
    made_by_id: int | None = None,
) -> str:
    """Another address, other kinds, or a pause. What waits is sent to the new address, and whoever gives one, be it the
    same, is asked from then on whether she may read it (`made_by_id` as of `create_webhook`). As it is shown, masked,
    it is the same.

    Returns the new secret of one whose secret no library of Standard Webhooks can read, to be shown once; else "".
    Raises Refused; of another member's it may only be paused."""
    current = _lock(webhook, by)
    before = _words(current)
    if url is not None or kinds is not None:
        _check_directs(current, by)
    if url is not None:
        current.url = _clean_url(current.url if url.strip() == current.masked_url else url)
        current.made_by_id = made_by_id or by.participant_id
    if kinds is not None:
        current.kinds = _clean_kinds(kinds)
    secret = ""
    if (url is not None or kinds is not None) and not is_standard(current.secret):
        secret = _replace_secret(current)
    if paused:
        current.state, current.reason = Webhook.State.PAUSED, ""
    elif paused is not None and current.state == Webhook.State.PAUSED:
        _resume(current)
    current.save()
    if before != (after := _words(current)):
        _audit(current, by, before=before, after=after)
    if secret:
        _audit(current, by, after="a new secret")
    return secret


@transaction.atomic
def resume_webhook(*, webhook: Webhook, by: Access) -> Webhook:
    """Resumes the webhook: what waits is sent, and what happened meanwhile, as far as events are kept."""
    current = _lock(webhook, by)
    _resume(current)
    current.save()
    return current


def _resume(webhook: Webhook) -> None:
    webhook.state, webhook.reason = Webhook.State.ACTIVE, ""
    webhook.failing_since, webhook.next_attempt_at = None, timezone.now()


@transaction.atomic
def rotate_secret(*, webhook: Webhook, by: Access) -> str:
    """A new secret, to be shown once; for a day deliveries are signed with the one before, too."""
    current = _lock(webhook, by)
    _check_directs(current, by)
    secret = _replace_secret(current)
    current.save()
    _audit(current, by, after="a new secret")
    return secret


def _replace_secret(webhook: Webhook) -> str:
    webhook.previous_secret, webhook.rotated_at, webhook.secret = webhook.secret, timezone.now(), make_secret()
    return webhook.secret


@transaction.atomic
def delete_webhook(*, webhook: Webhook, by: Access) -> None:
    """Deletes the webhook with its deliveries: what waits is not sent any more."""
    current = _lock(webhook, by)  # no delivery is written meanwhile
    _audit(current, by, before=_words(current), after="deleted")
    current.delete()


@transaction.atomic
def send_test(*, webhook: Webhook, by: Access) -> Delivery:
    """A delivery of kind `test`, sent ahead of what waits. Raises Conflict unless the webhook is active."""
    current = _lock_active(webhook, by)
    return Delivery.objects.create(webhook=current, kind=TEST_KIND)


@transaction.atomic
def send_again(*, delivery: Delivery, by: Access) -> Delivery:
    """The same delivery once more, under its own id. Raises Conflict unless the webhook is active."""
    _lock_active(delivery.webhook, by)
    current = Delivery.objects.select_for_update(of=("self",)).get(pk=delivery.pk)
    current.state, current.attempts = Delivery.State.PENDING, 0
    current.save(update_fields=["state", "attempts"])
    return current


def delete_old_deliveries() -> int:
    """Deletes deliveries that are over, after WEBHOOK_DELIVERY_DAYS; returns how many. What waits stays."""
    oldest = timezone.now() - timedelta(days=settings.WEBHOOK_DELIVERY_DAYS)
    rows = Delivery.objects.filter(created_at__lt=oldest).exclude(state=Delivery.State.PENDING)
    return rows.delete()[0]


def has_missed_events(webhook: Webhook) -> bool:
    """Whether it has been still for longer than events are kept, so that some will not be told."""
    oldest = timezone.now() - timedelta(hours=EVENT_RETENTION_HOURS)
    return webhook.state != Webhook.State.ACTIVE and webhook.updated_at < oldest


def _words(webhook: Webhook) -> str:
    """The webhook in words: where it goes, who said so, what it is told and whether it is paused. Addresses hold
    secrets: the host alone."""
    host = urlsplit(webhook.url).hostname or ""
    maker = Participant.objects.filter(pk=webhook.made_by_id or 0).values_list("handle", flat=True).first()
    state = ", paused" if webhook.state == Webhook.State.PAUSED else ""
    return f"to {host}{f' by @{maker}' if maker else ''}, told of {', '.join(webhook.kinds)}{state}"


def _audit(webhook: Webhook, by: Access, *, before: str = "", after: str) -> None:
    subject = f"of @{webhook.participant.handle}, to {urlsplit(webhook.url).hostname}"
    record_audit(
        AuditAction.WEBHOOK, workspace_id=webhook.workspace_id, by=by, subject=subject, before=before, after=after
    )


def _check_manages(webhook: Webhook, by: Access) -> None:
    if not Webhook.objects.visible_to(by).filter(pk=webhook.pk).exists():
        raise Refused("Only owners and admins manage webhooks, and an agent its own.")


def _check_directs(webhook: Webhook, by: Access) -> None:
    if not webhook.is_directed_by(by):
        raise Refused("It tells what you may not see yourself. You may pause or delete it, not have it sent to you.")


def _lock(webhook: Webhook, by: Access) -> Webhook:
    """Raises Missing when it was deleted meanwhile."""
    _check_manages(webhook, by)
    rows = Webhook.objects.select_for_update(of=("self",)).select_related("participant")
    current = rows.filter(pk=webhook.pk).first()
    if current is None:
        raise Missing
    return current


def _lock_active(webhook: Webhook, by: Access) -> Webhook:
    current = _lock(webhook, by)
    if current.state != Webhook.State.ACTIVE:
        raise Conflict(f"This webhook is {current.get_state_display()}. Let it go on first.", code="not_active")
    Webhook.objects.filter(pk=current.pk).update(next_attempt_at=timezone.now())
    return current


def _clean_url(url: str) -> str:
    url = url.strip()
    if len(url) > 500:
        raise Problem("An address has at most 500 characters.", code="bad_url", field="url")
    if "…" in url:  # of an address as it is shown
        raise Problem("Write the whole address: … stands for what is not shown.", code="bad_url", field="url")
    try:
        check_url(url, allow_private=settings.ALLOW_PRIVATE_ENDPOINTS)
    except AddressRefused as refusal:
        raise Problem(str(refusal), code="bad_url", field="url") from None
    return url


def _clean_kinds(kinds: Collection[str]) -> list[str]:
    clean_kinds = [kind for kind in KINDS if kind in kinds]
    if not clean_kinds or len(clean_kinds) != len(set(kinds)):
        raise Problem(f"Choose one or more kinds of: {', '.join(KINDS)}.", code="bad_kind", field="kinds")
    return clean_kinds
