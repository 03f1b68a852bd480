"""One owner at a time, until its database session ends; kinds of work never hold each other up."""

from itertools import pairwise

import pytest
from django.db import connection

from openvibe.engines.database.locks import LockKind, advisory_lock, lock_key


@pytest.mark.django_db(transaction=True)
def test_what_another_session_owns_is_not_owned_until_that_session_dies() -> None:
    other = connection.copy()
    with other.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_lock(%s)", [lock_key(LockKind.SESSION_REVIEW, 5)])

    with (
        advisory_lock(LockKind.SESSION_REVIEW, 5) as mine,
        advisory_lock(LockKind.SESSION_REVIEW, 6) as next_one,
        advisory_lock(LockKind.COMPACTION, 5) as other_kind,
    ):
        assert (mine, next_one, other_kind) == (False, True, True)

    other.close()
    with connection.cursor() as cursor:  # the server ends a session a moment after it is closed
        cursor.execute("SET lock_timeout = '10s'")
        cursor.execute("SELECT pg_advisory_lock(%s)", [lock_key(LockKind.SESSION_REVIEW, 5)])
        cursor.execute("SELECT pg_advisory_unlock(%s)", [lock_key(LockKind.SESSION_REVIEW, 5)])
        cursor.execute("RESET lock_timeout")
    with advisory_lock(LockKind.SESSION_REVIEW, 5) as mine:
        assert mine


@pytest.mark.django_db(transaction=True)
def test_a_session_that_owns_work_does_not_grow_too_old() -> None:
    connection.ensure_connection()
    connection.close_at = 0
    try:
        with advisory_lock(LockKind.SESSION_REVIEW, 5), advisory_lock(LockKind.COMPACTION, 5):
            connection.close_if_unusable_or_obsolete()  # as sending a job does
            other = connection.copy()
            with other.cursor() as cursor:
                cursor.execute("SELECT pg_try_advisory_lock(%s)", [lock_key(LockKind.SESSION_REVIEW, 5)])
                assert cursor.fetchone() == (False,)
            other.close()
        assert connection.close_at == 0
    finally:
        connection.close()


def test_rows_of_one_kind_never_reach_into_the_keys_of_another() -> None:
    firsts = sorted(lock_key(piece, 0) for piece in LockKind)

    assert all(later - earlier > 2**39 for earlier, later in pairwise(firsts))
    assert lock_key(max(LockKind), 2**39) < 2**63, "a key has 64 bits with its sign"
