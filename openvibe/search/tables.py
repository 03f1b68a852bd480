"""Where each floor keeps the vectors of its texts. Upper floors are the strings of `settings.VECTOR_TABLES`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import LiteralString

from django.conf import settings
from django.db import connection
from django.utils.module_loading import import_string
from psycopg import sql

from openvibe.base.ownership import Piece


@dataclass(frozen=True, slots=True)
class Readable:
    """A text that wants a vector: `own`, and `before`, what stood before it, where a pair is wanted too.

    `heading` is what `own` begins with and each passage of it is read with. `columns` are the numbers that the table
    keeps beside the vector.
    """

    item_id: int
    own: str
    before: str | None = None
    columns: tuple[int, ...] = ()
    heading: str = ""


@dataclass(frozen=True)
class VectorTable:
    """The vectors of one kind of text (`what`, for people), and the texts that wait for theirs.

    `vectors` and `waiting` are tables that name their texts in the column `item`; `columns` are more columns of
    `vectors`; `index` begins the names of its HNSW indexes, which end in the dimension; `piece` is owned by whoever
    works it off. `wanted` is SQL for the ids of all texts of the workspace %(workspace)s that want vectors.
    `read(ids, locked)` gives these texts as they are now, with all rows they come from locked FOR SHARE when asked;
    what it leaves out wants no vector.
    """

    what: str
    vectors: LiteralString
    waiting: LiteralString
    item: LiteralString
    index: LiteralString
    piece: Piece
    wanted: LiteralString
    read: Callable[[Sequence[int], bool], dict[int, Readable]]
    columns: tuple[LiteralString, ...] = ()
    has_pairs: bool = False

    def sql(self, text: LiteralString, **more: sql.Composable) -> sql.Composed:
        """The statement with `{vectors}`, `{waiting}`, `{item}` and `{wanted}` of this table."""
        return sql.SQL(text).format(
            vectors=sql.Identifier(self.vectors),
            waiting=sql.Identifier(self.waiting),
            item=sql.Identifier(self.item),
            wanted=sql.SQL(self.wanted),
            **more,
        )

    def count_waiting(self, space_id: int) -> int:
        """How many texts have no vector in this space yet."""
        return self._counted("SELECT count(*) FROM {waiting} WHERE space_id = %(space)s", space=space_id)

    def has_waiting(self, space_id: int) -> bool:
        """Whether any text has no vector in this space yet."""
        statement = "SELECT count(*) FROM (SELECT FROM {waiting} WHERE space_id = %(space)s LIMIT 1) q"
        return bool(self._counted(statement, space=space_id))

    def count_made(self, space_id: int) -> int:
        """How many texts have a vector in this space."""
        return self._counted("SELECT count(*) FROM {vectors} WHERE space_id = %(space)s", space=space_id)

    def let_wait(self, space_id: int, workspace_id: int) -> int:
        """Let every text of the workspace without a vector in this space wait for one. How many were not waiting."""
        with connection.cursor() as cursor:
            cursor.execute(
                self.sql(
                    "INSERT INTO {waiting} (space_id, {item}) SELECT %(space)s, w.id FROM ({wanted}) w (id) WHERE NOT"
                    " EXISTS (SELECT FROM {vectors} v WHERE v.{item} = w.id AND v.space_id = %(space)s)"
                    " ON CONFLICT DO NOTHING"
                ),
                {"space": space_id, "workspace": workspace_id},
            )
            return int(cursor.rowcount)

    def remove(self, space_id: int, most: int) -> int:
        """Remove up to `most` vectors of a space, and as many that wait. How many rows went."""
        went = 0
        with connection.cursor() as cursor:
            for name in (self.waiting, self.vectors):
                cursor.execute(
                    self.sql(
                        "DELETE FROM {name} WHERE id IN (SELECT id FROM {name} WHERE space_id = %s LIMIT %s)",
                        name=sql.Identifier(name),
                    ),
                    [space_id, most],
                )
                went += int(cursor.rowcount)
        return went

    def _counted(self, text: LiteralString, **values: int) -> int:
        with connection.cursor() as cursor:
            cursor.execute(self.sql(text), values)
            row = cursor.fetchone()
        return int(row[0]) if row else 0


@lru_cache(maxsize=1)
def vector_tables() -> tuple[VectorTable, ...]:
    """Every table of vectors there is, of all floors."""
    return tuple(import_string(path) for path in settings.VECTOR_TABLES)
