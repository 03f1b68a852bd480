"""Taking messages in: one item for each, whatever it is, so that every message stays reachable."""

from __future__ import annotations

from collections.abc import Sequence

from django.db import connection, transaction

from memory.providers.base import NewMessage, Session
from memory.providers.shared import store

# Messages become visible in the order of their numbers (a number is given under the thread's row lock), so what is
# after `seen_seq` is all that was not seen.
_IS_BEHIND = """
SELECT coalesce((SELECT seq FROM chat_message WHERE thread_id = %(thread)s ORDER BY seq DESC LIMIT 1), 0)
    > coalesce((SELECT seen_seq FROM lcm_conversation WHERE thread_id = %(thread)s), 0)
"""
_OPEN = """
INSERT INTO lcm_conversation (thread_id, seen_seq, version, failures, last_error)
VALUES (%(thread)s, 0, 0, 0, '') ON CONFLICT (thread_id) DO NOTHING
"""
_LOCK = "SELECT id, seen_seq FROM lcm_conversation WHERE thread_id = %(thread)s FOR UPDATE"
_TAKE = """
WITH taken AS (
    INSERT INTO lcm_item (conversation_id, ordinal, message_id)
    SELECT %(conversation)s, seq, id FROM chat_message WHERE thread_id = %(thread)s AND seq > %(seen)s ORDER BY seq
    RETURNING ordinal
), newest AS (
    SELECT max(ordinal) AS seq, count(*) AS many FROM taken
), moved AS (
    UPDATE lcm_conversation SET seen_seq = newest.seq, version = version + 1
    FROM newest WHERE id = %(conversation)s AND newest.many > 0
)
SELECT many FROM newest
"""


def take_in(thread_id: int) -> int:
    """Give every message that was not seen yet its item; how many there were. Takes the conversation's row lock."""
    named = {"thread": thread_id}
    with connection.cursor() as cursor:
        cursor.execute(_IS_BEHIND, named)
        (is_behind,) = cursor.fetchone()
        if not is_behind:
            return 0
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_OPEN, named)
        cursor.execute(_LOCK, named)
        conversation, seen = cursor.fetchone()
        cursor.execute(_TAKE, {**named, "conversation": conversation, "seen": seen})
        (many,) = cursor.fetchone()
    return int(many)


def append(session: Session, messages: Sequence[NewMessage]) -> list[int]:
    """Store the messages of an outside agent's conversation and take them in, all or nothing; their numbers."""
    with transaction.atomic():
        numbers = store(session, messages)
        take_in(session.thread_id)
    return numbers
