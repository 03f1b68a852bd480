"""Signing up. Where e-mail is set up, an account is made once its address was shown to be the person's, and whoever
asks is told the same for every address: that one has an account already, only its mailbox learns."""

from allauth.account.adapter import get_adapter
from allauth.account.forms import SignupForm as AllauthSignupForm
from allauth.account.internal.flows.signup import complete_signup
from allauth.account.models import EmailAddress
from allauth.core import ratelimit
from django import forms
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.hashers import make_password
from django.core import signing
from django.db import IntegrityError, transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from openvibe.workspaces.models import User
from openvibe.workspaces.services import check_name, is_address_taken
from openvibe.workspaces.web.adapters import INVITATION_SESSION_KEY, NameForm

LINK_SECONDS = 3 * 86_400
PENDING_SESSION_KEY = "pending_signup"
"""The key of name, address and the hash of the password, in the session of the browser that was signed up with."""
_SALT = "openvibe.signup"
_TAKEN = "This address has an account already. Sign in with it."


class SignupForm(AllauthSignupForm):  # type: ignore[misc]  # allauth has no types
    """Mails a link where e-mail is set up; makes the account at once where it is not."""

    def validate_unique_email(self, value: str) -> str:
        return value if settings.EMAIL_CONFIGURED else str(super().validate_unique_email(value))

    def try_save(self, request: HttpRequest) -> tuple[User | None, HttpResponse | None]:
        if settings.EMAIL_CONFIGURED:
            return None, _mail_link(request, self.cleaned_data)
        try:
            with transaction.atomic():
                saved: tuple[User | None, HttpResponse | None] = super().try_save(request)
                return saved
        except IntegrityError:  # somebody was faster with the same address
            messages.error(request, _TAKEN)
            return None, redirect("account_signup")


class FinishForm(NameForm):
    """A form of name and password, asked where the link is opened in another browser than the one that was signed up
    with."""

    password1 = forms.CharField(label="Password", widget=forms.PasswordInput, strip=False)

    def clean_password1(self) -> str:
        return str(get_adapter().clean_password(self.cleaned_data["password1"]))


def _mail_link(request: HttpRequest, values: dict[str, str]) -> HttpResponse:
    """Mails a link; the same answer, at the same cost, for an address that has an account and for one that has none."""
    email = values["email"]
    password = make_password(values["password1"])
    request.session[PENDING_SESSION_KEY] = {"name": values["name"], "email": email, "password": password}
    invitation = request.session.get(INVITATION_SESSION_KEY, "")
    link = reverse("finish_signup", args=[signing.dumps([email, invitation], salt=_SALT)])
    context = {
        "link": request.build_absolute_uri(link),
        "sign_in_url": request.build_absolute_uri(_join_path(invitation) or reverse("account_login")),
        "password_reset_url": request.build_absolute_uri(reverse("account_reset_password")),
        "days": LINK_SECONDS // 86_400,
    }
    template = "account_already_exists" if is_address_taken(email) else "finish_signup"
    if ratelimit.consume(request, action="signup_mail", key=email):
        get_adapter().send_mail(f"account/email/{template}", email, context)
    return redirect("account_email_verification_sent")


def _join_path(invitation: str) -> str:
    return reverse("join", args=[invitation]) if invitation else ""


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def finish_signup(request: HttpRequest, key: str) -> HttpResponse:
    """Answers the link in the mail; a POST makes the account, whose address is shown to be the person's."""
    try:
        email, invitation = signing.loads(key, salt=_SALT, max_age=LINK_SECONDS)
    except signing.BadSignature:
        return render(request, "account/finish_signup.html", status=404)
    if request.user.is_authenticated or is_address_taken(email):
        messages.info(request, _TAKEN)
        return redirect(_join_path(invitation) or "home")
    if invitation:
        request.session[INVITATION_SESSION_KEY] = invitation
    if not get_adapter(request).is_open_for_signup(request):
        return render(request, "account/signup_closed.html")
    pending = request.session.get(PENDING_SESSION_KEY) or {}
    is_same_browser = pending.get("email") == email
    form = None if is_same_browser else FinishForm(request.POST or None)
    if request.method == "POST" and (form is None or form.is_valid()):
        values = pending if form is None else form.cleaned_data
        password = pending["password"] if form is None else make_password(values["password1"])
        return _make_account(request, email, values["name"], password)
    return render(request, "account/finish_signup.html", {"email": email, "form": form, "name": pending.get("name")})


def _make_account(request: HttpRequest, email: str, name: str, password: str) -> HttpResponse:
    try:
        with transaction.atomic():
            user = User.objects.create(email=email, name=check_name(name), password=password)
            EmailAddress.objects.create(user=user, email=email, verified=True, primary=True)
    except IntegrityError:  # the link was opened twice at once
        messages.info(request, _TAKEN)
        return redirect("account_login")
    request.session.pop(PENDING_SESSION_KEY, None)
    target = get_adapter(request).get_signup_redirect_url(request)
    response: HttpResponse = complete_signup(request, user=user, redirect_url=target)
    return response
