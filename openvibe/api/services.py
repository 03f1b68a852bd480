"""Verbs of tokens."""

import secrets
from collections.abc import Collection
from datetime import timedelta

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from openvibe.api.auth import LAST_USED_INTERVAL, PARTICIPANT_ACCESS, CallerParticipant
from openvibe.api.models import SCOPES, TOKEN_PREFIX, Token
from openvibe.base.audit import Actor, AuditAction, record_audit
from openvibe.base.problems import Problem, Refused
from openvibe.engines.text.cleaning import pluralize

MAX_TOKEN_DAYS = 366


@transaction.atomic
def issue_token(
    *,
    participant: CallerParticipant,
    name: str,
    scopes: Collection[str],
    days: int | None = None,
    by: Actor | str | None = None,
    made_by_id: int | None = None,
) -> tuple[Token, str]:
    """A new token of a member or agent, and its secret, which is not kept: show it once.

    `days` is 1 to 366, None for a token that does not expire; `by` is who made it, None the command line; `made_by_id`
    is the participant who holds the secret, None whoever runs the server.
    Raises Problem, and Refused when the participant has no access any more.
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
        made_by_id=made_by_id,
        name=name,
        token_hash=Token.digest(secret),
        hint=secret[-4:],
        scopes=known_scopes,
        expires_at=timezone.now() + timedelta(days=days) if days else None,
    )
    after = f"made, for {', '.join(known_scopes)}" + (f", for {pluralize(days, 'day')}" if days else "")
    _audit_token(token, participant, by, after)
    return token, secret


def note_tokens_used(token_ids: Collection[int], *, at_once: Collection[int] = ()) -> None:
    """Notes that programs with these tokens are there, once a minute whichever process says so, those of `at_once` in
    any case. One write."""
    now = timezone.now()
    is_due = Q(last_used_at=None) | Q(last_used_at__lte=now - LAST_USED_INTERVAL) | Q(pk__in=at_once)
    Token.objects.filter(is_due, pk__in=token_ids).update(last_used_at=now)


def _audit_token(token: Token, participant: CallerParticipant, by: Actor | str | None, after: str) -> None:
    subject = f"“{token.name}” …{token.hint} of @{participant.handle}"
    record_audit(AuditAction.TOKEN, workspace_id=participant.workspace_id, by=by, subject=subject, after=after)


@transaction.atomic
def revoke_token(*, token: Token, by: Actor | str | None = None) -> Token:
    """The token lets nobody in from the next call on. Revoking twice changes nothing."""
    now = timezone.now()
    if Token.objects.filter(pk=token.pk, revoked_at=None).update(revoked_at=now):
        token.revoked_at = now
        _audit_token(token, token.participant, by, "revoked")
    return token
