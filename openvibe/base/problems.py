"""Errors a person or an agent can act on. One small tree; every door turns it into its own kind of answer."""

import psycopg
from django.db import InterfaceError, OperationalError


class Problem(Exception):
    """Something the caller can mend. `code` is stable, the sentence says what happened and what to do."""

    status = 400
    code = "bad_request"

    def __init__(self, message: str, *, code: str | None = None, field: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = code or self.code
        self.field = field


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


def unavailable_from(error: BaseException | None) -> Unavailable | None:
    """What an error of the database means when its server is gone, busy or full; None for every other error."""
    if not isinstance(error, OperationalError | InterfaceError | psycopg.OperationalError | psycopg.InterfaceError):
        return None
    if isinstance(error, psycopg.errors.DiskFull) or isinstance(error.__cause__, psycopg.errors.DiskFull):
        return Unavailable("The server's disk is full, so nothing was saved. Tell whoever runs it.", code="disk_full")
    return Unavailable("The database does not answer at the moment. Try again in a few seconds.")
