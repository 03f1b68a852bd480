"""The answers when the database cannot serve: what its errors mean for whoever asked."""

import psycopg
from django.db import InterfaceError, OperationalError

from openvibe.base.problems import Unavailable

_OUTAGES = (OperationalError, InterfaceError, psycopg.OperationalError, psycopg.InterfaceError)
_MET_ANOTHER = (psycopg.errors.DeadlockDetected, psycopg.errors.SerializationFailure, psycopg.errors.LockNotAvailable)
"""The server works; another transaction held what this one needed."""


def unavailable_from(error: BaseException | None) -> Unavailable | None:
    """What an error of the database means when its server is gone, busy or full; None for every other error."""
    if error is None:
        return None
    cause = error.__cause__ or error
    is_of_libpq = type(cause) is psycopg.DatabaseError and cause.sqlstate is None  # the server did not say it
    if not is_of_libpq and not isinstance(error, _OUTAGES):
        return None
    if isinstance(cause, psycopg.errors.DiskFull):
        return Unavailable("The server's disk is full, so nothing was saved. Tell whoever runs it.", code="disk_full")
    if isinstance(cause, _MET_ANOTHER):
        return Unavailable("Somebody changed the same thing at the same moment. Nothing was saved; try again.")
    return Unavailable("The database does not answer at the moment. Try again in a few seconds.")
