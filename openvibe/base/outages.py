"""When the database cannot serve: what its errors mean for whoever asked."""

import psycopg
from django.db import InterfaceError, OperationalError

from openvibe.base.problems import Unavailable


def unavailable_from(error: BaseException | None) -> Unavailable | None:
    """What an error of the database means when its server is gone, busy or full; None for every other error."""
    if not isinstance(error, OperationalError | InterfaceError | psycopg.OperationalError | psycopg.InterfaceError):
        return None
    if isinstance(error, psycopg.errors.DiskFull) or isinstance(error.__cause__, psycopg.errors.DiskFull):
        return Unavailable("The server's disk is full, so nothing was saved. Tell whoever runs it.", code="disk_full")
    return Unavailable("The database does not answer at the moment. Try again in a few seconds.")
