"""Middleware that knows accounts: when a session was last used, and whether it was opened well enough."""

from collections.abc import Callable
from typing import cast

from allauth.account.authentication import get_authentication_records
from allauth.mfa.models import Authenticator
from allauth.usersessions.models import UserSession
from django.conf import settings
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect
from django.utils import timezone

from openvibe.api.problems import MEDIA_TYPE, problem_body
from openvibe.base.problems import Refused
from openvibe.workspaces.decorators import wants_json
from openvibe.workspaces.models import Member, User
from openvibe.workspaces.receivers import FACTOR_SESSION_KEY
from openvibe.workspaces.sessions import SessionStore

SEEN_SECONDS = 300
"""The time by which the page of one's sessions may lag behind: a request costs a statement more once in this time."""


class LastSeenMiddleware:
    """Keeps `UserSession.last_seen_at`, and the session alive while it is used."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if settings.SESSION_COOKIE_NAME in request.COOKIES:
            session = cast(SessionStore, request.session)
            if session.seconds_since_renewal > SEEN_SECONDS and request.user.is_authenticated:
                session.modified = True  # so that it is saved, and its cookie sent again
                rows = UserSession.objects.filter(session_key=request.session.session_key, user=request.user.pk)
                if not rows.update(last_seen_at=timezone.now()):
                    UserSession.objects.create_from_request(request)
        return self.get_response(request)


FACTOR_METHOD, PROVIDER_METHOD = "mfa", "socialaccount"
"""Methods of allauth's records: a second factor or a passkey; the operator's provider, which asks for its own."""
FACTOR_TYPES = (Authenticator.Type.TOTP, Authenticator.Type.WEBAUTHN)
"""What recovery codes are for; alone they are no factor."""


class TwoFactorMiddleware:
    """A middleware for servers where the operator requires two factors (`OPENVIBE_TWO_FACTOR_REQUIRED`), a session
    opened by a password alone leads to the page that adds one, and to nothing else. Tokens of the API are not asked."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        is_asked = bool(settings.TWO_FACTOR_REQUIRED) and settings.SESSION_COOKIE_NAME in request.COOKIES
        if is_asked and not request.path.startswith(("/accounts/", settings.STATIC_URL)) and _lacks_factor(request):
            if wants_json(request) or request.headers.get("HX-Request") or request.path.startswith("/api/"):
                return JsonResponse(TWO_FACTOR_PROBLEM, status=403, content_type=MEDIA_TYPE)
            return redirect("mfa_index")
        return self.get_response(request)


TWO_FACTOR_PROBLEM = problem_body(
    Refused("Add a second factor first: your settings, Two-factor authentication.", code="two_factor_required")
)


def _lacks_factor(request: HttpRequest) -> bool:
    user = request.user
    if not isinstance(user, User) or _is_strong(request, user):
        return False
    if settings.TWO_FACTOR_REQUIRED == "everyone" or user.is_superuser:
        return True
    roles = (Member.Role.OWNER, Member.Role.ADMIN)
    return Member.objects.filter(user=user, role__in=roles, removed_at=None).exists()


def _is_strong(request: HttpRequest, user: User) -> bool:
    """Whether the session was opened by the operator's provider, or by a factor while the person still has one."""
    methods = {record.get("method") for record in get_authentication_records(request, user)}
    if PROVIDER_METHOD in methods:
        return True
    showed_factor = FACTOR_METHOD in methods or request.session.get(FACTOR_SESSION_KEY)
    return bool(showed_factor) and Authenticator.objects.filter(user=user, type__in=FACTOR_TYPES).exists()
