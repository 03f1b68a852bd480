"""Who is calling the API: a participant, what it may see, and what its token allows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, cast

from rest_framework.request import Request

from openvibe.api.models import SCOPES, Token


class Speaker(Protocol):
    """What the API needs of a participant (a row of an upper floor)."""

    pk: int
    handle: str
    name: str
    kind: str
    workspace_id: int


class Standing(Protocol):
    """What the API itself needs of an access; the doors above know it as `workspaces.access.Access`."""

    @property
    def workspace_id(self) -> int: ...
    @property
    def participant_id(self) -> int: ...
    @property
    def is_agent(self) -> bool: ...


@dataclass(frozen=True)
class Caller:
    """The `request.user` of an API call, however it came in. `token` is None for a browser session."""

    participant: Speaker
    access: Standing
    scopes: frozenset[str] = frozenset(SCOPES)
    token: Token | None = None

    is_authenticated = True
    is_active = True

    @property
    def pk(self) -> int:
        return self.participant.pk

    @property
    def subject(self) -> str:
        """Whose calls are counted together: one token, or all browser pages of one member."""
        return f"token:{self.token.pk}" if self.token else f"session:{self.participant.pk}"


def caller_or_none(request: Request) -> Caller | None:
    """The caller; None for a request that nobody signed."""
    user: object = request.user
    return user if isinstance(user, Caller) else None


def caller_of(request: Request) -> Caller:
    """The caller of an authenticated request."""
    return cast(Caller, request.user)
