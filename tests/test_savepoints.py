"""The tests' own savepoints do what Django's do."""

import pytest
from django.db import DatabaseError, connection, transaction
from django.test.utils import CaptureQueriesContext

from openvibe.workspaces.models import User

pytestmark = pytest.mark.django_db


def names() -> set[str]:
    return set(User.objects.values_list("name", flat=True))


def write(name: str) -> None:
    User.objects.create(email=f"{name}@example.org", name=name)


@transaction.atomic
def write_what_is_refused() -> None:
    write("inside")
    with transaction.atomic():
        write("deeper")
    write("before")  # once more: the server refuses it, and all that follows in this transaction


@pytest.mark.parametrize("is_watched", [False, True])
def test_what_fails_is_taken_back_and_nothing_else(is_watched: bool) -> None:
    connection.force_debug_cursor = is_watched
    try:
        with transaction.atomic():
            write("before")
            with pytest.raises(DatabaseError):
                write_what_is_refused()
            write("after")
        assert names() == {"before", "after"}
    finally:
        connection.force_debug_cursor = False


def test_in_a_broken_transaction_none_begins() -> None:
    before = transaction.savepoint()
    with pytest.raises(DatabaseError), connection.cursor() as cursor:
        cursor.execute("SELECT 1 / 0")
    with pytest.raises(DatabaseError, match="aborted"):
        transaction.savepoint()
    transaction.savepoint_rollback(before)
    assert names() == set()


def test_whoever_counts_statements_counts_them() -> None:
    with CaptureQueriesContext(connection) as queries, transaction.atomic():
        write("Ana")
    assert [query["sql"].split()[0] for query in queries] == ["SAVEPOINT", "INSERT", "RELEASE"]
