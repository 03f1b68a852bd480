"""Vector indexing: tables of vectors and their queues, embedding what is pending batch by batch, HNSW indexes.

Safe to kill anywhere: a pending text is taken from the queue in the transaction that stores its vector, and only if
it is still what was embedded, so nothing is lost, and nothing stale stays. Vectors go in by PostgreSQL's binary
COPY."""

from __future__ import annotations

import random
import struct
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from itertools import chain, islice
from typing import LiteralString, NamedTuple

import numpy as np
from django.db import connection, transaction
from django.db.models import Q
from django.utils import timezone
from psycopg import sql

from openvibe.base.locks import LockKind, advisory_lock
from openvibe.base.masking import mask_secrets
from openvibe.base.registers import Register
from openvibe.search.embedders import EmbedderUnavailable
from openvibe.search.models import VectorSpace
from openvibe.search.passages import binary_quantize, is_long, split_passages
from openvibe.search.spaces import Space, clear_space_cache, embed_texts, read_space
from openvibe.search.values import Floats


@dataclass(frozen=True, slots=True)
class EmbeddableText:
    """A text that wants a vector: `text`, and `before`, what stood before it, where a pair is wanted too.

    `heading` is what `text` begins with and each passage of it is read with. `columns` are the numbers that the table
    keeps beside the vector.
    """

    item_id: int
    text: str
    before: str | None = None
    columns: tuple[int, ...] = ()
    heading: str = ""


@dataclass(frozen=True)
class VectorTable:
    """The vectors of one kind of text (`what`, for people), and the texts that wait for theirs.

    `vector_table` and `waiting` are tables that name their texts in the column `item_column`; `extra_columns` are
    more columns of
    `vector_table`; `index_prefix` begins the names of its HNSW indexes, which end in the dimension; `lock_kind` is
    owned by whoever
    works it off. `eligible_sql` is SQL for the ids of all texts of the workspace %(workspace)s that want vectors.
    `read(ids, locked)` gives these texts as they are now, with all rows they come from locked FOR SHARE when asked;
    what it leaves out wants no vector.
    """

    what: str
    vector_table: LiteralString
    waiting: LiteralString
    item_column: LiteralString
    index_prefix: LiteralString
    lock_kind: LockKind
    eligible_sql: LiteralString
    load_texts: Callable[[Sequence[int], bool], dict[int, EmbeddableText]]
    extra_columns: tuple[LiteralString, ...] = ()
    has_pairs: bool = False

    def sql(self, statement: LiteralString, **identifiers: sql.Composable) -> sql.Composed:
        """The statement with `{vectors}`, `{waiting}`, `{item}` and `{wanted}` of this table."""
        return sql.SQL(statement).format(
            vectors=sql.Identifier(self.vector_table),
            waiting=sql.Identifier(self.waiting),
            item=sql.Identifier(self.item_column),
            wanted=sql.SQL(self.eligible_sql),
            **identifiers,
        )

    def count_pending(self, space_id: int) -> int:
        """How many texts have no vector in this space yet."""
        return self._count("SELECT count(*) FROM {waiting} WHERE space_id = %(space)s", space=space_id)

    def has_pending(self, space_id: int) -> bool:
        """Whether any text has no vector in this space yet."""
        statement = "SELECT count(*) FROM (SELECT FROM {waiting} WHERE space_id = %(space)s LIMIT 1) q"
        return bool(self._count(statement, space=space_id))

    def count_embedded(self, space_id: int) -> int:
        """How many texts have a vector in this space."""
        return self._count("SELECT count(*) FROM {vectors} WHERE space_id = %(space)s", space=space_id)

    def enqueue_all(self, space_id: int, workspace_id: int) -> int:
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

    def delete_batch(self, space_id: int, limit: int) -> int:
        """Remove up to `limit` vectors of a space, and as many that wait. How many rows went."""
        deleted = 0
        with connection.cursor() as cursor:
            for name in (self.waiting, self.vector_table):
                cursor.execute(
                    self.sql(
                        "DELETE FROM {name} WHERE id IN (SELECT id FROM {name} WHERE space_id = %s LIMIT %s)",
                        name=sql.Identifier(name),
                    ),
                    [space_id, limit],
                )
                deleted += int(cursor.rowcount)
        return deleted

    def _count(self, statement: LiteralString, **values: int) -> int:
        with connection.cursor() as cursor:
            cursor.execute(self.sql(statement), values)
            row = cursor.fetchone()
        return int(row[0]) if row else 0


VECTOR_TABLES: Register[VectorTable] = Register("openvibe.search.indexing.VECTOR_TABLES")
"""Every table of vectors there is, of all floors."""


CopyRow = tuple[Sequence[int], int, Sequence[bytes | None]]
"""Bigints, one smallint, then fields that are packed already (None is NULL)."""
_COPY_HEADER = b"PGCOPY\n\xff\r\n\x00" + bytes(8)
_COPY_TRAILER = b"\xff\xff"
_COPY_NULL = b"\xff\xff\xff\xff"


def encode_halfvecs(vectors: Floats) -> list[bytes]:
    """Each row of a matrix as pgvector's `halfvec` receives it: its dimension, two zero bytes, big-endian halves."""
    header = struct.pack(">HH", vectors.shape[1], 0)
    return [header + row.tobytes() for row in np.ascontiguousarray(vectors, dtype=">f2")]


def encode_copy(rows: Iterable[CopyRow]) -> bytes:
    """A whole COPY of these rows."""
    pieces = [_COPY_HEADER]
    for bigints, smallint, fields in rows:
        pieces.append(struct.pack(">h", len(bigints) + 1 + len(fields)))
        pieces += [struct.pack(">iq", 8, bigint) for bigint in bigints]
        pieces.append(struct.pack(">ih", 2, smallint))
        pieces += [_COPY_NULL if field is None else struct.pack(">i", len(field)) + field for field in fields]
    pieces.append(_COPY_TRAILER)
    return b"".join(pieces)


BATCH_SIZE = 500
NETWORK_BATCH_SIZE = 100
MAX_EMBEDDED_CHARACTERS = 8_000
"""Characters of a text that are embedded; of a text in a pair, half of that."""
FIRST_BACKOFF_SECONDS, MAX_BACKOFF_SECONDS = 5.0, 900.0
"""Seconds that a network embedder is left alone after its first failure, and at most."""


def embed_pending(
    table: VectorTable, *, space_id: int | None = None, limit: int = 100_000, seconds: float | None = None
) -> int:
    """Make vectors for texts that wait, in one space or in all, in turn; how many were made.

    Stops after `limit` of them, after so many seconds, or when none waits that may be tried now. What another worker
    is at is left to it. Never raises for an embedder's sake: the space says what is wrong and when it is tried again.
    """
    ends_at = None if seconds is None else time.monotonic() + seconds
    space_ids = deque(_pending_spaces(table, space_id))
    embedded = 0
    while space_ids and embedded < limit and (ends_at is None or time.monotonic() < ends_at):
        space = space_ids.popleft()
        with advisory_lock(table.lock_kind, space) as is_mine:
            batch_size = _embed_batch(table, space, limit - embedded) if is_mine else None
        if batch_size is not None:
            embedded += batch_size
            space_ids.append(space)
    return embedded


def back_off(space: Space, error: EmbedderUnavailable) -> None:
    """Note in the space why it cannot go on, and when it is tried again: twice as long after each failure,
    or when the endpoint asks for."""
    row = VectorSpace.objects.filter(pk=space.id).first()
    if row is not None:
        row.failures = min(row.failures + 1, 1_000)
        retry_after = getattr(error.__cause__, "retry_after", None) or 0.0
        pause = max(FIRST_BACKOFF_SECONDS * 2 ** min(row.failures - 1, 20) * random.uniform(0.75, 1.25), retry_after)
        pause = min(MAX_BACKOFF_SECONDS, pause)
        row.problem, row.try_again_at = str(error), timezone.now() + timedelta(seconds=pause)
        row.save(update_fields=["failures", "problem", "try_again_at"])
        clear_space_cache()


def record_dimension(space: Space, dimension: int) -> bool:
    """Keep the dimension that the first vector showed. False when the space has another one."""
    if space.dimension:
        return space.dimension == dimension
    clear_space_cache()
    return bool(VectorSpace.objects.filter(pk=space.id, dimension__in=(0, dimension)).update(dimension=dimension))


def _clear_failures(space: Space) -> None:
    """Note that the embedder answers: nothing is written where nothing was wrong."""
    failing = VectorSpace.objects.filter(pk=space.id).exclude(state=VectorSpace.State.RETIRED)
    if failing.filter(Q(failures__gt=0) | ~Q(problem="")).update(failures=0, problem="", try_again_at=None):
        clear_space_cache()


def _pending_spaces(table: VectorTable, space_id: int | None) -> list[int]:
    """Spaces in which something waits and that may be worked on now; those that serve come first."""
    statement = table.sql(
        "SELECT s.id FROM search_vectorspace s WHERE s.state <> 'retired' AND s.kind <> 'none'"
        " AND coalesce(s.try_again_at <= %s, true) AND coalesce(s.id = %s, true)"
        " AND EXISTS (SELECT FROM {waiting} q WHERE q.space_id = s.id) ORDER BY s.state DESC, s.id"
    )
    with connection.cursor() as cursor:
        cursor.execute(statement, [timezone.now(), space_id])
        return [space for (space,) in cursor.fetchall()]


def _embed_batch(table: VectorTable, space_id: int, limit: int) -> int | None:
    """One batch. None when nothing waits in this space any more, or it cannot go on now."""
    space = read_space(pk=space_id)
    if space is None:
        return None
    size = BATCH_SIZE if space.kind == VectorSpace.Kind.STATIC else NETWORK_BATCH_SIZE
    ids = _next_pending_ids(table, space_id, min(size, limit))
    if not ids:
        return None
    texts = table.load_texts(ids, False)
    try:
        batch = _embed_items(space, texts)
    except EmbedderUnavailable as error:
        back_off(space, error)
        return None
    return _store_batch(table, space, ids, texts, batch)


def _next_pending_ids(table: VectorTable, space_id: int, limit: int) -> list[int]:
    statement = table.sql("SELECT {item} FROM {waiting} WHERE space_id = %s ORDER BY {item} LIMIT %s")
    with connection.cursor() as cursor:
        cursor.execute(statement, [space_id, limit])
        return [item for (item,) in cursor.fetchall()]


class _EmbeddedBatch(NamedTuple):
    """Vectors by item, packed for the table."""

    dimension: int
    own: dict[int, bytes]
    pair: dict[int, bytes]
    parts: dict[int, bytes | None]


def _embed_items(space: Space, texts: dict[int, EmbeddableText]) -> _EmbeddedBatch:
    """The vectors of all these texts, their pairs and passages, asked for in one call. Raises EmbedderDown."""
    if not texts:
        return _EmbeddedBatch(space.dimension, {}, {}, {})
    inputs = _texts_to_embed(texts.values())
    passages = {item: _passages_to_embed(text) for item, text in texts.items()}
    all_vectors = embed_texts(space, [*inputs, *chain.from_iterable(passages.values())])
    if not record_dimension(space, all_vectors.shape[1]):
        raise EmbedderUnavailable("Two workers were answered with vectors of two dimensions. It is tried again.")
    _clear_failures(space)
    halfvecs = encode_halfvecs(all_vectors[: len(inputs)])
    own = dict(zip(texts, halfvecs, strict=False))
    paired = (item for item, text in texts.items() if text.before is not None)
    pair = dict(zip(paired, halfvecs[len(texts) :], strict=True))
    passage_vectors = iter(all_vectors[len(inputs) :])
    parts = {
        item: binary_quantize(np.array([*islice(passage_vectors, len(each))]))
        for item, each in passages.items()
        if each
    }
    return _EmbeddedBatch(all_vectors.shape[1], own, pair, parts)


def _texts_to_embed(texts: Iterable[EmbeddableText]) -> list[str]:
    """What is embedded: all own texts, then the pairs of those that have one. Secrets are masked."""
    masked = cache(lambda text: mask_secrets(text[: 2 * MAX_EMBEDDED_CHARACTERS]))
    texts = list(texts)
    half_limit = MAX_EMBEDDED_CHARACTERS // 2
    own = [masked(text.text)[:MAX_EMBEDDED_CHARACTERS] for text in texts]
    return own + [
        f"{masked(text.before)[:half_limit]}\n{masked(text.text)[:half_limit]}"
        for text in texts
        if text.before is not None
    ]


def _passages_to_embed(text: EmbeddableText) -> list[str]:
    """The passages of a long text, each with its heading, none with a secret; none of a short one."""
    if not is_long(text.text):
        return []
    masked = mask_secrets(text.text[: 2 * MAX_EMBEDDED_CHARACTERS])[:MAX_EMBEDDED_CHARACTERS].removeprefix(text.heading)
    return [f"{text.heading}{passage}" for passage in split_passages(masked) if passage.strip()]


def _store_batch(
    table: VectorTable, space: Space, ids: list[int], texts: dict[int, EmbeddableText], batch: _EmbeddedBatch
) -> int:
    """Store what is still true, and take it from those that wait. How many vectors were stored."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT state FROM search_vectorspace WHERE id = %s FOR SHARE", [space.id])
        if (cursor.fetchone() or ("retired",))[0] == VectorSpace.State.RETIRED:
            return 0
        current = table.load_texts(ids, True)
        unchanged = [item for item, text in texts.items() if current.get(item) == text]
        finished = [*unchanged, *(item for item in ids if item not in current)]
        for statement in (_DELETE_VECTORS, _DELETE_PENDING):
            cursor.execute(table.sql(statement), [space.id, finished])
        pair = ["pair"] if table.has_pairs else []
        names = ["space_id", table.item_column, *table.extra_columns, "dimension", "own", *pair, "parts"]
        columns = sql.SQL(", ").join(map(sql.Identifier, names))
        with cursor.copy(
            table.sql("COPY {vectors} ({columns}) FROM STDIN (FORMAT binary)", columns=columns)
        ) as copying:
            copying.write(encode_copy(_copy_row(table, space, texts[item], batch) for item in unchanged))
    return len(unchanged)


# "+ 0": by its texts alone, or a space that the planner knows nothing of yet is read as a whole for every batch.
_DELETE_VECTORS = "DELETE FROM {vectors} WHERE space_id + 0 = %s AND {item} = ANY(%s)"
_DELETE_PENDING = "DELETE FROM {waiting} WHERE space_id = %s AND {item} = ANY(%s)"


def _copy_row(table: VectorTable, space: Space, text: EmbeddableText, batch: _EmbeddedBatch) -> CopyRow:
    item = text.item_id
    pair = [batch.pair.get(item)] if table.has_pairs else []
    return (space.id, item, *text.columns), batch.dimension, [batch.own[item], *pair, batch.parts.get(item)]


def create_hnsw_indexes(dimension: int) -> None:
    """The HNSW indexes of a dimension, made without stopping anybody; one left half made by a worker that died, anew.

    Outside a transaction, as PostgreSQL wants it. Long for many vectors.
    """
    if dimension == BUILT_IN_DIMENSION:
        return
    for table in VECTOR_TABLES:
        index = sql.Identifier(f"{table.index_prefix}_{dimension}")
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(%s)",
                [f"{table.index_prefix}_{dimension}"],
            )
            row = cursor.fetchone()
            if row and not row[0]:
                cursor.execute(sql.SQL("DROP INDEX CONCURRENTLY IF EXISTS {}").format(index))
            cursor.execute(
                table.sql(
                    "CREATE INDEX CONCURRENTLY IF NOT EXISTS {index} ON {vectors}"
                    " USING hnsw ((own::halfvec({size})) halfvec_cosine_ops) WHERE dimension = {size}",
                    index=index,
                    size=sql.Literal(dimension),
                )
            )


def drop_hnsw_indexes(dimension: int) -> None:
    if dimension in (0, BUILT_IN_DIMENSION) or VectorSpace.objects.filter(dimension=dimension).exists():
        return
    for table in VECTOR_TABLES:
        name = sql.Identifier(f"{table.index_prefix}_{dimension}")
        with connection.cursor() as cursor:
            cursor.execute(sql.SQL("DROP INDEX CONCURRENTLY IF EXISTS {}").format(name))


BUILT_IN_DIMENSION = 256
"""The built-in embedder's, whose indexes are part of the tables."""
