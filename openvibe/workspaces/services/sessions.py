"""A person's sessions: which there are, and how they end. What streams from one ends with it (`chat.live.viewers`).
The accounts that a browser has signed in to before are kept in a signed cookie of its own: guesses by others do not
lock it out (OWASP, "device cookies")."""

import hashlib
import re
import secrets

from allauth.usersessions.models import UserSession
from django.conf import settings
from django.contrib.auth import SESSION_KEY
from django.contrib.sessions.models import Session
from django.core import signing
from django.db import transaction
from django.http import HttpRequest, HttpResponse

from openvibe.workspaces.models import User

_BROWSERS = (
    (r"Edg", "Edge"),
    (r"OPR/", "Opera"),
    (r"Firefox/|FxiOS/", "Firefox"),
    (r"Chrome/|CriOS/", "Chrome"),
    (r"Safari/", "Safari"),
)
_SYSTEMS = (
    (r"iPhone|iPad", "iOS"),
    (r"Android", "Android"),
    (r"Windows", "Windows"),
    (r"Mac OS X", "macOS"),
    (r"CrOS", "ChromeOS"),
    (r"Linux", "Linux"),
)
"""What stands in `User-Agent`, in the order in which it tells them apart: each names those before it, too."""


def describe_browser(user_agent: str) -> str:
    """ "Firefox on Linux", as far as `User-Agent` tells."""
    browser = next((name for pattern, name in _BROWSERS if re.search(pattern, user_agent)), "Unknown browser")
    system = next((name for pattern, name in _SYSTEMS if re.search(pattern, user_agent)), "")
    return f"{browser} on {system}" if system else browser


@transaction.atomic
def end_sessions(*, user: User, keep: str, pk: int | None = None) -> int:
    """Ends the user's sessions but the one whose key is `keep`; with `pk`, that `UserSession` alone. Returns how many
    ended."""
    rows = UserSession.objects.filter(user=user).exclude(session_key=keep)
    keys = list((rows if pk is None else rows.filter(pk=pk)).values_list("session_key", flat=True))
    if pk is None:
        keys += [key for key in _unlisted_sessions(user) if key != keep]
    UserSession.objects.filter(session_key__in=keys).delete()
    Session.objects.filter(session_key__in=keys).delete()
    return len(keys)


def _unlisted_sessions(user: User) -> list[str]:
    """Sessions that nobody used since they are listed. Whose they are stands inside them."""
    unlisted_sessions = Session.objects.exclude(session_key__in=UserSession.objects.values("session_key"))
    return [
        row.session_key for row in unlisted_sessions.iterator() if row.get_decoded().get(SESSION_KEY) == str(user.pk)
    ]


COOKIE = "known_browser"
MAX_AGE = 365 * 86_400
MAX_ACCOUNTS = 5
"""The most accounts of one browser; the one that signed in longest ago is forgotten."""
_SALT = "openvibe.known_browsers"


def is_known_browser(request: HttpRequest, email: str) -> bool:
    return _digest(email) in _read_cookie(request)[1]


def browser_key(request: HttpRequest) -> str:
    """Key that tells a known browser from others: 22 random characters."""
    return _read_cookie(request)[0]


def remember_browser(request: HttpRequest, response: HttpResponse, user: User) -> None:
    key, accounts = _read_cookie(request)
    own = _digest(user.email)
    recent_accounts = [own, *(account for account in accounts if account != own)][:MAX_ACCOUNTS]
    response.set_cookie(
        COOKIE,
        signing.dumps([key or secrets.token_urlsafe(16), recent_accounts], salt=_SALT),
        max_age=MAX_AGE,
        path="/accounts/",
        httponly=True,
        secure=settings.SESSION_COOKIE_SECURE,
        samesite="Lax",
    )


def _read_cookie(request: HttpRequest) -> tuple[str, list[str]]:
    """The browser's key and digests of its accounts' addresses; empty where it has none that we signed."""
    try:
        key, accounts = signing.loads(request.COOKIES.get(COOKIE, ""), salt=_SALT, max_age=MAX_AGE)
    except signing.BadSignature:
        return "", []
    return key, accounts


def _digest(email: str) -> str:
    """The digest of an address, so that whoever reads the cookie learns none."""
    return hashlib.sha256(f"{settings.SECRET_KEY}{email.lower()}".encode()).hexdigest()[:32]
