"""The accounts that a browser has signed in to before, kept in a signed cookie of its own: guesses by others do not
lock it out (OWASP, "device cookies")."""

import hashlib
import secrets

from django.conf import settings
from django.core import signing
from django.http import HttpRequest, HttpResponse

from openvibe.workspaces.models import User

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
