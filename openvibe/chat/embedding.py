"""Vectors of messages: what of a message is embedded, and which messages want it.

Every text and every dive result that stands, of all threads: people search their own threads too. Tool calls and
system messages have none. A message's pair is it and the message right before it, where that one has a text.
"""

from __future__ import annotations

from collections.abc import Sequence

from django.db import connection
from psycopg import sql

from openvibe.base.ownership import Piece
from openvibe.search.filling import work_off
from openvibe.search.tables import Readable, VectorTable

_READ = sql.SQL(
    "SELECT m.id, m.thread_id, m.seq, left(m.body, 20000), p.name, m.kind IN ('text', 'dive_result')"
    " AND m.state IN ('complete', 'stopped') AND m.deleted_at IS NULL"
    " FROM chat_message m JOIN workspaces_participant p ON p.id = m.author_id WHERE {where}{lock}"
)
_THESE = sql.SQL("m.id = ANY(%s)")
_AT = sql.SQL("(m.thread_id, m.seq) IN (SELECT * FROM unnest(%s::bigint[], %s::bigint[]))")
_LOCK = sql.SQL(" ORDER BY m.id FOR SHARE OF m")


def embed_waiting(space_id: int | None = None, limit: int = 100_000, *, seconds: float | None = None) -> int:
    """Make the vectors of messages that wait, in one space or in all; how many were made. See `work_off`."""
    return work_off(MESSAGES, space_id=space_id, limit=limit, seconds=seconds)


def _read(ids: Sequence[int], locked: bool) -> dict[int, Readable]:
    """The texts of these messages, each with the one before it."""
    found = _rows(_THESE, [list(ids)], locked)
    wanting = {(thread, seq): (item, text, heading) for item, thread, seq, text, wants, heading in found if wants}
    at = {(thread, seq): text if wants else None for _, thread, seq, text, wants, _ in found}
    missing = [(thread, seq - 1) for thread, seq in wanting if seq > 1 and (thread, seq - 1) not in at]
    if missing:
        before = _rows(_AT, [[thread for thread, _ in missing], [seq for _, seq in missing]], locked)
        at |= {(thread, seq): text if wants else None for _, thread, seq, text, wants, _ in before}
    return {
        item: Readable(item, text, at.get((thread, seq - 1)), (thread, seq), heading)
        for (thread, seq), (item, text, heading) in wanting.items()
    }


def _rows(where: sql.SQL, values: list[list[int]], locked: bool) -> list[tuple[int, int, int, str, bool, str]]:
    """Id, thread, seq, "name: body", whether it wants a vector, and "name: "."""
    with connection.cursor() as cursor:
        cursor.execute(_READ.format(where=where, lock=_LOCK if locked else sql.SQL("")), values)
        return [
            (item, thread, seq, f"{name}: {body}", wants, f"{name}: ")
            for item, thread, seq, body, name, wants in cursor
        ]


MESSAGES = VectorTable(
    what="messages",
    vectors="chat_messagevector",
    waiting="chat_messagetoembed",
    item="message_id",
    index="message_vector_hnsw",
    piece=Piece.MESSAGE_VECTORS,
    wanted=(
        "SELECT m.id FROM chat_message m JOIN chat_thread t ON t.id = m.thread_id"
        " WHERE t.workspace_id = %(workspace)s AND m.kind IN ('text', 'dive_result')"
        " AND m.state IN ('complete', 'stopped') AND m.deleted_at IS NULL"
    ),
    read=_read,
    columns=("thread_id", "seq"),
    has_pairs=True,
)
