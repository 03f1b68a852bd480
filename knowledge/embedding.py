"""Vectors of knowledge entries: topic and content together, whatever the entry's status."""

from __future__ import annotations

from collections.abc import Sequence

from django.db import connection

from openvibe.base.ownership import Piece
from openvibe.search.filling import work_off
from openvibe.search.tables import Readable, VectorTable

_READ = "SELECT id, topic, content FROM knowledge_entry WHERE id = ANY(%s)"
_READ_LOCKED = "SELECT id, topic, content FROM knowledge_entry WHERE id = ANY(%s) ORDER BY id FOR SHARE"


def embed_waiting(space_id: int | None = None, limit: int = 100_000, *, seconds: float | None = None) -> int:
    """Make the vectors of entries that wait, in one space or in all; how many were made. See `work_off`."""
    return work_off(ENTRIES, space_id=space_id, limit=limit, seconds=seconds)


def _read(ids: Sequence[int], locked: bool) -> dict[int, Readable]:
    with connection.cursor() as cursor:
        cursor.execute(_READ_LOCKED if locked else _READ, [list(ids)])
        return {item: Readable(item, f"{topic}: {content}", heading=f"{topic}: ") for item, topic, content in cursor}


ENTRIES = VectorTable(
    what="knowledge entries",
    vectors="knowledge_entryvector",
    waiting="knowledge_entrytoembed",
    item="entry_id",
    index="entry_vector_hnsw",
    piece=Piece.ENTRY_VECTORS,
    wanted="SELECT id FROM knowledge_entry WHERE workspace_id = %(workspace)s",
    read=_read,
)
