"""Sign-in by a provider of the operator's own (OpenID Connect): what is fetched from it, and who it may speak for.

The provider named in `OPENVIBE_OIDC_URL` may stand on a private address, for the operator chose it. What its discovery
document names besides is checked like any address (`openvibe.engines.network.ssrf_guard`);
redirects are not followed."""

from contextlib import suppress
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

import httpx2
import structlog
from allauth.account.adapter import get_adapter as get_account_adapter
from allauth.account.models import EmailAddress
from allauth.core.exceptions import ImmediateHttpResponse
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from allauth.socialaccount.models import SocialApp, SocialLogin
from allauth.socialaccount.providers.base import AuthProcess
from allauth.socialaccount.providers.oauth2.views import OAuth2CallbackView, OAuth2LoginView
from allauth.socialaccount.providers.openid_connect import views
from django.conf import settings
from django.core.exceptions import ValidationError
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_safe

from openvibe.base.problems import Conflict, Problem
from openvibe.engines.network.ssrf_guard import GuardedTransport
from openvibe.engines.text.cleaning import remove_invisible
from openvibe.workspaces import services
from openvibe.workspaces.models import User

TOTAL_SECONDS = 10.0
MAX_BYTES = 1_000_000
"""The most bytes of one answer: discovery documents and key sets have a few kilobytes."""
MAX_SUBJECT, MAX_CLAIM, MAX_EMAIL = 191, 200, 254
"""Characters of claims that are kept. A longer subject or address is nobody's: cut, it would be somebody else's."""
TEXT_CLAIMS = ("name", "preferred_username")
"""Claims that are kept beside subject and address; what else a provider tells is not kept."""
_MISTAKES = (
    httpx2.HTTPError,
    ValidationError,
    Problem,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    RecursionError,
    OverflowError,
)
"""What an answer of a provider may come to that is not as it should be."""
log = structlog.get_logger(__name__)


class OidcSession:
    """Session with what allauth asks of a `requests.Session`, over the guarded client."""

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


def clean_claims(claims: object) -> dict[str, Any]:
    """Returns the claims that are read and kept, each of its own type: others may be anything, and no column takes a
    NUL or half a character. Raises ValueError for claims of nobody: without a subject that can be kept."""
    if not isinstance(claims, dict):
        raise ValueError("The claims are no object.")
    subject = claims.get("sub")
    subject = str(subject) if isinstance(subject, int) and not isinstance(subject, bool) else subject
    if not isinstance(subject, str) or not 1 <= len(subject) <= MAX_SUBJECT or _clean(subject) != subject:
        raise ValueError(f"The subject is no text of 1 to {MAX_SUBJECT} characters.")
    texts = {name: _clean(claims[name])[:MAX_CLAIM] for name in TEXT_CLAIMS if isinstance(claims.get(name), str)}
    email = claims.get("email")
    if isinstance(email, str) and len(email.lower()) <= MAX_EMAIL and _clean(email) == email:
        texts["email"] = email.lower()
    return {"sub": subject, "email_verified": claims.get("email_verified") is True, **texts}


def _clean(text: str) -> str:
    return text.replace("\x00", "").encode("utf-8", "ignore").decode()


class _ClaimsAdapter(views.OpenIDConnectOAuth2Adapter):  # type: ignore[misc]  # allauth has no types
    """Reads the claims as `clean_claims` leaves them. Those of the ID token and of the user are of one subject."""

    def complete_login(self, request: HttpRequest, app: Any, token: Any, **values: Any) -> SocialLogin:
        login: SocialLogin = super().complete_login(request, app, token, **values)
        if len({claims["sub"] for claims in login.account.extra_data.values()}) != 1:
            raise ValueError("The ID token and the user's claims are of two subjects.")
        return login

    def _fetch_user_info(self, access_token: str) -> dict[str, Any]:
        return clean_claims(super()._fetch_user_info(access_token))

    def _decode_id_token(self, app: Any, id_token: str) -> dict[str, Any]:
        return clean_claims(super()._decode_id_token(app, id_token))


def proven_email(login: SocialLogin) -> str:
    """The address that the provider says it verified: JSON's true alone, as OpenID Connect has it. Else ""."""
    data = login.account.extra_data
    claims = data.get("userinfo") or data.get("id_token") or {}
    return str(claims.get("email", "")) if claims.get("email_verified") is True else ""


class SocialAccountAdapter(DefaultSocialAccountAdapter):  # type: ignore[misc]  # allauth has no types
    """An account is linked by its address only where the provider says that the address is verified. A new account
    needs an invitation, as any."""

    def get_requests_session(self) -> OidcSession:
        return OidcSession()

    def is_open_for_signup(self, request: HttpRequest, sociallogin: SocialLogin) -> bool:
        return bool(get_account_adapter(request).is_open_for_signup(request))

    def authenticate_by_email(self, sociallogin: SocialLogin) -> tuple[User, str] | None:
        """Returns the user whose address it is, or who has shown it beside her own. A row that somebody only claims is
        nobody's."""
        email = proven_email(sociallogin)
        address = EmailAddress.objects.filter(email=email, verified=True).select_related("user").first()
        user = address.user if address else User.objects.filter(email=email).first()
        return (user, email) if email and user else None

    def pre_social_login(self, request: HttpRequest, sociallogin: SocialLogin) -> None:
        """The provider shows whose the address is before anybody is signed in by it. What somebody else has shown to be
        theirs stays so; who has an account here comes in all the same, and nothing of it ends."""
        user, email = sociallogin.user, proven_email(sociallogin)
        is_linking = sociallogin.state.get("process") == AuthProcess.CONNECT
        if is_linking or not email or not sociallogin.is_existing or email != user.email:
            return
        if not services.has_proven_address(user):
            with suppress(Conflict):
                services.prove_address(
                    user=user, by="the identity provider", keep_social_account=sociallogin.account.pk
                )

    def is_auto_signup_allowed(self, request: HttpRequest, sociallogin: SocialLogin) -> bool:
        """Signs up everybody whose provider tells an address that is free, without a form: one that asked for an
        address would tell whose addresses have accounts."""
        email = next((address.email.lower() for address in sociallogin.email_addresses), "")
        if not email or User.objects.filter(email=email).exists():
            raise ImmediateHttpResponse(render(request, "socialaccount/address_unusable.html"))
        return True

    def populate_user(self, request: HttpRequest, sociallogin: SocialLogin, data: dict[str, Any]) -> User:
        user = super().populate_user(request, sociallogin, data)
        assert isinstance(user, User)
        user.email = user.email.lower()
        user.name = remove_invisible(str(data.get("name") or ""))[:80].strip() or user.email.split("@")[0][:80]
        return user

    def save_user(self, request: HttpRequest, sociallogin: SocialLogin, form: Any = None) -> User:
        for address in sociallogin.email_addresses:
            address.email, address.verified = address.email.lower(), proven_email(sociallogin) == address.email.lower()
        user = super().save_user(request, sociallogin, form=form)
        assert isinstance(user, User)
        return user


@require_safe
def login(request: HttpRequest, provider_id: str) -> HttpResponse:
    """The way off to the provider. A link, not a form: the content policy lets no form lead away. A link on another
    site does not sign anybody in."""
    if request.headers.get("Sec-Fetch-Site", "same-origin") not in ("same-origin", "none"):
        return redirect("account_login")
    return _answer(OAuth2LoginView, request, provider_id)


@require_safe
def callback(request: HttpRequest, provider_id: str) -> HttpResponse:
    return _answer(OAuth2CallbackView, request, provider_id)


def _answer(view: Any, request: HttpRequest, provider_id: str) -> HttpResponse:
    """Whatever is wrong with what the provider answers is said, and nothing was changed."""
    try:
        response: HttpResponse = view.adapter_view(_ClaimsAdapter(request, provider_id))(request)
    except SocialApp.DoesNotExist:
        raise Http404 from None
    except _MISTAKES as error:
        log.warning("oidc_failed", error=str(error), exc_info=True)
        return render(request, "socialaccount/authentication_error.html", status=502)
    return response
