"""What follows from allauth's signals: a factor that was just added was just shown, so the session counts as opened
with it; an account that a provider gives to who owns its address is theirs alone, and the address confirmed."""

from typing import Any

from allauth.account.models import EmailAddress
from allauth.mfa.signals import authenticator_added
from allauth.socialaccount.models import SocialLogin
from allauth.socialaccount.signals import social_account_added, social_account_updated
from django.dispatch import receiver
from django.http import HttpRequest

from openvibe.workspaces.oidc import verified_address
from openvibe.workspaces.services import revoke_tokens_of

FACTOR_SESSION_KEY = "second_factor"


@receiver(authenticator_added)
def remember_factor(sender: object, request: HttpRequest, **_: Any) -> None:
    request.session[FACTOR_SESSION_KEY] = True


@receiver(social_account_added)
def end_tokens_of_the_unproven(sender: object, request: HttpRequest, sociallogin: SocialLogin, **_: Any) -> None:
    """As allauth ends the password then: whoever made them before had not shown that the address is theirs."""
    user = sociallogin.user
    if request.user != user and not EmailAddress.objects.filter(user=user, email=user.email, verified=True).exists():
        revoke_tokens_of(user, by="the identity provider")


@receiver([social_account_added, social_account_updated])
def confirm_address(sender: object, sociallogin: SocialLogin, **_: Any) -> None:
    """What the provider has verified need not be confirmed by a link: mails go there, and nothing says otherwise. After
    the tokens and the password of whoever had not shown it are ended."""
    user = sociallogin.user
    if not user.email or verified_address(sociallogin) != user.email:
        return
    addresses = EmailAddress.objects.filter(user=user)
    address = addresses.filter(email=user.email).first() or EmailAddress(user=user, email=user.email)
    if not address.verified and address.can_set_verified():
        address.verified = True
        address.primary = address.primary or not addresses.filter(primary=True).exists()
        address.save()
