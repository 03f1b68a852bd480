"""Verbs of tokens."""

import secrets
from collections.abc import Collection
from datetime import timedelta

from django.utils import timezone

from openvibe.api.auth import PARTICIPANT_ACCESS, CallerParticipant
from openvibe.api.models import SCOPES, TOKEN_PREFIX, Token
from openvibe.base.problems import Problem, Refused

MAX_TOKEN_DAYS = 366


def issue_token(
    *, participant: CallerParticipant, name: str, scopes: Collection[str], days: int | None = None
) -> tuple[Token, str]:
    """A new token of a member or agent, and its secret, which is not kept: show it once.

    `days` is 1 to 366, None for a token that does not expire. Raises Problem, and Refused when the participant
    has no access any more.
    """
    name = name.strip()
    if not name or len(name) > 80 or not name.isprintable():
        raise Problem("Give the token a name of 1 to 80 characters.", code="bad_name", field="name")
    known_scopes = [scope for scope in SCOPES if scope in scopes]
    if not known_scopes or len(known_scopes) != len(set(scopes)):
        raise Problem(f"Scopes are one or more of {', '.join(SCOPES)}.", code="bad_scope", field="scopes")
    if days is not None and not 1 <= days <= MAX_TOKEN_DAYS:
        raise Problem(f"A token lasts 1 to {MAX_TOKEN_DAYS} days.", code="bad_days", field="days")
    if PARTICIPANT_ACCESS.only()(participant) is None:
        raise Refused(f"@{participant.handle} has no access any more: no token was made.", code="no_access")
    secret = TOKEN_PREFIX + secrets.token_urlsafe(32)
    token = Token.objects.create(
        participant_id=participant.pk,
        name=name,
        token_hash=Token.digest(secret),
        hint=secret[-4:],
        scopes=known_scopes,
        expires_at=timezone.now() + timedelta(days=days) if days else None,
    )
    return token, secret


def revoke_token(*, token: Token) -> Token:
    """The token lets nobody in from the next call on. Revoking twice changes nothing."""
    now = timezone.now()
    if Token.objects.filter(pk=token.pk, revoked_at=None).update(revoked_at=now):
        token.revoked_at = now
    return token
