"""What a search reads of a thread: numbers of many messages in one packed value, then the texts of the few chosen.

One packed value instead of a row a message: taking thousands of rows apart costs more than finding them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache
from typing import Any

import numpy as np
from django.db import connection
from django.db.models import QuerySet
from numpy.typing import NDArray
from psycopg import sql

from openvibe.base.compiled import Compiled, array
from openvibe.base.prepared import prepared_rows
from openvibe.chat.models import Thread
from openvibe.llm.tokens import count
from openvibe.search.asking import Asked, Shape, bits_of
from openvibe.search.passages import nearest
from openvibe.search.values import Floats
from openvibe.workspaces.access import Access

MESSAGE = np.dtype(
    [("id", ">i8"), ("seq", ">i8"), ("author", ">i8"), ("tokens", ">i4"), ("print", ">i4"), ("bits", ">i4")]
)
VECTOR = np.dtype([("seq", ">i8"), ("own", ">f4"), ("pair", ">f4")])
PARTS = np.dtype([("seq", ">i8"), ("size", ">i4")])
COUNTS = np.dtype([("vectors", ">i4"), ("parts", ">i4")])

_MESSAGES = sql.SQL("""(SELECT string_agg(int8send(id) || int8send(seq) || int8send(author_id) || int4send(token_count)
|| int4send(hashtext(body)) || int4send({bits}), ''::bytea) FROM chat_message
WHERE thread_id = %(thread)s AND {where} AND kind = ANY(%(kinds)s) AND state IN ('complete', 'stopped')
AND deleted_at IS NULL)""")

# Inner products of unit vectors are cosines; pgvector gives them negative. Passages are compared here, not there.
_VECTORS = sql.SQL("""(SELECT int4send(count(*)::int4) || int4send(count(parts)::int4)
|| string_agg(int8send(seq) || float4send((own <#> %(vector)s::halfvec)::float4)
|| float4send(coalesce((pair <#> %(vector)s::halfvec)::float4, 'NaN')), ''::bytea)
|| coalesce(string_agg(int8send(seq) || int4send(length(parts)), ''::bytea) FILTER (WHERE parts IS NOT NULL)
|| string_agg(parts, ''::bytea), ''::bytea) FROM chat_messagevector
WHERE thread_id = %(thread)s AND space_id = %(space)s AND dimension = %(dimension)s AND {where})""")

_STRETCH = sql.SQL("seq >= %(since)s AND seq < %(before)s")
_THESE = sql.SQL("seq = ANY(%(seqs)s::bigint[])")

_AUTHORS = sql.SQL("""SELECT id, name, {bits} FROM (SELECT id, name, name AS body,
to_tsvector('english', name) AS search FROM workspaces_participant
WHERE id = ANY(%(authors)s::bigint[]) OFFSET 0) authors""")

_TEXTS = """SELECT m.id, m.seq, m.thread_id, m.kind, m.body, m.token_count, m.author_id, p.name, p.kind,
(extract(epoch FROM m.created_at) * 1000000)::bigint
FROM chat_message m JOIN workspaces_participant p ON p.id = m.author_id
WHERE m.id = ANY(%s::bigint[]) AND m.state IN ('complete', 'stopped') AND m.deleted_at IS NULL"""

# A time comes as a number of microseconds since: the driver takes far longer over times.
_BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)

_OLDER_BY_WORDS = sql.SQL("""SELECT seq FROM chat_message WHERE thread_id = %(thread)s AND seq < %(before)s
AND search @@ %(words)s::tsquery AND kind = ANY(%(kinds)s) AND state IN ('complete', 'stopped')
AND deleted_at IS NULL ORDER BY {weight} DESC, seq DESC LIMIT %(most)s""")

# The settings hold for this statement, or to the end of the transaction around it; they touch vector searches alone.
_OLDER_BY_INDEX = sql.SQL("""SELECT seq FROM chat_messagevector WHERE (SELECT set_config('hnsw.ef_search', '60', true)
|| set_config('hnsw.iterative_scan', 'relaxed_order', true)
|| set_config('hnsw.max_scan_tuples', '1000', true)) IS NOT NULL AND dimension = {dimension}
AND thread_id = %(thread)s AND space_id = %(space)s AND seq < %(before)s
ORDER BY own::halfvec({dimension}) <=> %(vector)s::halfvec({dimension}) LIMIT %(most)s""")

# A pair holds two messages, so every second one tells of all of them. First by the signs of their numbers, which stand
# in an index of their own; then the nearest in full.
_OLDER_BY_COMPARING = """SELECT seq FROM chat_messagevector WHERE thread_id = %(thread)s AND space_id = %(space)s
AND seq = ANY(ARRAY(SELECT seq FROM (SELECT seq, pair_signs <~> %(signs)s::varbit AS far FROM chat_messagevector
WHERE thread_id = %(thread)s AND space_id = %(space)s AND dimension = %(dimension)s
AND seq < %(before)s AND seq %% 2 = 0 OFFSET 0) compared ORDER BY far LIMIT %(nearest)s))
ORDER BY pair <#> %(vector)s::halfvec LIMIT %(most)s"""

BY_SIGNS = 4
"""Signs alone are rough: so many times the messages wanted are compared in full."""


@dataclass(frozen=True, slots=True)
class Place:
    """A thread the asker sees."""

    thread_id: int
    workspace_id: int
    last_seq: int


@dataclass(frozen=True, slots=True)
class Read:
    """What was read of some messages of a thread, by seq: MESSAGE rows, and VECTOR values beside each (NaN: none)."""

    messages: NDArray[Any]
    own: NDArray[np.float32] | None
    pair: NDArray[np.float32] | None

    def only(self, keep: NDArray[np.bool_]) -> Read:
        """Those where `keep` is true."""
        columns = (None if column is None else column[keep] for column in (self.own, self.pair))
        return Read(self.messages[keep], *columns)

    def and_also(self, others: Read) -> Read:
        """These and others of the same question, none of them twice, by seq."""
        messages = np.concatenate((self.messages, others.messages))
        order = np.argsort(messages["seq"])
        own, pair = (
            None if one is None or other is None else np.concatenate((one, other))[order]
            for one, other in ((self.own, others.own), (self.pair, others.pair))
        )
        return Read(messages[order], own, pair)


def hits_of(asked: Asked, read: Read) -> NDArray[np.uint8]:
    """Messages × terms: 1 where a message holds a term."""
    return asked.hits(read.messages["bits"].astype(np.int64))


def place_of(access: Access, thread_id: int) -> Place | None:
    """The thread, None when the asker does not see it."""
    rows = _visible(access.shape).rows(access.workspace_id, access.participant_id, thread_id)
    return Place(*rows[0]) if rows else None


@cache
def _visible(shape: Access) -> Compiled:
    def statement(workspace_id: int, participant_id: int, thread_id: int) -> QuerySet[Thread, Any]:
        seen: QuerySet[Thread] = Thread.objects.visible_to(shape.held_by(workspace_id, participant_id))
        return seen.filter(pk=thread_id).order_by().values_list("pk", "workspace_id", "last_seq")

    return Compiled(statement, 3)


def read_stretch(place: Place, asked: Asked, kinds: Sequence[str], since: int, before: int) -> Read:
    """Messages `since` to before `before`."""
    return _read(place, asked, kinds, {"since": since, "before": before}, is_stretch=True)


def read_these(place: Place, asked: Asked, kinds: Sequence[str], seqs: Sequence[int]) -> Read:
    return _read(place, asked, kinds, {"seqs": array(seqs)}, is_stretch=False)


def _read(place: Place, asked: Asked, kinds: Sequence[str], where: Mapping[str, object], *, is_stretch: bool) -> Read:
    question = asked.question
    values = {**asked.values, **where, "thread": place.thread_id, "kinds": list(kinds)}
    if question is not None:
        values |= {"vector": asked.vector, "space": question.space_id, "dimension": question.dimension}
    row = prepared_rows(_reading(asked.shape, question is not None, is_stretch), values)[0]
    messages = np.frombuffer(row[0] or b"", MESSAGE)
    messages = messages[np.argsort(messages["seq"])]
    if question is None:
        return Read(messages, None, None)
    return Read(messages, *_beside(messages["seq"], row[1] or bytes(COUNTS.itemsize), question.vector))


def _beside(seqs: NDArray[Any], packed: bytes, question: Floats) -> tuple[Floats, Floats]:
    """Cosines of own text, or its nearest passage, and of the pair for each of these messages."""
    counts = np.frombuffer(packed, COUNTS, 1)[0]
    vectors = np.frombuffer(packed, VECTOR, counts["vectors"], COUNTS.itemsize)
    start = COUNTS.itemsize + vectors.nbytes
    parts = np.frombuffer(packed, PARTS, counts["parts"], start)
    passages = nearest(packed[start + parts.nbytes :], parts["size"].astype(np.int64), question)
    own, pair = np.full((2, len(seqs)), np.nan, np.float32)
    if len(seqs):
        at, stands = _places(seqs, vectors["seq"])
        own[at] = -vectors["own"][stands]
        pair[at] = -vectors["pair"][stands]
        at, stands = _places(seqs, parts["seq"])
        own[at] = np.maximum(own[at], passages[stands])
    return own, pair


def _places(seqs: NDArray[Any], wanted: NDArray[Any]) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Where the wanted stand among the seqs, and which of them do."""
    at = np.searchsorted(seqs, wanted).clip(max=len(seqs) - 1)
    stands = np.asarray(seqs[at] == wanted)
    return at[stands], stands


@cache
def _reading(shape: Shape, has_vector: bool, is_stretch: bool) -> str:
    where = _STRETCH if is_stretch else _THESE
    parts = [_MESSAGES.format(bits=bits_of(shape), where=where)]
    if has_vector:
        parts.append(_VECTORS.format(where=where))
    return sql.SQL("SELECT {}").format(sql.SQL(", ").join(parts)).as_string()


def older_by_words(
    place: Place, asked: Asked, kinds: Sequence[str], words: str, weights: Sequence[float], before: int, most: int
) -> list[int]:
    """Seqs before `before` of the `most` matching messages whose terms weigh most, the newer first among equals."""
    indexed = [(term.text, weight) for term, weight in zip(asked.terms, weights, strict=True) if term.is_indexed]
    weight = sql.SQL(" + ").join(
        sql.SQL("CASE WHEN search @@ {}::tsquery THEN {}::float4 ELSE 0 END").format(text, round(weight, 3))
        for text, weight in indexed
    )
    values = {
        "thread": place.thread_id, "before": before, "words": words, "kinds": list(kinds), "most": most,
    }  # fmt: skip
    return _planned_now(_OLDER_BY_WORDS.format(weight=weight), values)


def older_by_index(place: Place, asked: Asked, before: int, most: int) -> list[int]:
    """Seqs before `before` of about `most` messages near in meaning, by the index of all vectors there are."""
    question = asked.question
    if question is None:
        return []
    values = {
        "thread": place.thread_id, "before": before, "space": question.space_id, "vector": asked.vector, "most": most,
    }  # fmt: skip
    return _planned_now(_OLDER_BY_INDEX.format(dimension=question.dimension), values)


def older_by_comparing(place: Place, asked: Asked, before: int, most: int) -> list[int]:
    """Seqs before `before` of the `most` pairs nearest in meaning."""
    question = asked.question
    if question is None:
        return []
    values = {
        "thread": place.thread_id, "before": before, "space": question.space_id, "dimension": question.dimension,
        "vector": asked.vector, "signs": asked.signs, "nearest": BY_SIGNS * most, "most": most,
    }  # fmt: skip
    return [row[0] for row in prepared_rows(_OLDER_BY_COMPARING, values)]


def _planned_now(statement: sql.Composed, values: Mapping[str, Any]) -> list[int]:
    """The numbers a statement gives whose best plan depends on its values."""
    with connection.cursor() as cursor:
        cursor.execute(statement.as_string(), values)
        return [row[0] for row in cursor.fetchall()]


def authors_of(asked: Asked, authors: Sequence[int]) -> dict[int, tuple[int, int]]:
    """For each author: what the name costs in front of a text, in tokens, and which terms it holds, as bits."""
    rows = prepared_rows(_naming(asked.shape), {**asked.values, "authors": array(authors)})
    return {pk: (name_cost(name), bits) for pk, name, bits in rows}


@cache
def _naming(shape: Shape) -> str:
    return _AUTHORS.format(bits=bits_of(shape)).as_string()


@lru_cache(maxsize=4_096)
def name_cost(name: str) -> int:
    return count(f"{name}: ")


def texts_of(ids: Sequence[int]) -> dict[int, tuple[Any, ...]]:
    """The messages as they are now, by id; those deleted meanwhile are left out."""
    rows = prepared_rows(_TEXTS, [array(ids)])
    return {row[0]: (*row[:-1], _BEGINNING + timedelta(microseconds=row[-1])) for row in rows}
