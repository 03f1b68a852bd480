"""Vector indexing: tables of vectors and their queues, embedding what is pending batch by batch, HNSW indexes.

Safe to kill anywhere: a pending text is taken from the queue in the transaction that stores its vector, and only if
it is still what was embedded, so nothing is lost, and nothing stale stays. Vectors go in by PostgreSQL's binary
COPY."""

from __future__ import annotations

import random
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from itertools import chain, islice
from typing import Any, LiteralString

import numpy as np
from django.db import connection, transaction
from django.db.models import Q
from django.utils import timezone
from pgvector import HalfVector
from psycopg import sql
from psycopg.types.numeric import Int2, Int8

from openvibe.engines.database.locks import LockKind, advisory_lock
from openvibe.engines.registers import Register
from openvibe.engines.search.candidates import Corpus
from openvibe.engines.search.embedders import EmbedderUnavailable
from openvibe.engines.search.models import VectorSpace
from openvibe.engines.search.passages import binary_quantize, is_long, split_passages
from openvibe.engines.search.spaces import (
    BUILT_IN_EMBEDDER,
    FIRST_BACKOFF_SECONDS,
    MAX_BACKOFF_SECONDS,
    clear_space_cache,
    embed_texts,
)
from openvibe.engines.text.masking import mask_secrets


@dataclass(frozen=True, slots=True)
class EmbeddableText:
    """A text to be embedded: `text`, and `before`, what stood before it, where a pair is embedded too.

    `heading` is what `text` begins with and each passage of it is read with. `columns` are the numbers that the table
    keeps beside the vector.
    """

    item_id: int
    text: str
    before: str | None = None
    columns: tuple[int, ...] = ()
    heading: str = ""


SET_ASIDE_PERIOD = timedelta(hours=1)
"""How long a text that the embedder cannot take, though it takes others, is left alone: what seems to wait longer was
set aside while the clock was ahead, and is due."""


@dataclass(frozen=True)
class VectorTable:
    """The vectors of the texts of a corpus (`label`, for people), and the queue of texts without one.

    `queue_table` names its texts in the same column as the vectors; `extra_columns` are more columns of these;
    `lock_kind` is owned by whoever works off the queue. `eligible_sql` is SQL for the ids of all texts of the workspace
    %(workspace)s that want vectors. `load_texts(ids, locked)` gives these texts as they are now, with all rows they
    come from locked FOR SHARE when asked; what it leaves out wants no vector.
    """

    label: str
    corpus: Corpus
    queue_table: LiteralString
    lock_kind: LockKind
    eligible_sql: LiteralString
    load_texts: Callable[[Sequence[int], bool], dict[int, EmbeddableText]]
    extra_columns: tuple[LiteralString, ...] = ()
    has_pairs: bool = False

    def compose(self, statement: LiteralString, **identifiers: sql.Composable) -> sql.Composed:
        """The statement with `{vectors}`, `{queue}`, `{item}` and `{eligible}` of this table.

        `{due}` holds for a row of the queue that is not set aside.
        """
        now = timezone.now()
        return sql.SQL(statement).format(
            vectors=sql.Identifier(self.corpus.vector_table),
            queue=sql.Identifier(self.queue_table),
            item=sql.Identifier(self.corpus.item_column),
            eligible=sql.SQL(self.eligible_sql),
            due=sql.SQL("coalesce(try_again_at <= {} OR try_again_at > {}, true)").format(now, now + SET_ASIDE_PERIOD),
            **identifiers,
        )

    def execute(
        self,
        statement: LiteralString,
        values: Sequence[Any] | Mapping[str, Any] | None = None,
        **identifiers: sql.Composable,
    ) -> int:
        """Runs a statement, written as for `compose`. Returns how many rows it changed."""
        with connection.cursor() as cursor:
            cursor.execute(self.compose(statement, **identifiers), values)
            return int(cursor.rowcount)

    def fetch_numbers(self, statement: LiteralString, values: Sequence[Any]) -> list[int]:
        """The first column of what a statement, written as for `compose`, selects."""
        with connection.cursor() as cursor:
            cursor.execute(self.compose(statement), values)
            return [row[0] for row in cursor.fetchall()]

    def count_pending(self, space_id: int) -> int:
        """How many texts wait for their vector in this space; those that are set aside do not."""
        return self.fetch_numbers("SELECT count(*) FROM {queue} WHERE space_id = %s AND {due}", [space_id])[0]

    def has_pending(self, space_id: int) -> bool:
        """Whether any text waits for its vector in this space."""
        return bool(self.fetch_numbers("SELECT 1 FROM {queue} WHERE space_id = %s AND {due} LIMIT 1", [space_id]))

    def count_set_aside(self, space_id: int) -> int:
        """How many texts the embedder could not take, and are tried again later."""
        return self.fetch_numbers("SELECT count(*) FROM {queue} WHERE space_id = %s AND NOT {due}", [space_id])[0]

    def set_aside(self, space_id: int, ids: Sequence[int]) -> None:
        """Leaves these texts, which the embedder cannot take, alone for an hour."""
        if ids:
            self.execute(
                "UPDATE {queue} SET try_again_at = %s WHERE space_id = %s AND {item} = ANY(%s)",
                [timezone.now() + SET_ASIDE_PERIOD, space_id, list(ids)],
            )

    def count_vectors(self, space_id: int) -> int:
        """How many texts have a vector in this space."""
        return self.fetch_numbers("SELECT count(*) FROM {vectors} WHERE space_id = %s", [space_id])[0]

    def enqueue_all(self, space_id: int, workspace_id: int) -> int:
        """Queue every text of the workspace without a vector in this space. How many were not in the queue."""
        return self.execute(
            "INSERT INTO {queue} (space_id, {item}) SELECT %(space)s, w.id FROM ({eligible}) w (id) WHERE NOT"
            " EXISTS (SELECT FROM {vectors} v WHERE v.{item} = w.id AND v.space_id = %(space)s)"
            " ON CONFLICT DO NOTHING",
            {"space": space_id, "workspace": workspace_id},
        )

    def build_index(self, dimension: int) -> None:
        """Builds that index of the vectors there are, without stopping anybody; one left half made is made anew.

        Outside a transaction, as PostgreSQL wants it. In one process, since shared memory is scarce in containers; a
        minute for a hundred thousand vectors.
        """
        self.drop_index(dimension)
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT set_config('maintenance_work_mem', %s, false),"
                " set_config('max_parallel_maintenance_workers', '0', false)",
                [f"{BUILD_MEMORY_MB}MB"],
            )
            try:
                self.execute(
                    "CREATE INDEX CONCURRENTLY {index} ON {vectors}"
                    " USING hnsw ((own::halfvec({size})) halfvec_cosine_ops) WHERE dimension = {size}",
                    index=sql.Identifier(self.corpus.index_name(dimension)),
                    size=sql.Literal(dimension),
                )
            finally:
                cursor.execute("RESET maintenance_work_mem; RESET max_parallel_maintenance_workers")

    def drop_index(self, dimension: int) -> None:
        index = sql.Identifier(self.corpus.index_name(dimension))
        self.execute("DROP INDEX CONCURRENTLY IF EXISTS {index}", index=index)

    def delete_batch(self, space_id: int, limit: int) -> int:
        """Removes up to `limit` vectors of a space, and as many texts from its queue. Returns how many rows went."""
        return sum(
            self.execute(
                "DELETE FROM {table} WHERE id IN (SELECT id FROM {table} WHERE space_id = %s LIMIT %s)",
                [space_id, limit],
                table=sql.Identifier(table),
            )
            for table in (self.queue_table, self.corpus.vector_table)
        )


VECTOR_TABLES: Register[VectorTable] = Register("openvibe.engines.search.indexing.VECTOR_TABLES")
"""Every table of vectors there is, of all floors."""

_VectorRow = list[Int8 | Int2 | bytes | None]
"""A row of a vector table as the binary COPY takes it: numbers of the column's size, vectors packed already."""

BATCH_SIZE = 500
NETWORK_BATCH_SIZE = 100
MAX_EMBEDDED_CHARACTERS = 8_000
"""Characters of a text that are embedded; of a text in a pair, half of that."""


def embed_pending(
    table: VectorTable, *, space_id: int | None = None, limit: int = 100_000, seconds: float | None = None
) -> int:
    """Makes vectors for the texts in the queue, of one space or of all, in turn; returns how many.

    Stops after `limit` of them, after so many seconds, or when none is left that may be tried now. What another worker
    is at is left to it. Never raises for an embedder's sake: the space says what is wrong and when it is tried again.
    """
    ends_at = None if seconds is None else time.monotonic() + seconds
    space_ids = deque(_pending_spaces(table, space_id))
    embedded = 0
    for pending_space_id in space_ids:
        drop_outgrown_index(table, pending_space_id)
    while space_ids and embedded < limit and (ends_at is None or time.monotonic() < ends_at):
        space = space_ids.popleft()
        with advisory_lock(table.lock_kind, space) as is_mine:
            batch_size = _embed_batch(table, space, limit - embedded) if is_mine else None
        if batch_size is not None:
            embedded += batch_size
            space_ids.append(space)
    return embedded


def back_off(space: VectorSpace, error: EmbedderUnavailable) -> None:
    """Notes in the space why it cannot go on, and when it is tried again: twice as long after each failure, or when the
    endpoint asks for."""
    row = VectorSpace.objects.filter(pk=space.pk).first()
    if row is not None:
        row.failures = min(row.failures + 1, 1_000)
        retry_after = getattr(error.__cause__, "retry_after", None) or 0.0
        pause = max(FIRST_BACKOFF_SECONDS * 2 ** min(row.failures - 1, 20) * random.uniform(0.75, 1.25), retry_after)
        row.problem = str(error)
        row.try_again_at = timezone.now() + timedelta(seconds=min(MAX_BACKOFF_SECONDS, pause))
        row.save(update_fields=["failures", "problem", "try_again_at"])
        clear_space_cache()


def record_dimension(space: VectorSpace, dimension: int) -> bool:
    """Stores the dimension that the first vector showed. False when the space has another one."""
    if space.dimension:
        return space.dimension == dimension
    clear_space_cache()
    return bool(VectorSpace.objects.filter(pk=space.pk, dimension__in=(0, dimension)).update(dimension=dimension))


def _clear_failures(space: VectorSpace) -> None:
    """Notes that the embedder answers: nothing is written where nothing was wrong."""
    failing = VectorSpace.objects.filter(pk=space.pk).exclude(state=VectorSpace.State.RETIRED)
    if failing.filter(Q(failures__gt=0) | ~Q(problem="")).update(failures=0, problem="", try_again_at=None):
        clear_space_cache()


def _pending_spaces(table: VectorTable, space_id: int | None) -> list[int]:
    """Spaces with a text in the queue that may be worked on now; those that serve come first."""
    now = timezone.now()
    return table.fetch_numbers(
        "SELECT s.id FROM search_vectorspace s WHERE s.state <> 'retired' AND s.kind <> 'none'"
        " AND coalesce(s.try_again_at <= %s OR s.try_again_at > %s, true) AND coalesce(s.id = %s, true)"
        " AND EXISTS (SELECT FROM {queue} q WHERE q.space_id = s.id AND {due})"
        " ORDER BY s.state DESC, s.id",
        [now, now + timedelta(seconds=MAX_BACKOFF_SECONDS), space_id],
    )


def _embed_batch(table: VectorTable, space_id: int, limit: int) -> int | None:
    """One batch. None when this space's queue is empty, or it cannot go on now."""
    space = VectorSpace.objects.filter(pk=space_id).first()
    if space is None:
        return None
    size = BATCH_SIZE if space.kind == VectorSpace.Kind.STATIC else NETWORK_BATCH_SIZE
    ids = table.fetch_numbers(
        "SELECT {item} FROM {queue} WHERE space_id = %s AND {due} ORDER BY {item} LIMIT %s",
        [space_id, min(size, limit)],
    )
    if not ids:
        return None
    texts = table.load_texts(ids, False)
    try:
        if space.failures:
            _check_answering(space)
        rows = _embed_separately(table, space, texts) if space.failures else _embed_items(table, space, texts)
    except EmbedderUnavailable as error:
        back_off(space, error)
        return None
    table.set_aside(space.pk, [item for item in texts if item not in rows])
    embedded = {item: text for item, text in texts.items() if item in rows}
    return _store_batch(table, space, ids, embedded, rows)


def _check_answering(space: VectorSpace) -> None:
    """Raises EmbedderUnavailable where the embedder has no vector for one plain word either."""
    embed_texts(space, ["search"])


def _embed_separately(
    table: VectorTable, space: VectorSpace, texts: dict[int, EmbeddableText]
) -> dict[int, _VectorRow]:
    """The rows of the texts that the embedder can take: all together, else those of each half by itself.

    For an embedder that failed before: one text that it chokes on must not hold up all others. A text is left out when
    it fails alone while the embedder goes on answering. Raises EmbedderUnavailable when it does not.
    """
    try:
        return _embed_items(table, space, texts)
    except EmbedderUnavailable:
        _check_answering(space)
    if len(texts) == 1:
        return {}
    items = list(texts.items())
    halves = (dict(items[: len(items) // 2]), dict(items[len(items) // 2 :]))
    return {item: row for half in halves for item, row in _embed_separately(table, space, half).items()}


def _embed_items(table: VectorTable, space: VectorSpace, texts: dict[int, EmbeddableText]) -> dict[int, _VectorRow]:
    """The row of each text, with the vectors of it, its pair and its passages, all asked for in one call.

    Raises EmbedderUnavailable.
    """
    if not texts:
        return {}
    inputs = _texts_to_embed(texts.values())
    passages = {item: _passages_to_embed(text) for item, text in texts.items()}
    vectors = embed_texts(space, [*inputs, *chain.from_iterable(passages.values())])
    dimension = vectors.shape[1]
    if not record_dimension(space, dimension):
        raise EmbedderUnavailable("Two workers were answered with vectors of two dimensions. It is tried again.")
    _clear_failures(space)
    halfvecs = [HalfVector(vector).to_binary() for vector in vectors[: len(inputs)]]
    pairs, passage_vectors = iter(halfvecs[len(texts) :]), iter(vectors[len(inputs) :])
    rows: dict[int, _VectorRow] = {}
    for own, text in zip(halfvecs, texts.values(), strict=False):
        numbers: _VectorRow = [*map(Int8, (space.pk, text.item_id, *text.columns)), Int2(dimension)]
        pair = [None if text.before is None else next(pairs)] if table.has_pairs else []
        own_passages = [*islice(passage_vectors, len(passages[text.item_id]))]
        rows[text.item_id] = [*numbers, own, *pair, binary_quantize(np.array(own_passages)) if own_passages else None]
    return rows


def _texts_to_embed(texts: Iterable[EmbeddableText]) -> list[str]:
    """What is embedded: all own texts, then the pairs of those that have one. Secrets are masked."""
    mask = cache(lambda text: mask_secrets(text[: 2 * MAX_EMBEDDED_CHARACTERS]))
    texts = list(texts)
    half_limit = MAX_EMBEDDED_CHARACTERS // 2
    own = [mask(text.text)[:MAX_EMBEDDED_CHARACTERS] for text in texts]
    return own + [
        f"{mask(text.before)[:half_limit]}\n{mask(text.text)[:half_limit]}" for text in texts if text.before is not None
    ]


def _passages_to_embed(text: EmbeddableText) -> list[str]:
    """The passages of a long text, each with its heading, none with a secret; none of a short one."""
    if not is_long(text.text):
        return []
    masked_text = mask_secrets(text.text[: 2 * MAX_EMBEDDED_CHARACTERS])[:MAX_EMBEDDED_CHARACTERS].removeprefix(
        text.heading
    )
    return [f"{text.heading}{passage}" for passage in split_passages(masked_text) if passage.strip()]


def _store_batch(
    table: VectorTable,
    space: VectorSpace,
    ids: list[int],
    texts: dict[int, EmbeddableText],
    rows: dict[int, _VectorRow],
) -> int:
    """Stores what is still true, and takes it from the queue. Returns how many vectors were stored."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT state FROM search_vectorspace WHERE id = %s FOR SHARE", [space.pk])
        if (cursor.fetchone() or ("retired",))[0] == VectorSpace.State.RETIRED:
            return 0
        current = table.load_texts(ids, True)
        unchanged_items = [item for item, text in texts.items() if current.get(item) == text]
        finished = [*unchanged_items, *(item for item in ids if item not in current)]
        # "+ 0": by its texts alone, or a space the planner knows nothing of yet is read as a whole for every batch.
        table.execute("DELETE FROM {vectors} WHERE space_id + 0 = %s AND {item} = ANY(%s)", [space.pk, finished])
        table.execute("DELETE FROM {queue} WHERE space_id = %s AND {item} = ANY(%s)", [space.pk, finished])
        pair = ["pair"] if table.has_pairs else []
        names = ["space_id", table.corpus.item_column, *table.extra_columns, "dimension", "own", *pair, "parts"]
        columns = sql.SQL(", ").join(map(sql.Identifier, names))
        with cursor.copy(
            table.compose("COPY {vectors} ({columns}) FROM STDIN (FORMAT binary)", columns=columns)
        ) as copy:
            for item in unchanged_items:
                copy.write_row(rows[item])
    return len(unchanged_items)


MAX_INSERTED_VECTORS = 10_000
"""Texts that may wait while each vector is put into a standing HNSW index by itself."""
BUILD_MEMORY_MB = 1_024
"""What PostgreSQL may use to build an HNSW index: 650,000 vectors of 256 numbers; more take longer."""


def drop_outgrown_index(table: VectorTable, space_id: int) -> None:
    """Drops the HNSW index of a space's dimension where most of its vectors are still to be made.

    An index that is built of all vectors at once costs a tenth of one that takes them in one by one.
    `build_missing_indexes` makes it again; until then what used it compares all vectors.
    """
    pending_count = table.count_pending(space_id)
    dimension = VectorSpace.objects.filter(pk=space_id).values_list("dimension", flat=True).first()
    if pending_count <= MAX_INSERTED_VECTORS or not dimension or not table.corpus.has_index(dimension):
        return
    count = "SELECT count(*) FROM (SELECT FROM {vectors} WHERE dimension = %s LIMIT %s) counted"
    with advisory_lock(LockKind.VECTOR_SPACES, 0) as is_mine:  # nobody builds it meanwhile
        if is_mine and table.fetch_numbers(count, [dimension, pending_count])[0] < pending_count:
            table.drop_index(dimension)


def build_missing_indexes() -> None:
    """Builds the HNSW indexes of spaces in use that were taken away, or left half made by a worker that died.

    Not while many of a table's texts wait. The caller owns the lock of vector spaces.
    """
    serving = VectorSpace.objects.filter(state=VectorSpace.State.SERVING, dimension__gt=0)
    for dimension in serving.values_list("dimension", flat=True).distinct().order_by():
        for table in VECTOR_TABLES:
            spaces = serving.filter(dimension=dimension).values_list("pk", flat=True)
            if not table.corpus.has_index(dimension) and all(
                table.count_pending(space_id) <= MAX_INSERTED_VECTORS for space_id in spaces
            ):
                table.build_index(dimension)


def create_hnsw_indexes(dimension: int) -> None:
    """The HNSW indexes of a dimension, where they do not stand."""
    for table in VECTOR_TABLES:
        if not table.corpus.has_index(dimension):
            table.build_index(dimension)


def drop_hnsw_indexes(dimension: int) -> None:
    if dimension in (0, BUILT_IN_EMBEDDER.dimension) or VectorSpace.objects.filter(dimension=dimension).exists():
        return
    for table in VECTOR_TABLES:
        table.drop_index(dimension)
