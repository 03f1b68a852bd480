"""Changing the address of one's account: a link goes to the new one, and nothing is stored until its person opens it.

A row for an address that nobody has shown to be theirs would be found by sign-in, sign-up and the provider's answer:
it would keep its owner out, or let somebody else's guesses at her password pass for sign-ins."""

from allauth.account.adapter import get_adapter
from allauth.account.forms import AddEmailForm
from allauth.account.internal.flows.manage_email import emit_email_changed
from allauth.account.internal.flows.reauthentication import did_recently_reauthenticate, suspend_request
from allauth.account.models import EmailAddress
from allauth.mfa.models import Authenticator
from django import forms
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core import signing
from django.db import IntegrityError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from openvibe.base.problems import Conflict
from openvibe.workspaces import services
from openvibe.workspaces.models import User

LINK_SECONDS = 3 * 86_400
_SALT = "openvibe.new_address"
_AUDIT_NAME = "a change of the account's address"


class NewAddressForm(AddEmailForm):  # type: ignore[misc]  # allauth has no types
    """A form that does the same for an address that is another account's: only its link changes nothing."""

    @property
    def can_send(self) -> bool:
        return bool(settings.EMAIL_CONFIGURED)

    def clean_email(self) -> str:
        if not self.can_send:
            raise forms.ValidationError("This server sends no e-mail, so nobody could show whose address it is.")
        return str(super().clean_email())

    def save(self, request: HttpRequest) -> EmailAddress:
        """The address, which is not stored."""
        user, email, adapter = self.user, self.cleaned_data["email"], get_adapter()
        key = signing.dumps([user.pk, user.email, email], salt=_SALT)
        link = request.build_absolute_uri(reverse("new_address", args=[key]))
        context = {"link": link, "user": user, "days": LINK_SECONDS // 86_400}
        adapter.send_mail("account/email/new_address", email, context)
        template = "account/messages/email_confirmation_sent.txt"
        adapter.add_message(request, messages.INFO, template, {"email": email})
        return EmailAddress(user=user, email=email)


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def new_address(request: HttpRequest, key: str) -> HttpResponse:
    """Asks; a POST changes the address. Good for the account that asked for the link, as long as its address is what it
    was then."""
    user = request.user
    assert isinstance(user, User)
    email = _read_link(key, user)
    if email == user.email:
        return redirect("account_email")
    problem = "" if email else "This link is used up or too old, or of another account."
    if email and request.method == "POST":
        if _ends_factors(user) and not did_recently_reauthenticate(request):
            confirmation: HttpResponse = suspend_request(request, reverse("account_reauthenticate"))
            return confirmation
        if _change_address(request, user, email):
            return redirect("account_email")
        problem = "This address belongs to another account."
    context = {"email": email, "problem": problem, "is_first": not services.has_proven_address(user)}
    return render(request, "account/new_address.html", context)


def _ends_factors(user: User) -> bool:
    """Whether a change takes second factors away: those of an account whose address nobody has shown. A session alone
    must not be enough for that."""
    return not services.has_proven_address(user) and Authenticator.objects.filter(user=user).exists()


def _read_link(key: str, user: User) -> str:
    """The new address, "" where the link is not, or no longer, the user's."""
    try:
        pk, before, email = signing.loads(key, salt=_SALT, max_age=LINK_SECONDS)
    except signing.BadSignature:
        return ""
    return str(email) if pk == user.pk and user.email in (before, email) else ""


def _change_address(request: HttpRequest, user: User, email: str) -> bool:
    """False where another account has it by now. Addresses that were never confirmed go."""
    before = EmailAddress.objects.filter(user=user, email=user.email).first()
    session = request.session.session_key or ""
    try:
        services.prove_address(user=user, email=email, by=_AUDIT_NAME, keep_session=session, keep_password=True)
    except (Conflict, IntegrityError):
        return False
    emit_email_changed(request, before, EmailAddress.objects.get(user=user, email=email))
    return True
