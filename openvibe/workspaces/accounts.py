"""The sign-in door (allauth): accounts come by invitation unless the operator opens sign-up."""

from typing import Any

from allauth.account.adapter import DefaultAccountAdapter
from django import forms
from django.conf import settings
from django.http import HttpRequest

from openvibe.base.problems import Missing
from openvibe.workspaces.models import User
from openvibe.workspaces.services import access_invitation

INVITATION_SESSION_KEY = "invitation"


class SignupForm(forms.Form):
    """What sign-up asks beside e-mail and password."""

    name = forms.CharField(label="Your name", max_length=80, min_length=1)

    field_order = ("name", "email", "password1")

    def signup(self, request: HttpRequest, user: User) -> None:
        user.name = self.cleaned_data["name"].strip()
        user.save(update_fields=["name"])


class AccountAdapter(DefaultAccountAdapter):  # type: ignore[misc]
    """Sign-up is open to whoever holds a valid invitation link."""

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        if settings.OPEN_SIGNUP:
            return True
        token = request.session.get(INVITATION_SESSION_KEY, "")
        try:
            access_invitation(token)
        except Missing:
            return False
        return True

    def get_signup_redirect_url(self, request: HttpRequest) -> str:
        token = request.session.get(INVITATION_SESSION_KEY, "")
        return f"/join/{token}/" if token else "/"

    def get_login_redirect_url(self, request: HttpRequest) -> str:
        token = request.session.get(INVITATION_SESSION_KEY, "")
        return f"/join/{token}/" if token else str(settings.LOGIN_REDIRECT_URL)

    def clean_email(self, email: str) -> str:
        cleaned: Any = super().clean_email(email)
        return str(cleaned).lower()
