"""How often a person may do what costs the server much: `ACCOUNT_RATE_LIMITS` of the settings, one count for all
processes."""

from allauth.core import ratelimit
from django.http import HttpRequest

from openvibe.base.problems import Refused


def check_rate(request: HttpRequest, action: str, message: str) -> None:
    """Counts the action once more. Raises Refused with the sentence where the limit is reached."""
    if not ratelimit.consume(request, action=action):
        raise Refused(message)
