"""Browsers that are sent notifications while no page is open: turned on and off, and the key that signs for them."""

from dataclasses import dataclass
from urllib.parse import urlsplit

from cryptography.hazmat.primitives.asymmetric import ec
from django.conf import settings
from django.db import transaction
from django.utils import timezone

from openvibe.base.events import newest_position
from openvibe.base.problems import Conflict, Problem
from openvibe.chat.models import (
    MAX_PUSH_ENDPOINT,
    MAX_PUSH_SUBSCRIPTIONS,
    PushDelivery,
    PushKey,
    PushPosition,
    PushSubscription,
)
from openvibe.chat.services.notifications import check_is_person
from openvibe.engines.database.fields import UnreadableSecret
from openvibe.engines.network.ssrf_guard import AddressRefused, check_url
from openvibe.engines.network.web_push import BadBrowserKey, load_private_key, new_private_key, read_browser_keys
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import User

LOOPBACK_HOSTS = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True)
class NewSubscription:
    """What a browser says of itself: its address at a push service, its keys as it writes them, and its name."""

    endpoint: str
    p256dh: str
    auth: str
    browser: str


@transaction.atomic
def push_key() -> ec.EllipticCurvePrivateKey:
    """The key that signs pushes, made where there is none.

    One that this server cannot decrypt is replaced, and all browsers are asked to turn pushes on again: with another
    secret key nobody is signed in any more.
    """
    row = PushKey.objects.filter(pk=1).first()
    if row is None or isinstance(row.private_key, UnreadableSecret):
        PushKey.objects.bulk_create([PushKey(pk=1, private_key=new_private_key())], ignore_conflicts=True)
        row = PushKey.objects.select_for_update().get(pk=1)
        if isinstance(row.private_key, UnreadableSecret):
            row.private_key = new_private_key()
            row.save(update_fields=["private_key"])
            PushSubscription.objects.all().delete()
    return load_private_key(row.private_key)


@transaction.atomic
def subscribe_browser(
    new: NewSubscription, *, user: User, by: Access, session_key: str, shows_private: bool | None = None
) -> PushSubscription:
    """Sends the browser what the person is notified of, until this session ends. Of a browser that is known, session,
    keys and person are brought up to date; `shows_private`: None leaves that as it is."""
    check_is_person(by)
    _check_subscription(new)
    User.objects.select_for_update().get(pk=user.pk)  # one at a time: they are counted
    known = PushSubscription.objects.select_for_update().filter(endpoint=new.endpoint).first()
    if known is not None and known.user_id != user.pk:
        known.delete()  # another person signed in there, who is sent nothing of what is on its way
        known = None
    others = PushSubscription.objects.filter(user=user).exclude(endpoint=new.endpoint)
    if known is None and others.count() >= MAX_PUSH_SUBSCRIPTIONS:
        raise Conflict(
            f"Notifications are turned on in {MAX_PUSH_SUBSCRIPTIONS} of your browsers already. Turn them off in one "
            "that you do not use any more: they are listed on your page of notifications.",
            code="too_many_browsers",
        )
    row = known or PushSubscription(user=user, endpoint=new.endpoint)
    row.p256dh, row.auth, row.browser = new.p256dh, new.auth, new.browser[:60]
    row.session_key, row.auth_hash = session_key, user.get_session_auth_hash()
    if shows_private is not None:
        row.shows_private = shows_private
    row.resumes_at, row.failing_since = timezone.now(), None
    row.save()
    _begin_positions(user)
    return row


def _begin_positions(user: User) -> None:
    """Notes where events begin of which it is decided who is sent a push, in workspaces where nobody wanted any: the
    next turn would begin behind what is posted until then."""
    for workspace_id in user.memberships.filter(removed_at=None).values_list("workspace_id", flat=True):
        position = PushPosition(workspace_id=workspace_id, position=newest_position(workspace_id))
        PushPosition.objects.bulk_create([position], ignore_conflicts=True)


def unsubscribe_browser(*, user: User, endpoint: str = "", pk: int | None = None) -> bool:
    """Ends what one of the person's browsers is sent, by its address or its row; whether there was one."""
    rows = PushSubscription.objects.filter(user=user)
    return bool((rows.filter(endpoint=endpoint) if pk is None else rows.filter(pk=pk)).delete()[0])


def note_shown(*, by: Access, user: User, message_id: int, endpoint: str = "") -> int:
    """Takes back what is still on its way of a message that a page has shown: to all browsers of somebody who is at
    that page, or to the one at `endpoint` alone. Returns how many are not sent any more."""
    rows = PushDelivery.objects.filter(participant=by.participant_id, message=message_id, done_at=None)
    rows = rows.filter(subscription__user=user)
    if endpoint:
        rows = rows.filter(subscription__endpoint=endpoint)
    return rows.update(done_at=timezone.now())


def _check_subscription(new: NewSubscription) -> None:
    if len(new.endpoint) > MAX_PUSH_ENDPOINT:
        raise Problem("This browser's address for pushes is too long.", code="bad_push_address", field="endpoint")
    try:
        check_url(new.endpoint, allow_private=settings.ALLOW_PRIVATE_ENDPOINTS)
    except AddressRefused as refusal:
        raise Problem(str(refusal), code="bad_push_address", field="endpoint") from refusal
    parts = urlsplit(new.endpoint)
    if parts.scheme != "https" and parts.hostname not in LOOPBACK_HOSTS:
        raise Problem("A push service is called over https.", code="bad_push_address", field="endpoint")
    try:
        read_browser_keys(new.p256dh, new.auth)
    except BadBrowserKey as error:
        raise Problem(f"This browser's keys cannot be used. {error}", code="bad_push_key", field="p256dh") from error
    if len(new.p256dh) > 100 or len(new.auth) > 32:
        raise Problem("This browser's keys are too long.", code="bad_push_key", field="p256dh")
