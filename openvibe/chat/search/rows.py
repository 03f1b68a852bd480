"""SQL of the thread search: columns of many messages in one packed value, then the texts of the few selected.

One packed value instead of a row a message: taking thousands of rows apart costs more than finding them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from psycopg import sql

from openvibe.chat.models import sees_thread
from openvibe.engines.database.compiled_queries import array_literal
from openvibe.engines.database.prepared_statements import fetch_prepared
from openvibe.engines.llm.tokens import count_tokens
from openvibe.engines.search.candidates import Corpus
from openvibe.engines.search.passages import best_passage_similarity
from openvibe.engines.search.query import Query, QueryShape, term_bits_sql
from openvibe.engines.search.values import Floats
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

_MESSAGES = """SELECT id, seq, author_id, created_at, token_count, hashtext(body) AS print, {bits} AS bits
FROM chat_message WHERE thread_id = %(thread)s AND {where} AND kind = ANY(%(kinds)s)
AND state IN ('complete', 'stopped') AND deleted_at IS NULL"""

_PACKED_MESSAGES = """SELECT string_agg(int8send(id) || int8send(seq) || int8send(author_id)
|| timestamptz_send(created_at) || int4send(token_count) || int4send(print) || int4send(bits), ''::bytea) FROM m"""

_AUTHORS = """SELECT json_agg(json_build_array(id, label, kind, {bits})) FROM (SELECT id, label, kind, name AS body,
to_tsvector('english', name) AS search FROM workspaces_participant
WHERE id IN (SELECT author_id FROM m) OFFSET 0) authors"""

# Inner products of unit vectors are cosines; pgvector gives them negative. Passages are compared here, not there.
_VECTORS = """SELECT seq, (own <#> %(vector)s::halfvec)::float4 AS own, (pair <#> %(vector)s::halfvec)::float4 AS pair,
parts FROM chat_messagevector
WHERE thread_id = %(thread)s AND space_id = %(space)s AND dimension = %(dimension)s AND {where}"""

_PACKED_VECTORS = """SELECT int4send(count(*)::int4) || int4send(count(parts)::int4)
|| string_agg(int8send(seq) || float4send(own) || float4send(coalesce(pair, 'NaN')), ''::bytea)
|| coalesce(string_agg(int8send(seq) || int4send(length(parts)), ''::bytea) FILTER (WHERE parts IS NOT NULL)
|| string_agg(parts, ''::bytea), ''::bytea) FROM v"""

_NEWEST = "seq >= %(since)s AND seq < %(before)s"
_NEARBY = "seq = ANY(ARRAY(SELECT seq FROM nearby)) AND seq < %(since)s"

_NEARBY_SEQS = """SELECT DISTINCT older.seq + step AS seq
FROM ({older}) older, generate_series(-%(distance)s::int, %(distance)s::int) step"""

_IS_OLDER = """e.thread_id = %(thread)s AND e.seq < %(since)s AND e.kind = ANY(%(kinds)s)
AND e.state IN ('complete', 'stopped') AND e.deleted_at IS NULL"""

_SELECT_TEXTS = """SELECT m.id, m.seq, m.thread_id, m.kind, m.body, m.token_count, m.author_id, p.label, p.kind,
m.state = 'stopped', (extract(epoch FROM m.created_at) * 1000000)::bigint
FROM chat_message m JOIN workspaces_participant p ON p.id = m.author_id
WHERE m.id = ANY(%s::bigint[]) AND m.state IN ('complete', 'stopped') AND m.deleted_at IS NULL"""

_SELECT_THREAD = """SELECT id, channel_id, parent_id, access, last_seq FROM chat_thread
WHERE id = %s AND workspace_id = %s"""


@dataclass(slots=True)
class _ThreadRow:
    pk: int
    channel_id: int
    parent_id: int | None
    access: str
    last_seq: int


# A time comes as a number of microseconds since: the driver takes far longer over times.
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

# The settings hold for this statement, or to the end of the transaction around it; they touch vector searches alone.
# Inside CASE no other index serves: the plan is HNSW for any thread, whatever the planner takes threads to hold.
_OLDER_BY_INDEX = """SELECT seq FROM chat_messagevector WHERE (SELECT set_config('hnsw.ef_search', '60', true)
|| set_config('hnsw.iterative_scan', 'relaxed_order', true)
|| set_config('hnsw.max_scan_tuples', '1000', true)) IS NOT NULL AND dimension = {dimension}
AND CASE WHEN thread_id = %(thread)s AND space_id = %(space)s THEN seq < %(since)s END
ORDER BY own::halfvec({dimension}) <=> %(vector)s::halfvec({dimension}) LIMIT {most}"""

# A pair holds two messages, so every second one tells of all of them. First by the signs of their numbers, which stand
# in an index of their own; then the nearest in full.
_OLDER_BY_EXACT_SCAN = """SELECT seq FROM chat_messagevector WHERE thread_id = %(thread)s AND space_id = %(space)s
AND seq = ANY(ARRAY(SELECT seq FROM (SELECT seq, pair_signs <~> %(signs)s::varbit AS far FROM chat_messagevector
WHERE thread_id = %(thread)s AND space_id = %(space)s AND dimension = %(dimension)s
AND seq < %(since)s AND seq %% 2 = 0 OFFSET 0) compared ORDER BY far LIMIT {nearest}))
ORDER BY pair <#> %(vector)s::halfvec LIMIT {most}"""

MESSAGES = Corpus(
    table="chat_message",
    text_sql="e.body",
    vector_table="chat_messagevector",
    item_column="message_id",
    index_prefix="message_vector_hnsw",
)

LEXICAL_CANDIDATES = 25
VECTOR_CANDIDATES = 20
SIGNS_OVERSAMPLING = 4
"""Signs alone are rough: so many times the messages wanted are compared in full."""


class Author(NamedTuple):
    """`tokens`: what the name costs in front of a text; `bits`: which terms it holds."""

    tokens: int
    bits: int
    is_person: bool


@dataclass(frozen=True, slots=True)
class MessageColumns:
    """What was read of some messages of a thread, by seq: MESSAGE rows, and VECTOR values beside each (NaN: none)."""

    messages: NDArray[Any]
    own_similarity: NDArray[np.float32] | None
    pair_similarity: NDArray[np.float32] | None
    authors: Mapping[int, Author]

    def only(self, keep: NDArray[np.bool_]) -> MessageColumns:
        """Those where `keep` is true."""
        own, pair = (None if each is None else each[keep] for each in (self.own_similarity, self.pair_similarity))
        return MessageColumns(self.messages[keep], own, pair, self.authors)


class Older(NamedTuple):
    """How messages before the newest are found: by rare words, and by meaning with the index of all vectors or not."""

    by_words: bool
    use_index: bool


def visible_last_seq(access: Access, thread_id: int) -> int | None:
    """The seq of the thread's last message; None when the asker does not see the thread."""
    row = next((_ThreadRow(*row) for row in fetch_prepared(_SELECT_THREAD, [thread_id, access.workspace_id])), None)
    return row.last_seq if row and sees_thread(access, row) else None


def read_messages(
    thread_id: int, query: Query, kinds: Sequence[str], *, since: int, before: int, distance: int, use_index: bool
) -> MessageColumns:
    """The messages from `since` to before `before`; of those before that, where there are any, what words or meaning
    lead to, with those up to `distance` messages beside. One statement, and one more with `use_index`, which asks for
    the index of all vectors where it stands."""
    older = None
    values: dict[str, object] = {**query.values, **query.vector_parameters, "thread": thread_id, "kinds": list(kinds)}
    values |= {"since": since, "before": before, "distance": distance}
    if since > 1:
        lookup = MESSAGES.word_lookup(query)
        use_index = use_index and query.embedding is not None and MESSAGES.has_index(query.dimension)
        older = Older(bool(lookup and lookup.are_rare), use_index)
        values |= MESSAGES.word_values(query, lookup) if older.by_words else {}
        values |= {"signs": query.sign_bits} if query.embedding and not use_index else {}
    statement = _columns_statement(query.shape, query.dimension, older)
    ((message_data, authors, packed_vectors),) = fetch_prepared(statement, values)
    messages = np.frombuffer(message_data or b"", MESSAGE_DTYPE)
    messages = messages[np.argsort(messages["seq"])]
    author_by_id = {
        pk: Author(name_tokens(name), bits, kind not in ASSISTANT_KINDS) for pk, name, kind, bits in authors or ()
    }
    if query.embedding is None:
        return MessageColumns(messages, None, None, author_by_id)
    vectors = packed_vectors or bytes(COUNTS_DTYPE.itemsize)
    return MessageColumns(messages, *_similarities(messages["seq"], vectors, query.embedding.vector), author_by_id)


@cache
def _columns_statement(shape: QueryShape, dimension: int, older: Older | None) -> str:
    """`dimension`: 0 for a question without a vector; `older`: None where the newest are all."""
    bits = term_bits_sql(shape)
    ways: list[sql.Composable] = []
    if older and older.by_words:
        ways.append(MESSAGES.rare_words_sql(shape, sql.SQL(_IS_OLDER), key="seq", most=LEXICAL_CANDIDATES))
    if older and dimension:
        nearest = sql.SQL(_OLDER_BY_INDEX if older.use_index else _OLDER_BY_EXACT_SCAN)
        numbers = {"most": VECTOR_CANDIDATES, "nearest": SIGNS_OVERSAMPLING * VECTOR_CANDIDATES, "dimension": dimension}
        ways.append(nearest.format(**numbers))
    parts = [sql.SQL(_NEWEST)] + ([sql.SQL(_NEARBY)] if ways else [])
    tables = {
        "m": [sql.SQL(_MESSAGES).format(bits=bits, where=where) for where in parts],
        "v": [sql.SQL(_VECTORS).format(where=where) for where in parts] if dimension else [],
    }
    if ways:
        way = sql.SQL(" UNION ALL ").join(sql.SQL("({})").format(each) for each in ways)
        tables = {"nearby": [sql.SQL(_NEARBY_SEQS).format(older=way)], **tables}
    return (
        sql.SQL("WITH {tables} SELECT ({messages}), ({authors}), ({vectors})")
        .format(
            tables=sql.SQL(", ").join(
                sql.SQL("{} AS MATERIALIZED ({})").format(sql.Identifier(name), sql.SQL(" UNION ALL ").join(each))
                for name, each in tables.items()
                if each
            ),
            messages=sql.SQL(_PACKED_MESSAGES),
            authors=sql.SQL(_AUTHORS).format(bits=bits),
            vectors=sql.SQL(_PACKED_VECTORS if dimension else "NULL"),
        )
        .as_string()
    )


def _similarities(seqs: NDArray[Any], data: bytes, question: Floats) -> tuple[Floats, Floats]:
    """Cosines of own text, or its nearest passage, and of the pair for each of these messages."""
    counts = np.frombuffer(data, COUNTS_DTYPE, 1)[0]
    vectors = np.frombuffer(data, VECTOR_DTYPE, counts["vectors"], COUNTS_DTYPE.itemsize)
    start = COUNTS_DTYPE.itemsize + vectors.nbytes
    parts = np.frombuffer(data, PARTS_DTYPE, counts["parts"], start)
    passages = best_passage_similarity(data[start + parts.nbytes :], parts["size"].astype(np.int64), question)
    own, pair = np.full((2, len(seqs)), np.nan, np.float32)
    if len(seqs):
        positions, is_match = _match_positions(seqs, vectors["seq"])
        own[positions] = -vectors["own"][is_match]
        pair[positions] = -vectors["pair"][is_match]
        positions, is_match = _match_positions(seqs, parts["seq"])
        own[positions] = np.maximum(own[positions], passages[is_match])
    return own, pair


def _match_positions(seqs: NDArray[Any], targets: NDArray[Any]) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """The positions at which the wanted stand among the seqs, and which of them do."""
    positions = np.searchsorted(seqs, targets).clip(max=len(seqs) - 1)
    is_match = np.asarray(seqs[positions] == targets)
    return positions[is_match], is_match


@lru_cache(maxsize=4_096)
def name_tokens(name: str) -> int:
    return count_tokens(f"{name}: ")


def load_texts(ids: Sequence[int]) -> dict[int, tuple[Any, ...]]:
    """The messages as they are now, by id; those deleted meanwhile are left out."""
    rows = fetch_prepared(_SELECT_TEXTS, [array_literal(ids)])
    return {row[0]: (*row[:-1], _EPOCH + timedelta(microseconds=row[-1])) for row in rows}
