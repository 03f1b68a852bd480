"""Middleware that knows accounts: when a session was last used."""

import time
from collections.abc import Callable

from allauth.usersessions.models import UserSession
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.utils import timezone

SEEN_SESSION_KEY = "seen"
SEEN_SECONDS = 300
"""So long the page of one's sessions may lag behind: a request costs a statement more once in this time."""


class LastSeenMiddleware:
    """Keeps `UserSession.last_seen_at`, and the session alive while it is used."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if settings.SESSION_COOKIE_NAME in request.COOKIES:
            now = int(time.time())
            if now - request.session.get(SEEN_SESSION_KEY, 0) > SEEN_SECONDS and request.user.is_authenticated:
                request.session[SEEN_SESSION_KEY] = now
                rows = UserSession.objects.filter(session_key=request.session.session_key, user=request.user.pk)
                if not rows.update(last_seen_at=timezone.now()):
                    UserSession.objects.create_from_request(request)
        return self.get_response(request)
