"""SQL of the thread search: columns of the messages that come into question, then the texts of the few selected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray
from psycopg import sql

from openvibe.chat.models import sees_thread
from openvibe.engines.database.compiled_queries import array_literal
from openvibe.engines.database.prepared_statements import fetch_prepared
from openvibe.engines.llm.tokens import count_tokens
from openvibe.engines.search.candidates import Corpus, Lookup
from openvibe.engines.search.lexemes import Term, lexeme_set
from openvibe.engines.search.passages import best_passage_similarity
from openvibe.engines.search.query import Query, QueryShape, term_bits_sql
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import ASSISTANT_KINDS

MESSAGE_COLUMNS = {
    "id": "i8",
    "seq": "i8",
    "author": "i8",
    "microseconds": "i8",
    "tokens": "i4",
    "fingerprint": "i4",
    "held": "i4",
    "similarity": "f4",
    "pair_similarity": "f4",
    "passage_bytes": "i4",
}
"""What is read of a message, and the type. `microseconds` since 2000, as PostgreSQL keeps a time; `held`: bits of the
terms; a similarity is NaN where there is no vector."""

# Inner products of unit vectors are cosines; pgvector gives them negative. Passages are compared here, not there.
# Columns come as arrays: taking thousands of rows apart costs more than finding them.
_CANDIDATES = """WITH {nearby} m AS MATERIALIZED (SELECT id, seq, author_id AS author, token_count AS tokens,
created_at AS microseconds, hashtext(body) AS fingerprint, {bits} AS held
FROM chat_message e WHERE {in_question} AND {condition}),
v AS MATERIALIZED (SELECT seq, -(own <#> %(vector)s::halfvec)::float4 AS own,
-(pair <#> %(vector)s::halfvec)::float4 AS pair, parts FROM chat_messagevector
WHERE thread_id = %(thread)s AND space_id = %(space)s AND dimension = %(dimension)s AND {in_question})
SELECT {columns}, string_agg(parts, ''::bytea), (SELECT json_agg(json_build_array(id, label, kind, name))
FROM workspaces_participant WHERE id IN (SELECT author FROM m)), {{space_size}}
FROM (SELECT m.*, coalesce(own, 'NaN') AS similarity, coalesce(pair, 'NaN') AS pair_similarity, parts,
coalesce(length(parts), 0) AS passage_bytes FROM m LEFT JOIN v ON v.seq = m.seq ORDER BY m.seq) ordered"""

_NEARBY = """nearby AS MATERIALIZED (SELECT generate_series(%(since)s::bigint, %(before)s - 1)
UNION SELECT found.seq + step FROM chat_message found, generate_series(-%(distance)s::int, %(distance)s::int) step
WHERE found.id = ANY({ids})),"""
_IS_NEWEST = "seq >= %(since)s AND seq < %(before)s"
_IS_NEARBY = "seq = ANY(ARRAY(TABLE nearby))"

_CONDITION = """e.thread_id = %(thread)s AND e.kind = ANY(%(kinds)s)
AND e.state IN ('complete', 'stopped') AND e.deleted_at IS NULL"""

# A pair holds two messages, so every second one tells of all of them. First by the signs of their numbers, which stand
# in an index of their own; then four times as many as are wanted in full.
_BY_SIGNS = """SELECT message_id FROM chat_messagevector WHERE thread_id = %(thread)s AND space_id = %(space)s
AND seq = ANY(ARRAY(SELECT seq FROM (SELECT seq, pair_signs <~> %(signs)s::varbit AS far FROM chat_messagevector
WHERE thread_id = %(thread)s AND space_id = %(space)s AND dimension = %(dimension)s
AND seq < %(since)s AND seq %% 2 = 0 OFFSET 0) compared ORDER BY far LIMIT 4 * {most}))
ORDER BY pair <#> %(vector)s::halfvec LIMIT {most}"""

_HOLDERS = """SELECT seq, held FROM (SELECT seq, {bits} AS held FROM chat_message e
WHERE thread_id = %(thread)s AND seq = ANY(%(seqs)s::bigint[]) AND deleted_at IS NULL OFFSET 0) m WHERE held <> 0"""

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

MESSAGES = Corpus(
    table="chat_message",
    vector_table="chat_messagevector",
    item_column="message_id",
    index_prefix="message_vector_hnsw",
)

OLDER = Lookup(nearest=_BY_SIGNS, max_lexical_hits=25, max_vector_hits=20, rare_words_only=True)
"""How messages before the newest are looked up."""


class Author(NamedTuple):
    """`tokens`: what the name costs in front of a text; `is_named`: whether the question holds a word of it."""

    tokens: int
    is_named: bool
    is_person: bool


def visible_last_seq(access: Access, thread_id: int) -> int | None:
    """The seq of the thread's last message; None when the asker does not see the thread."""
    row = next((_ThreadRow(*row) for row in fetch_prepared(_SELECT_THREAD, [thread_id, access.workspace_id])), None)
    return row.last_seq if row and sees_thread(access, row) else None


def read_messages(
    thread_id: int, query: Query, kinds: Sequence[str], *, since: int, before: int, distance: int, use_index: bool
) -> tuple[NDArray[Any], Mapping[int, Author]]:
    """The messages from `since` to before `before`; of those before that, where there are any, what words or meaning
    lead to, with those up to `distance` messages beside. Rows of MESSAGE_COLUMNS by seq, and the authors by id.

    One statement, and one more with `use_index`, which asks for the index of all vectors where it stands.
    """
    statement = _columns_statement(query.shape, has_older=since > 1)
    values: dict[str, object] = {"thread": thread_id, "kinds": list(kinds), "since": since, "before": before}
    if since > 1:
        values |= {"distance": distance, "signs": query.sign_bits if query.embedding else ""}
        older = (f"{_CONDITION} AND e.seq < %(since)s",)
        lookup = OLDER._replace(is_large=use_index)
        ((*arrays, passages, authors, _),) = MESSAGES.fetch_candidates(statement, query, older, values, lookup=lookup)
    else:
        values |= {**query.values, **query.vector_parameters}
        ((*arrays, passages, authors, _),) = fetch_prepared(statement, values)
    messages = _read_arrays(arrays)
    if query.embedding is not None and passages:
        is_long = messages["passage_bytes"] > 0
        sizes = messages["passage_bytes"][is_long].astype(np.int64)
        best = best_passage_similarity(passages, sizes, query.embedding.vector)
        messages["similarity"][is_long] = np.maximum(messages["similarity"][is_long], best)
    return messages, {
        pk: Author(name_tokens(label), _is_named(name, query), kind not in ASSISTANT_KINDS)
        for pk, label, kind, name in authors or ()
    }


def _is_named(name: str, query: Query) -> bool:
    lexemes = name_lexemes(name)
    return any(term.is_held_by(lexemes) for term in query.terms)


def read_name_holders(thread_id: int, seqs: Sequence[int], terms: Sequence[Term]) -> list[tuple[int, int]]:
    """The messages among these that hold any of the terms: seq and bits of the terms."""
    statement = _holders_statement(QueryShape(len(terms), has_exact=False))
    return cast(
        "list[tuple[int, int]]",
        fetch_prepared(
            statement, {"thread": thread_id, "seqs": array_literal(seqs), **Query(tuple(terms), None).values}
        ),
    )


@cache
def _holders_statement(shape: QueryShape) -> str:
    return sql.SQL(_HOLDERS).format(bits=term_bits_sql(shape)).as_string()


@cache
def _columns_statement(shape: QueryShape, *, has_older: bool) -> str:
    """The statement, with `{ids}` of what was found where there are older messages than the newest."""
    statement = sql.SQL(_CANDIDATES).format(
        nearby=sql.SQL(_NEARBY if has_older else ""),
        in_question=sql.SQL(_IS_NEARBY if has_older else _IS_NEWEST),
        condition=sql.SQL(_CONDITION),
        bits=term_bits_sql(shape),
        columns=sql.SQL(", ").join(
            sql.SQL("array_send(array_agg({}))").format(sql.Identifier(name)) for name in MESSAGE_COLUMNS
        ),
    )
    text = statement.as_string()
    return text if has_older else text.format(space_size="NULL")


def _read_arrays(arrays: Sequence[bytes | None]) -> NDArray[Any]:
    """The rows of MESSAGE_COLUMNS that these arrays, as PostgreSQL sends them, hold column by column."""
    columns = {}
    for (name, number), array in zip(MESSAGE_COLUMNS.items(), arrays, strict=True):
        element = np.dtype([("length", ">i4"), ("value", f">{number}")])
        columns[name] = np.frombuffer(array or b"", element, offset=_ARRAY_HEADER_BYTES if array else 0)["value"]
    rows = np.empty(len(columns["id"]), list(MESSAGE_COLUMNS.items()))
    for name, values in columns.items():
        rows[name] = values
    return rows


_ARRAY_HEADER_BYTES = 20
"""Dimensions, whether any is NULL, the type, how many and from which on; each element follows its length."""


@lru_cache(maxsize=4_096)
def name_lexemes(name: str) -> frozenset[str]:
    return lexeme_set(name)


@lru_cache(maxsize=4_096)
def name_tokens(name: str) -> int:
    return count_tokens(f"{name}: ")


Texts = dict[int, tuple[Any, ...]]
"""Messages by id: columns of `_SELECT_TEXTS`."""


def load_texts(ids: Sequence[int]) -> Texts:
    """The messages as they are now, by id; those deleted meanwhile are left out."""
    rows = fetch_prepared(_SELECT_TEXTS, [array_literal(ids)])
    return {row[0]: (*row[:-1], _EPOCH + timedelta(microseconds=row[-1])) for row in rows}
