"""What allauth asks of us: who may sign up, who may try again, where a sign-in leads, and that secrets
of two-factor authentication are encrypted as models' keys are."""

from typing import Any

from allauth.account.adapter import DefaultAccountAdapter
from allauth.account.models import EmailAddress
from allauth.core import context as current
from allauth.core import ratelimit
from allauth.core.internal.ratelimit import get_ip
from allauth.mfa.adapter import DefaultMFAAdapter
from django import forms
from django.conf import settings
from django.contrib import messages
from django.contrib.sites.shortcuts import get_current_site
from django.core.exceptions import ImproperlyConfigured
from django.http import HttpRequest, HttpResponse

from openvibe.base.problems import Conflict, Missing, Problem
from openvibe.base.tasks import queue_mail
from openvibe.engines.database.fields import decrypt, encrypt
from openvibe.workspaces import services
from openvibe.workspaces.models import User
from openvibe.workspaces.services.sessions import browser_key, is_known_browser, remember_browser

INVITATION_SESSION_KEY = "invitation"
MAX_EMAIL_CHARACTERS = 254
"""RFC 5321 has no room for more between `<` and `>`."""


class NameForm(forms.Form):
    """A person's name, as accounts keep it."""

    name = forms.CharField(label="Your name", max_length=80, min_length=1)

    def clean_name(self) -> str:
        try:
            return services.check_name(self.cleaned_data["name"])
        except Problem as problem:
            raise forms.ValidationError(problem.message) from None


class SignupNameForm(NameForm):
    """The name, which sign-up asks for beside e-mail and password."""

    field_order = ("name", "email", "password1")

    def signup(self, request: HttpRequest, user: User) -> None:
        user.name = self.cleaned_data["name"]
        user.save(update_fields=["name"])


class AccountAdapter(DefaultAccountAdapter):  # type: ignore[misc]  # allauth has no types
    """Sign-up is open to whoever holds a valid invitation link."""

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        if settings.OPEN_SIGNUP:
            return True
        try:
            services.access_invitation(request.session.get(INVITATION_SESSION_KEY, ""))
        except Missing:
            return False
        return True

    def get_signup_redirect_url(self, request: HttpRequest) -> str:
        return self.get_login_redirect_url(request)

    def get_login_redirect_url(self, request: HttpRequest) -> str:
        token = request.session.get(INVITATION_SESSION_KEY, "")
        return f"/join/{token}/" if token else str(settings.LOGIN_REDIRECT_URL)

    def clean_email(self, email: str) -> str:
        """Returns the address as it is kept. The field's own limit is longer than what a column takes."""
        lower_email = str(super().clean_email(email)).lower()
        if len(lower_email) > MAX_EMAIL_CHARACTERS:
            raise forms.ValidationError(f"An address has at most {MAX_EMAIL_CHARACTERS} characters.")
        return lower_email

    def confirm_email(self, request: HttpRequest, email_address: EmailAddress) -> bool:
        """Confirms by a link that was mailed there. Whoever is signed in to the account keeps what she has; anybody
        else who reads the mail shows that the account is theirs, and what was there before ends.

        A second address of an account confirms only who is signed in: it would make an account theirs that is not."""
        user = email_address.user
        if request.user == user or services.has_proven_address(user):
            if request.user == user:
                return bool(super().confirm_email(request, email_address))
        elif email_address.email == user.email:
            try:
                services.prove_address(user=user, by="whoever confirmed its address")
            except Conflict:
                return False
            self.add_message(request, messages.INFO, "account/messages/address_proven.txt", {"email": user.email})
            return True
        self.add_message(request, messages.ERROR, "account/messages/confirm_signed_in.txt")
        return False

    def send_mail(self, template_prefix: str, email: str, context: dict[str, Any]) -> None:
        """Sends the mail by a job: a mail server that is slow or away fails no page, and tells nobody which accounts
        there are."""
        values = {
            "request": current.request,
            "email": email,
            "current_site": get_current_site(current.request),
            **context,
        }
        queue_mail(self.render_mail(template_prefix, email, values))

    def get_client_ip(self, request: HttpRequest) -> str:
        """A request that names fewer addresses than there are trusted proxies came past one: its own sender counts."""
        try:
            return str(super().get_client_ip(request))
        except ImproperlyConfigured:
            return str(request.META["REMOTE_ADDR"])

    def pre_authenticate(self, request: HttpRequest, **credentials: Any) -> None:
        """Wrong guesses are counted by address and account together, so that nobody locks another out. Many addresses
        guessing at one account wait, too; a browser that has signed in to it before does not wait for either."""
        email = str(credentials.get("email", "")).lower()
        if is_known_browser(request, email):
            is_allowed = ratelimit.consume(request, action="login_known_browser", key=browser_key(request))
        else:
            super().pre_authenticate(request, **credentials)
            is_allowed = ratelimit.consume(request, action="login_account", key=email)
        if not is_allowed:
            raise self.validation_error("too_many_login_attempts")

    def _get_login_attempts_cache_key(self, request: HttpRequest, **credentials: Any) -> str:
        return f"{super()._get_login_attempts_cache_key(request, **credentials)}:{get_ip(request)}"

    def _delete_login_attempts_cached_email(self, request: HttpRequest, **credentials: Any) -> None:
        super()._delete_login_attempts_cached_email(request, **credentials)
        ratelimit.clear(request, action="login_account", key=str(credentials.get("email", "")).lower())

    def post_login(self, request: HttpRequest, user: User, **values: Any) -> HttpResponse:
        response: HttpResponse = super().post_login(request, user, **values)
        remember_browser(request, response, user)
        return response

    def reauthenticate(self, user: User, password: str) -> bool:
        """Checks the password by the account's address, also where allauth keeps none of its own."""
        return bool(self.authenticate(self.request, email=user.email, password=password) == user)


class TwoFactorAdapter(DefaultMFAAdapter):  # type: ignore[misc]  # allauth has no types
    def encrypt(self, text: str) -> str:
        return encrypt(text)

    def decrypt(self, encrypted_text: str) -> str:
        return decrypt(encrypted_text)
