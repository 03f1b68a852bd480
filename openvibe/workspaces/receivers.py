"""A factor that was just added was just shown: the session counts as opened with it."""

from typing import Any

from allauth.mfa.signals import authenticator_added
from django.dispatch import receiver
from django.http import HttpRequest

FACTOR_SESSION_KEY = "second_factor"


@receiver(authenticator_added)
def remember_factor(sender: object, request: HttpRequest, **_: Any) -> None:
    request.session[FACTOR_SESSION_KEY] = True
