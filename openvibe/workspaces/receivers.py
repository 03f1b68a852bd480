"""What follows from allauth's signals: a factor that was just added was just shown, so the session counts as opened
with it; an address that the provider verified is the person's who links it."""

from allauth.mfa.models import Authenticator
from allauth.mfa.signals import authenticator_added
from allauth.socialaccount.models import SocialLogin
from allauth.socialaccount.signals import social_account_added
from django.contrib.sessions.models import Session
from django.core.exceptions import PermissionDenied
from django.dispatch import receiver
from django.http import HttpRequest

from openvibe.base.problems import Conflict
from openvibe.workspaces.services import confirm_own_address

FACTOR_SESSION_KEY = "second_factor"


@receiver(authenticator_added)
def remember_factor(sender: object, request: HttpRequest, authenticator: Authenticator, **_: object) -> None:
    """Keeps with the session that its person has a factor. One that was added in a session that has ended meanwhile
    goes: its account may be somebody else's by now."""
    if not Session.objects.filter(session_key=request.session.session_key).exists():
        authenticator.delete()
        raise PermissionDenied
    request.session[FACTOR_SESSION_KEY] = True


@receiver(social_account_added)
def confirm_linked_address(sender: object, request: HttpRequest, sociallogin: SocialLogin, **_: object) -> None:
    """Confirms the address of whoever is signed in and links the provider: she keeps what she has. Anybody else came by
    `pre_social_login`."""
    from openvibe.workspaces.oidc import proven_email  # with the provider's client: no command needs it

    user = sociallogin.user
    if request.user == user and proven_email(sociallogin) == user.email:
        try:
            confirm_own_address(user)
        except Conflict:  # it is linked all the same
            return
