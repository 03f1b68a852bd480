"""Errors a person or an agent can act on. One small tree; every door turns it into its own kind of answer."""

from collections.abc import Mapping
from typing import Any


class Problem(Exception):
    """Something the caller can mend. `code` is stable, the sentence says what happened and what to do. `facts`: what a
    program needs to go on, plain values by name; they stand beside the sentence where the caller is one."""

    status = 400
    code = "bad_request"

    def __init__(
        self, message: str, *, code: str | None = None, field: str | None = None, facts: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code or self.code
        self.field = field
        self.facts = dict(facts or {})


class Refused(Problem):
    """The caller may see the thing, but not do this to it."""

    status = 403
    code = "not_allowed"


class Missing(Problem):
    """Unknown, or not visible to the caller: the same answer for both."""

    status = 404
    code = "not_found"

    def __init__(self, message: str = "There is nothing here, or it is not visible to you.") -> None:
        super().__init__(message)


class Conflict(Problem):
    """Somebody else changed it first, or it is already so."""

    status = 409
    code = "conflict"


class Unavailable(Problem):
    """The database cannot serve the call now; the same call may be sent again."""

    status = 503
    code = "unavailable"
    retry_after = 5  # seconds
