"""Making vectors of texts that wait for theirs: batch by batch, safe to kill anywhere.

A text that waits is taken away in the transaction that stores its vector, and only if it is still what was embedded:
nothing is lost, and nothing stale stays.
"""

from __future__ import annotations

import random
import time
from collections import deque
from collections.abc import Iterable
from datetime import timedelta
from functools import cache
from itertools import chain, islice
from typing import NamedTuple

import numpy as np
from django.db import connection, transaction
from django.db.models import Q
from django.utils import timezone
from psycopg import sql

from openvibe.base.ownership import owned
from openvibe.base.secrets import mask_secrets
from openvibe.search.binary import Row, copied, packed
from openvibe.search.embedders import EmbedderDown
from openvibe.search.models import VectorSpace
from openvibe.search.passages import is_long, passages_of, signs_of
from openvibe.search.spaces import Space, forget, read_space, vectors_of
from openvibe.search.tables import Readable, VectorTable

BATCH = 500
NETWORK_BATCH = 100
LONGEST_TEXT = 8_000
"""Characters of a text that are embedded; of a text in a pair, half of that."""
FIRST_PAUSE, LONGEST_PAUSE = 5.0, 900.0
"""Seconds that a network embedder is left alone after its first failure, and at most."""


def work_off(
    table: VectorTable, *, space_id: int | None = None, limit: int = 100_000, seconds: float | None = None
) -> int:
    """Make vectors for texts that wait, in one space or in all, in turn; how many were made.

    Stops after `limit` of them, after so many seconds, or when none waits that may be tried now. What another worker
    is at is left to it. Never raises for an embedder's sake: the space says what is wrong and when it is tried again.
    """
    ends_at = None if seconds is None else time.monotonic() + seconds
    turns = deque(_spaces(table, space_id))
    made = 0
    while turns and made < limit and (ends_at is None or time.monotonic() < ends_at):
        space = turns.popleft()
        with owned(table.piece, space) as is_mine:
            done = _batch(table, space, limit - made) if is_mine else None
        if done is not None:
            made += done
            turns.append(space)
    return made


def back_off(space: Space, error: EmbedderDown) -> None:
    """Note in the space why it cannot go on, and when it is tried again: twice as long after each failure,
    or when the endpoint asks for."""
    row = VectorSpace.objects.filter(pk=space.id).first()
    if row is not None:
        row.failures = min(row.failures + 1, 1_000)
        asked = getattr(error.__cause__, "retry_after", None) or 0.0
        pause = max(FIRST_PAUSE * 2 ** min(row.failures - 1, 20) * random.uniform(0.75, 1.25), asked)
        pause = min(LONGEST_PAUSE, pause)
        row.problem, row.try_again_at = str(error), timezone.now() + timedelta(seconds=pause)
        row.save(update_fields=["failures", "problem", "try_again_at"])
        forget()


def learn_dimension(space: Space, dimension: int) -> bool:
    """Keep the dimension that the first vector showed. False when the space has another one."""
    if space.dimension:
        return space.dimension == dimension
    forget()
    return bool(VectorSpace.objects.filter(pk=space.id, dimension__in=(0, dimension)).update(dimension=dimension))


def _recovered(space: Space) -> None:
    """Note that the embedder answers: nothing is written where nothing was wrong."""
    troubled = VectorSpace.objects.filter(pk=space.id).exclude(state=VectorSpace.State.RETIRED)
    if troubled.filter(Q(failures__gt=0) | ~Q(problem="")).update(failures=0, problem="", try_again_at=None):
        forget()


def _spaces(table: VectorTable, space_id: int | None) -> list[int]:
    """Spaces in which something waits and that may be worked on now; those that serve come first."""
    statement = table.sql(
        "SELECT s.id FROM search_vectorspace s WHERE s.state <> 'retired' AND s.kind <> 'none'"
        " AND coalesce(s.try_again_at <= %s, true) AND coalesce(s.id = %s, true)"
        " AND EXISTS (SELECT FROM {waiting} q WHERE q.space_id = s.id) ORDER BY s.state DESC, s.id"
    )
    with connection.cursor() as cursor:
        cursor.execute(statement, [timezone.now(), space_id])
        return [space for (space,) in cursor.fetchall()]


def _batch(table: VectorTable, space_id: int, most: int) -> int | None:
    """One batch. None when nothing waits in this space any more, or it cannot go on now."""
    space = read_space(pk=space_id)
    if space is None:
        return None
    size = BATCH if space.kind == VectorSpace.Kind.STATIC else NETWORK_BATCH
    ids = _next(table, space_id, min(size, most))
    if not ids:
        return None
    texts = table.read(ids, False)
    try:
        made = _embedded(space, texts)
    except EmbedderDown as error:
        back_off(space, error)
        return None
    return _stored(table, space, ids, texts, made)


def _next(table: VectorTable, space_id: int, most: int) -> list[int]:
    statement = table.sql("SELECT {item} FROM {waiting} WHERE space_id = %s ORDER BY {item} LIMIT %s")
    with connection.cursor() as cursor:
        cursor.execute(statement, [space_id, most])
        return [item for (item,) in cursor.fetchall()]


class _Made(NamedTuple):
    """Vectors by item, packed for the table."""

    dimension: int
    own: dict[int, bytes]
    pair: dict[int, bytes]
    parts: dict[int, bytes | None]


def _embedded(space: Space, texts: dict[int, Readable]) -> _Made:
    """The vectors of all these texts, their pairs and passages, asked for in one call. Raises EmbedderDown."""
    if not texts:
        return _Made(space.dimension, {}, {}, {})
    written = _written(texts.values())
    passages = {item: _passages(text) for item, text in texts.items()}
    made = vectors_of(space, [*written, *chain.from_iterable(passages.values())])
    if not learn_dimension(space, made.shape[1]):
        raise EmbedderDown("Two workers were answered with vectors of two dimensions. It is tried again.")
    _recovered(space)
    rows = packed(made[: len(written)])
    own = dict(zip(texts, rows, strict=False))
    paired = (item for item, text in texts.items() if text.before is not None)
    pair = dict(zip(paired, rows[len(texts) :], strict=True))
    vectors = iter(made[len(written) :])
    parts = {item: signs_of(np.array([*islice(vectors, len(each))])) for item, each in passages.items() if each}
    return _Made(made.shape[1], own, pair, parts)


def _written(texts: Iterable[Readable]) -> list[str]:
    """What is embedded: all own texts, then the pairs of those that have one. Secrets are masked."""
    safe = cache(lambda text: mask_secrets(text[: 2 * LONGEST_TEXT]))
    texts = list(texts)
    half = LONGEST_TEXT // 2
    own = [safe(one.own)[:LONGEST_TEXT] for one in texts]
    return own + [f"{safe(one.before)[:half]}\n{safe(one.own)[:half]}" for one in texts if one.before is not None]


def _passages(text: Readable) -> list[str]:
    """The passages of a long text, each with its heading, none with a secret; none of a short one."""
    if not is_long(text.own):
        return []
    said = mask_secrets(text.own[: 2 * LONGEST_TEXT])[:LONGEST_TEXT].removeprefix(text.heading)
    return [f"{text.heading}{passage}" for passage in passages_of(said) if passage.strip()]


def _stored(table: VectorTable, space: Space, ids: list[int], texts: dict[int, Readable], made: _Made) -> int:
    """Store what is still true, and take it from those that wait. How many vectors were stored."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT state FROM search_vectorspace WHERE id = %s FOR SHARE", [space.id])
        if (cursor.fetchone() or ("retired",))[0] == VectorSpace.State.RETIRED:
            return 0
        now = table.read(ids, True)
        kept = [item for item, text in texts.items() if now.get(item) == text]
        settled = [*kept, *(item for item in ids if item not in now)]
        for statement in (_FORGET_VECTORS, _FORGET_WAITING):
            cursor.execute(table.sql(statement), [space.id, settled])
        pair = ["pair"] if table.has_pairs else []
        names = ["space_id", table.item, *table.columns, "dimension", "own", *pair, "parts"]
        columns = sql.SQL(", ").join(map(sql.Identifier, names))
        with cursor.copy(table.sql("COPY {vectors} ({columns}) FROM STDIN (FORMAT binary)", columns=columns)) as copy:
            copy.write(copied(_row(table, space, texts[item], made) for item in kept))
    return len(kept)


# "+ 0": by its texts alone, or a space that the planner knows nothing of yet is read as a whole for every batch.
_FORGET_VECTORS = "DELETE FROM {vectors} WHERE space_id + 0 = %s AND {item} = ANY(%s)"
_FORGET_WAITING = "DELETE FROM {waiting} WHERE space_id = %s AND {item} = ANY(%s)"


def _row(table: VectorTable, space: Space, text: Readable, made: _Made) -> Row:
    item = text.item_id
    pair = [made.pair.get(item)] if table.has_pairs else []
    return (space.id, item, *text.columns), made.dimension, [made.own[item], *pair, made.parts.get(item)]
