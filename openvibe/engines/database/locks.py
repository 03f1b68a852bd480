"""Advisory locks: a piece of work belongs to the worker whose database session holds its lock.

PostgreSQL drops the lock the moment the worker dies, however it dies, so work that is said to be under way but whose
lock is free has no owner. (A pooler in transaction mode would break this promise; docs/operations-scale.md says so.)"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import IntEnum, unique

from django.db import DatabaseError, connection


@unique
class LockKind(IntEnum):
    """Every kind of work that has one owner at a time. Each keeps a space of 64-bit keys to itself."""

    RUN = 7002  # an agent's run
    SUMMARY_TREE = 7003  # the summaries of a conversation
    COMPACTION = 7004  # a compaction job
    SESSION_REVIEW = 7005  # an agent that looks back
    MESSAGE_VECTORS = 7006  # the messages of a vector space that wait
    ENTRY_VECTORS = 7007  # its knowledge entries that wait
    VECTOR_SPACES = 7008  # vector spaces that become ready or are removed
    CONTRADICTION_SEARCH = 7009  # a knowledge entry that is compared with its neighbours
    WORKSPACE_EXPORT = 7010  # an archive of a workspace
    MAIL = 7011  # all e-mails about accounts
    CONVERSATION_IMPORT = 7012  # a file of conversations from elsewhere
    WEBHOOKS = 7020  # the deliveries of all webhooks
    PUSHES = 7023  # the notifications of all browsers that are sent them
    JOB_RUN = 7021  # a run of a recurring job
    NAMES = 7022  # names of a workspace that are given just now, until the transaction ends: a trigger takes it


def lock_key(kind: LockKind, row_id: int) -> int:
    """The lock's key; `row_id` is the id of the row that is worked on."""
    return (kind << 40) + row_id


@contextmanager
def advisory_lock(kind: LockKind, row_id: int) -> Iterator[bool]:
    """True while this session owns the work on row `row_id`; False when another does.

    A session that owns work does not grow too old: whoever closes old ones, such as a job that is sent, would end it.
    """
    key = lock_key(kind, row_id)
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(%s)", [key])
        (is_acquired,) = cursor.fetchone()
    close_at = connection.close_at
    if is_acquired:
        connection.close_at = None
    try:
        yield bool(is_acquired)
    finally:
        if is_acquired:
            connection.close_at = close_at
            with suppress(DatabaseError), connection.cursor() as cursor:
                cursor.execute("SELECT pg_advisory_unlock(%s)", [key])
