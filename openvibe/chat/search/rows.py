"""SQL of the thread search: columns of many messages in one packed value, then the texts of the few selected.

One packed value instead of a row a message: taking thousands of rows apart costs more than finding them."""

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

from openvibe.base.prepared_statements import fetch_prepared
from openvibe.base.query_cache import CompiledQuery, array_literal
from openvibe.chat.models import Thread, asker_values, placeholder_access
from openvibe.llm.tokens import count_tokens
from openvibe.search.candidates import Corpus
from openvibe.search.passages import best_passage_similarity
from openvibe.search.query import Query, QueryShape, term_bits_sql
from openvibe.search.values import Floats
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import ASSISTANT_KINDS

MESSAGE_DTYPE = np.dtype(
    [
        ("id", ">i8"),
        ("seq", ">i8"),
        ("author", ">i8"),
        ("at", ">i8"),
        ("tokens", ">i4"),
        ("print", ">i4"),
        ("bits", ">i4"),
    ]
)
"""`at`: microseconds since 2000, as PostgreSQL keeps a time."""

VECTOR_DTYPE = np.dtype([("seq", ">i8"), ("own", ">f4"), ("pair", ">f4")])
PARTS_DTYPE = np.dtype([("seq", ">i8"), ("size", ">i4")])
COUNTS_DTYPE = np.dtype([("vectors", ">i4"), ("parts", ">i4")])

_PACKED_MESSAGES = sql.SQL("""(SELECT string_agg(int8send(id) || int8send(seq) || int8send(author_id) ||
timestamptz_send(created_at) || int4send(token_count) || int4send(hashtext(body)) || int4send({bits}), ''::bytea)
FROM chat_message WHERE thread_id = %(thread)s AND {where} AND kind = ANY(%(kinds)s)
AND state IN ('complete', 'stopped') AND deleted_at IS NULL)""")

# Inner products of unit vectors are cosines; pgvector gives them negative. Passages are compared here, not there.
_PACKED_VECTORS = sql.SQL("""(SELECT int4send(count(*)::int4) || int4send(count(parts)::int4)
|| string_agg(int8send(seq) || float4send((own <#> %(vector)s::halfvec)::float4)
|| float4send(coalesce((pair <#> %(vector)s::halfvec)::float4, 'NaN')), ''::bytea)
|| coalesce(string_agg(int8send(seq) || int4send(length(parts)), ''::bytea) FILTER (WHERE parts IS NOT NULL)
|| string_agg(parts, ''::bytea), ''::bytea) FROM chat_messagevector
WHERE thread_id = %(thread)s AND space_id = %(space)s AND dimension = %(dimension)s AND {where})""")

_SEQ_RANGE = sql.SQL("seq >= %(since)s AND seq < %(before)s")
_SEQ_LIST = sql.SQL("seq = ANY(%(seqs)s::bigint[])")

_SELECT_AUTHORS = sql.SQL("""SELECT id, name, kind, {bits} FROM (SELECT id, name, kind, name AS body,
to_tsvector('english', name) AS search FROM workspaces_participant
WHERE id = ANY(%(authors)s::bigint[]) OFFSET 0) authors""")

_SELECT_TEXTS = """SELECT m.id, m.seq, m.thread_id, m.kind, m.body, m.token_count, m.author_id, p.name, p.kind,
(extract(epoch FROM m.created_at) * 1000000)::bigint
FROM chat_message m JOIN workspaces_participant p ON p.id = m.author_id
WHERE m.id = ANY(%s::bigint[]) AND m.state IN ('complete', 'stopped') AND m.deleted_at IS NULL"""

# A time comes as a number of microseconds since: the driver takes far longer over times.
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

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
_OLDER_BY_EXACT_SCAN = """SELECT seq FROM chat_messagevector WHERE thread_id = %(thread)s AND space_id = %(space)s
AND seq = ANY(ARRAY(SELECT seq FROM (SELECT seq, pair_signs <~> %(signs)s::varbit AS far FROM chat_messagevector
WHERE thread_id = %(thread)s AND space_id = %(space)s AND dimension = %(dimension)s
AND seq < %(before)s AND seq %% 2 = 0 OFFSET 0) compared ORDER BY far LIMIT %(nearest)s))
ORDER BY pair <#> %(vector)s::halfvec LIMIT %(most)s"""

MESSAGES = Corpus(table="chat_message", text_sql="e.body", vector_table="chat_messagevector", item_column="message_id")

LEXICAL_CANDIDATES = 25
VECTOR_CANDIDATES = 20
SIGNS_OVERSAMPLING = 4
"""Signs alone are rough: so many times the messages wanted are compared in full."""


@dataclass(frozen=True, slots=True)
class MessageColumns:
    """What was read of some messages of a thread, by seq: MESSAGE rows, and VECTOR values beside each (NaN: none)."""

    messages: NDArray[Any]
    own_similarity: NDArray[np.float32] | None
    pair_similarity: NDArray[np.float32] | None

    def only(self, keep: NDArray[np.bool_]) -> MessageColumns:
        """Those where `keep` is true."""
        columns = (None if column is None else column[keep] for column in (self.own_similarity, self.pair_similarity))
        return MessageColumns(self.messages[keep], *columns)

    def merge(self, other: MessageColumns) -> MessageColumns:
        """These and others of the same question, none of them twice, by seq."""
        messages = np.concatenate((self.messages, other.messages))
        order = np.argsort(messages["seq"])
        own, pair = (
            None if one is None or other is None else np.concatenate((one, other))[order]
            for one, other in (
                (self.own_similarity, other.own_similarity),
                (self.pair_similarity, other.pair_similarity),
            )
        )
        return MessageColumns(messages[order], own, pair)


def term_hits(query: Query, columns: MessageColumns) -> NDArray[np.uint8]:
    """Messages × terms: 1 where a message holds a term."""
    return query.hits(columns.messages["bits"].astype(np.int64))


def visible_last_seq(access: Access, thread_id: int) -> int | None:
    """The seq of the thread's last message; None when the asker does not see the thread."""
    rows = _visible_threads(access.shape).rows(*asker_values(access), thread_id)
    return rows[0][0] if rows else None


@cache
def _visible_threads(shape: Access) -> CompiledQuery:
    def statement(*values: int) -> QuerySet[Thread, Any]:
        *asker, thread_id = values
        threads: QuerySet[Thread] = Thread.objects.visible_to(placeholder_access(shape, *asker))
        return threads.filter(pk=thread_id).order_by().values_list("last_seq")

    return CompiledQuery(statement, 5)


def read_messages(
    thread_id: int, query: Query, kinds: Sequence[str], *, since: int = 1, before: int = 1, seqs: Sequence[int] = ()
) -> MessageColumns:
    """The messages `seqs`, or where none are named those from `since` to before `before`."""
    question = query.embedding
    values: dict[str, object] = {**query.values, "thread": thread_id, "kinds": list(kinds)}
    values |= {"seqs": array_literal(seqs)} if seqs else {"since": since, "before": before}
    if question is not None:
        values |= query.vector_parameters
    row = fetch_prepared(_columns_statement(query.shape, question is not None, not seqs), values)[0]
    messages = np.frombuffer(row[0] or b"", MESSAGE_DTYPE)
    messages = messages[np.argsort(messages["seq"])]
    if question is None:
        return MessageColumns(messages, None, None)
    packed = row[1] or bytes(COUNTS_DTYPE.itemsize)
    return MessageColumns(messages, *_similarities(messages["seq"], packed, question.vector))


def _similarities(seqs: NDArray[Any], packed: bytes, question: Floats) -> tuple[Floats, Floats]:
    """Cosines of own text, or its nearest passage, and of the pair for each of these messages."""
    counts = np.frombuffer(packed, COUNTS_DTYPE, 1)[0]
    vectors = np.frombuffer(packed, VECTOR_DTYPE, counts["vectors"], COUNTS_DTYPE.itemsize)
    start = COUNTS_DTYPE.itemsize + vectors.nbytes
    parts = np.frombuffer(packed, PARTS_DTYPE, counts["parts"], start)
    passages = best_passage_similarity(packed[start + parts.nbytes :], parts["size"].astype(np.int64), question)
    own, pair = np.full((2, len(seqs)), np.nan, np.float32)
    if len(seqs):
        positions, is_match = _match_positions(seqs, vectors["seq"])
        own[positions] = -vectors["own"][is_match]
        pair[positions] = -vectors["pair"][is_match]
        positions, is_match = _match_positions(seqs, parts["seq"])
        own[positions] = np.maximum(own[positions], passages[is_match])
    return own, pair


def _match_positions(seqs: NDArray[Any], targets: NDArray[Any]) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Where the wanted stand among the seqs, and which of them do."""
    positions = np.searchsorted(seqs, targets).clip(max=len(seqs) - 1)
    is_match = np.asarray(seqs[positions] == targets)
    return positions[is_match], is_match


@cache
def _columns_statement(shape: QueryShape, has_vector: bool, is_range: bool) -> str:
    where = _SEQ_RANGE if is_range else _SEQ_LIST
    parts = [_PACKED_MESSAGES.format(bits=term_bits_sql(shape), where=where)]
    if has_vector:
        parts.append(_PACKED_VECTORS.format(where=where))
    return sql.SQL("SELECT {}").format(sql.SQL(", ").join(parts)).as_string()


def older_by_words(
    thread_id: int, query: Query, kinds: Sequence[str], words: str, weights: Sequence[float], before: int
) -> list[int]:
    """Seqs before `before` of the matching messages whose terms weigh most, the newer first among equals."""
    weight = sql.SQL(" + ").join(
        sql.SQL("CASE WHEN search @@ {}::tsquery THEN {}::float4 ELSE 0 END").format(term.text, round(weight, 3))
        for term, weight in zip(query.terms, weights, strict=True)
        if term.is_indexed
    )
    values = {"thread": thread_id, "before": before, "words": words, "kinds": list(kinds)}
    return _fetch_unprepared(_OLDER_BY_WORDS.format(weight=weight), {**values, "most": LEXICAL_CANDIDATES})


def older_by_meaning(thread_id: int, query: Query, before: int, *, use_index: bool) -> list[int]:
    """Seqs before `before` of what is near in meaning: messages, about the nearest, by the index of all vectors there
    are; without it the nearest pairs of the thread."""
    if query.embedding is None:
        return []
    values = {**query.vector_parameters, "thread": thread_id, "before": before, "most": VECTOR_CANDIDATES}
    if use_index:
        return _fetch_unprepared(_OLDER_BY_INDEX.format(dimension=query.embedding.dimension), values)
    values |= {"signs": query.sign_bits, "nearest": SIGNS_OVERSAMPLING * VECTOR_CANDIDATES}
    return [row[0] for row in fetch_prepared(_OLDER_BY_EXACT_SCAN, values)]


def _fetch_unprepared(statement: sql.Composed, values: Mapping[str, Any]) -> list[int]:
    """The numbers a statement gives whose best plan depends on its values."""
    with connection.cursor() as cursor:
        cursor.execute(statement.as_string(), values)
        return [row[0] for row in cursor.fetchall()]


def load_authors(query: Query, author_ids: Sequence[int]) -> dict[int, tuple[int, int, bool]]:
    """For each author: what the name costs in front of a text, in tokens; which terms it holds, as bits; whether this
    is a person."""
    rows = fetch_prepared(_authors_statement(query.shape), {**query.values, "authors": array_literal(author_ids)})
    return {pk: (name_tokens(name), bits, kind not in ASSISTANT_KINDS) for pk, name, kind, bits in rows}


@cache
def _authors_statement(shape: QueryShape) -> str:
    return _SELECT_AUTHORS.format(bits=term_bits_sql(shape)).as_string()


@lru_cache(maxsize=4_096)
def name_tokens(name: str) -> int:
    return count_tokens(f"{name}: ")


def load_texts(ids: Sequence[int]) -> dict[int, tuple[Any, ...]]:
    """The messages as they are now, by id; those deleted meanwhile are left out."""
    rows = fetch_prepared(_SELECT_TEXTS, [array_literal(ids)])
    return {row[0]: (*row[:-1], _EPOCH + timedelta(microseconds=row[-1])) for row in rows}
