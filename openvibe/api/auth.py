"""The caller of the API: bearer tokens, the `Caller` they stand for, and the scope each method takes.

`Authorization: Bearer ovk_…` is a token that still holds, of a participant that still belongs."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Protocol, cast

from django.db.models import QuerySet
from django.utils import timezone
from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.permissions import SAFE_METHODS, BasePermission
from rest_framework.request import Request

from openvibe.api.models import SCOPES, TOKEN_PREFIX, Token
from openvibe.base.problems import Problem, Refused
from openvibe.engines.database.compiled_queries import CompiledQuery
from openvibe.engines.registers import Register

LAST_USED_INTERVAL = timedelta(minutes=1)
CONNECTED_SECONDS = 180
"""A program whose token was not heard for so long is not connected: one that listens is noted once a minute."""
INVALID_TOKEN = "This token is not valid: it is unknown, expired, revoked, or its owner no longer has access."


class CallerWorkspace(Protocol):
    """What the API needs of a workspace (a row of an upper floor)."""

    slug: str


class CallerParticipant(Protocol):
    """What the API needs of a participant (a row of an upper floor)."""

    pk: int
    handle: str
    workspace_id: int

    @property
    def workspace(self) -> CallerWorkspace: ...


class CallerAccess(Protocol):
    """What the API itself needs of an access; the doors above know it as `workspaces.access.Access`."""

    @property
    def workspace_id(self) -> int: ...
    @property
    def participant_id(self) -> int: ...


PARTICIPANT_ACCESS: Register[Callable[[Any], CallerAccess | None]] = Register("openvibe.api.auth.PARTICIPANT_ACCESS")
"""What a token's participant (the row that `Token.participant` refers to) may see now; None for nothing any more."""

PROGRAM_HEARD: Register[Callable[[Any], None]] = Register("openvibe.api.auth.PROGRAM_HEARD")
"""What is to be done when a participant's token is heard that was not, for CONNECTED_SECONDS or ever."""


@dataclass(frozen=True)
class Caller:
    """The `request.user` of an API call, however it came in. `token` is None for a browser session."""

    participant: CallerParticipant
    access: CallerAccess
    scopes: frozenset[str] = frozenset(SCOPES)
    token: Token | None = None

    is_authenticated = True

    @property
    def subject(self) -> str:
        """The subject whose calls are counted together: one token, or all browser pages of one member."""
        return f"token:{self.token.pk}" if self.token else f"session:{self.participant.pk}"


@CompiledQuery
def _tokens_by_hash(token_hash: int) -> QuerySet[Token]:
    """Tokens with the participant, and who stands behind it: `PARTICIPANT_ACCESS` then asks nothing more for a
    member."""
    people = ("participant__workspace", "participant__member__user")
    return Token.objects.select_related(*people).filter(token_hash=token_hash)


def authenticate_token(secret: str) -> Caller | None:
    """The caller whose token this is, asked anew on every call; None when it does not let anybody in."""
    if not secret.startswith(TOKEN_PREFIX) or not secret.isascii():
        return None
    token: Token | None = next(iter(_tokens_by_hash.objects(Token.digest(secret))), None)
    if token is None or not token.is_valid:
        return None
    participant = cast(CallerParticipant, token.participant)
    access = PARTICIPANT_ACCESS.only()(participant)
    if access is None:
        return None
    now = timezone.now()
    if token.last_used_at is None or now - token.last_used_at >= LAST_USED_INTERVAL:
        Token.objects.filter(pk=token.pk).update(last_used_at=now)
        if token.last_used_at is None or now - token.last_used_at >= timedelta(seconds=CONNECTED_SECONDS):
            PROGRAM_HEARD.only()(participant)
    return Caller(participant=participant, access=access, scopes=frozenset(token.scopes), token=token)


class BearerAuthentication(BaseAuthentication):
    """An `Authorization` header decides alone: a wrong one is never rescued by a browser session."""

    def authenticate(self, request: Request) -> tuple[Caller, Token | None] | None:
        header = request.headers.get("Authorization")
        if header is None:
            return None
        scheme, _, secret = header.strip().partition(" ")
        caller = authenticate_token(secret.strip()) if scheme.lower() == "bearer" else None
        if caller is None:
            raise AuthenticationFailed(INVALID_TOKEN)
        own = caller.participant.workspace.slug
        if any(slug and slug != own for slug in requested_workspaces(request)):
            message = f"This token is of the workspace {own}. Name that one or none, or send a token of the other."
            raise Problem(message, code="wrong_workspace", field="workspace")
        return caller, caller.token

    def authenticate_header(self, request: Request) -> str:
        return 'Bearer realm="OpenVibe"'


def requested_workspaces(request: Request) -> tuple[str, str]:
    """The slugs in `X-Workspace` and `?workspace=`; empty where it says none."""
    return request.headers.get("X-Workspace", ""), request.query_params.get("workspace", "")


def caller_or_none(request: Request) -> Caller | None:
    """The caller; None for a request that nobody signed."""
    user: object = request.user
    return user if isinstance(user, Caller) else None


def caller_of(request: Request) -> Caller:
    """The caller of an authenticated request."""
    return cast(Caller, request.user)


def required_scope(view: object, method: str) -> str:
    """The scope that a call of the view takes: `view.scopes[method]`, else `read` for reading, `write` for the rest."""
    scopes: dict[str, str] = getattr(view, "scopes", {})
    return scopes.get("GET" if method == "HEAD" else method, "read" if method in SAFE_METHODS else "write")


def check_scope(caller: Caller, scope: str) -> None:
    """Raises Refused where the caller's token does not have the scope."""
    if scope not in caller.scopes:
        message = f"This token lacks the scope {scope!r}. Make one that has it, or use another call."
        raise Refused(message, code="missing_scope")


class HasScope(BasePermission):
    """A permission for those who are signed in, with `view.scopes[method]`, else `read` for reading and `write` for
    everything else. Answers before anything is looked up."""

    def has_permission(self, request: Request, view: object) -> bool:
        caller = caller_or_none(request)
        if caller is None:
            return False
        check_scope(caller, required_scope(view, request.method or "GET"))
        return True
