"""`Authorization: Bearer ovk_…`: a token that still holds, of a participant that still belongs."""

from __future__ import annotations

from datetime import timedelta
from typing import cast

from django.conf import settings
from django.utils import timezone
from django.utils.module_loading import import_string
from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from openvibe.api.callers import Caller, Speaker, Standing
from openvibe.api.models import PREFIX, Token

CHALLENGE = 'Bearer realm="OpenVibe"'
USED_EVERY = timedelta(minutes=1)
REFUSAL = "This token is not valid: it is unknown, expired, revoked, or its owner no longer has access."


def standing_of(participant: Speaker) -> Standing | None:
    """What a participant may see now; None once it may see nothing (`settings.PARTICIPANT_ACCESS`)."""
    return cast("Standing | None", import_string(settings.PARTICIPANT_ACCESS)(participant))


def caller_with(secret: str) -> Caller | None:
    """The caller whose token this is, asked anew on every call; None when it does not let anybody in."""
    if not secret.startswith(PREFIX) or not secret.isascii():
        return None
    token = Token.objects.select_related("participant__workspace").filter(token_hash=Token.digest(secret)).first()
    if token is None or not token.is_valid:
        return None
    participant = cast(Speaker, token.participant)
    access = standing_of(participant)
    if access is None:
        return None
    _note_use(token)
    return Caller(participant=participant, access=access, scopes=frozenset(token.scopes), token=token)


def _note_use(token: Token) -> None:
    now = timezone.now()
    if token.last_used_at is None or now - token.last_used_at >= USED_EVERY:
        Token.objects.filter(pk=token.pk).update(last_used_at=now)


class BearerAuthentication(BaseAuthentication):
    """An `Authorization` header decides alone: a wrong one is never rescued by a browser session."""

    def authenticate(self, request: Request) -> tuple[Caller, Token | None] | None:
        header = request.headers.get("Authorization")
        if header is None:
            return None
        scheme, _, secret = header.strip().partition(" ")
        caller = caller_with(secret.strip()) if scheme.lower() == "bearer" else None
        if caller is None:
            raise AuthenticationFailed(REFUSAL)
        return caller, caller.token

    def authenticate_header(self, request: Request) -> str:
        return CHALLENGE
