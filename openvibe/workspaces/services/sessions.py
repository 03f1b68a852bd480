"""A person's sessions: which there are, and how they end. What streams from one ends with it (`chat.live.viewers`)."""

import re

from allauth.usersessions.models import UserSession
from django.contrib.auth import SESSION_KEY
from django.contrib.sessions.models import Session
from django.db import transaction

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
