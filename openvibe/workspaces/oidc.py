"""Sign-in by a provider of the operator's own (OpenID Connect): what is fetched from it, and who it may speak for.

The provider named in `OPENVIBE_OIDC_URL` may stand on a private address, for the operator chose it. What its discovery
document names besides is checked like any address (`base.ssrf_guard`); redirects are not followed."""

from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

import httpx2
import structlog
from allauth.account.adapter import get_adapter as get_account_adapter
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from allauth.socialaccount.models import SocialLogin
from allauth.socialaccount.providers.openid_connect import views
from django.conf import settings
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_safe

from openvibe.base.ssrf_guard import GuardedTransport
from openvibe.base.text import remove_invisible
from openvibe.workspaces.models import User

TOTAL_SECONDS = 10.0
MAX_BYTES = 1_000_000
"""Of one answer: discovery documents and key sets have a few kilobytes."""
log = structlog.get_logger(__name__)


class OidcSession:
    """What allauth asks of a `requests.Session`, with the guarded client."""

    def __enter__(self) -> "OidcSession":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        return None

    def get(self, url: str, headers: dict[str, str] | None = None) -> httpx2.Response:
        return self.request("GET", url, headers=headers)

    def request(self, method: str, url: str, *, auth: Any = None, **values: Any) -> httpx2.Response:
        is_provider = urlsplit(url)[:2] == urlsplit(settings.OIDC_URL)[:2]
        transport = GuardedTransport(
            allow_private=is_provider or settings.ALLOW_PRIVATE_ENDPOINTS,
            total_seconds=TOTAL_SECONDS,
            max_bytes=MAX_BYTES,
        )
        with httpx2.Client(transport=transport, timeout=5, follow_redirects=False, trust_env=False) as client:
            basic = (auth.username, auth.password) if auth else None
            return client.request(method, url, auth=basic, **values)


def _userinfo(login: SocialLogin) -> dict[str, Any]:
    data = login.account.extra_data
    return data.get("userinfo") or data.get("id_token") or {}


def _is_email_verified(login: SocialLogin) -> bool:
    return _userinfo(login).get("email_verified") in (True, "true")


def verified_address(login: SocialLogin) -> str:
    """The address of which the provider says that it is verified, in small letters; empty without one."""
    return str(_userinfo(login).get("email") or "").lower() if _is_email_verified(login) else ""


class SocialAccountAdapter(DefaultSocialAccountAdapter):  # type: ignore[misc]  # allauth has no types
    """An account is linked by its address only where the provider says that the address is verified. A new account
    needs an invitation, as any."""

    def get_requests_session(self) -> OidcSession:
        return OidcSession()

    def is_open_for_signup(self, request: HttpRequest, sociallogin: SocialLogin) -> bool:
        return bool(get_account_adapter(request).is_open_for_signup(request))

    def can_authenticate_by_email(self, login: SocialLogin, email: str) -> bool:
        return _is_email_verified(login)

    def populate_user(self, request: HttpRequest, sociallogin: SocialLogin, data: dict[str, Any]) -> User:
        user = super().populate_user(request, sociallogin, data)
        assert isinstance(user, User)
        user.email = user.email.lower()
        user.name = (
            remove_invisible(str(data.get("name") or "").replace("\x00", ""))[:80].strip() or user.email.split("@")[0]
        )
        return user

    def save_user(self, request: HttpRequest, sociallogin: SocialLogin, form: Any = None) -> User:
        for address in sociallogin.email_addresses:
            address.email, address.verified = address.email.lower(), _is_email_verified(sociallogin)
        user = super().save_user(request, sociallogin, form=form)
        assert isinstance(user, User)
        return user


@require_safe
def login(request: HttpRequest, provider_id: str) -> HttpResponse:
    """Off to the provider. A link, not a form: the content policy lets no form lead away. A link on another site does
    not sign anybody in."""
    if request.headers.get("Sec-Fetch-Site", "same-origin") not in ("same-origin", "none"):
        return redirect("account_login")
    return _answer(views.login, request, provider_id)


@require_safe
def callback(request: HttpRequest, provider_id: str) -> HttpResponse:
    return _answer(views.callback, request, provider_id)


def _answer(view: Any, request: HttpRequest, provider_id: str) -> HttpResponse:
    """Whatever is wrong with what the provider answers is said, and nothing was changed."""
    try:
        response: HttpResponse = view(request, provider_id)
    except (httpx2.HTTPError, ValidationError, ValueError, LookupError, TypeError, AttributeError) as error:
        log.warning("oidc_failed", error=str(error), exc_info=True)
        return render(request, "socialaccount/authentication_error.html", status=502)
    return response
