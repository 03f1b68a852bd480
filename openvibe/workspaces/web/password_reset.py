"""Resetting a password by mail: who gets the link, and what ends when it was used."""

from allauth.account.forms import ResetPasswordForm, ResetPasswordKeyForm
from allauth.account.models import EmailAddress
from django.db import transaction

from openvibe.workspaces import services
from openvibe.workspaces.models import User


class RequestLinkForm(ResetPasswordForm):  # type: ignore[misc]  # allauth has no types
    """Links go to the address of an account, and to others that its person has shown to be theirs; not to one that
    somebody only added."""

    def clean_email(self) -> str:
        email = str(super().clean_email())
        found_users: list[User] = self.users
        self.users: list[User] = [user for user in found_users if user.email == email or _has_shown(user, email)]
        return email


def _has_shown(user: User, email: str) -> bool:
    rows = EmailAddress.objects.filter(user=user, email=email, verified=True)
    return services.has_proven_address(user) and bool(rows.exists())


class NewPasswordForm(ResetPasswordKeyForm):  # type: ignore[misc]  # allauth has no types
    """Sets the new password and ends what a reset ends, both or neither."""

    def save(self) -> None:
        with transaction.atomic():
            super().save()
            services.complete_password_reset(self.user)
