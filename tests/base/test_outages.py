"""What people are told where the database refuses."""

import psycopg
import pytest
from django.db import DatabaseError, OperationalError

from openvibe.base.outages import unavailable_from

MET_ANOTHER = "Somebody changed the same thing at the same moment."
GONE = "The database does not answer"


@pytest.mark.parametrize(
    ("cause", "sentence"),
    [
        (psycopg.errors.DeadlockDetected(), MET_ANOTHER),
        (psycopg.errors.LockNotAvailable(), MET_ANOTHER),
        (psycopg.errors.DiskFull(), "The server's disk is full"),
        (psycopg.errors.AdminShutdown(), GONE),
        (psycopg.DatabaseError("server closed the connection unexpectedly"), GONE),
    ],
)
def test_who_met_another_change_is_not_told_that_the_database_is_gone(cause: Exception, sentence: str) -> None:
    wrapped = OperationalError()
    wrapped.__cause__ = cause
    for error in (cause, wrapped):
        assert (unavailable_from(error) or cause).args[0].startswith(sentence)
    assert unavailable_from(ValueError()) is None
    assert unavailable_from(DatabaseError("Save with update_fields did not affect any rows.")) is None
    assert unavailable_from(psycopg.errors.UniqueViolation()) is None
