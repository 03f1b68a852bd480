"""Search of all messages the asker may see, for the search page and the API."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from django.db.models import QuerySet
from django.db.models.expressions import RawSQL
from psycopg import sql

from openvibe.base.prepared_statements import fetch_prepared
from openvibe.base.query_cache import array_literal
from openvibe.chat.models import Message
from openvibe.chat.search.thread import SEARCHED_KINDS
from openvibe.search.candidates import TextTable, inline_ids_sql
from openvibe.search.passages import similarity_with_passages
from openvibe.search.query import Query, parse_query, term_bits_sql
from openvibe.search.values import Candidates
from openvibe.workspaces.access import Access

MESSAGE_TEXTS = TextTable(
    table="chat_message", text_sql="e.body", vector_table="chat_messagevector", item_column="message_id"
)

_SELECT_CANDIDATES = sql.SQL("""SELECT e.id, e.token_count, hashtext(e.body), {bits},
coalesce(-(v.own <#> %(vector)s::halfvec)::float4, 'NaN'), v.parts
FROM chat_message e LEFT JOIN chat_messagevector v
ON v.message_id = e.id AND v.space_id = %(space)s AND v.dimension = %(dimension)s
WHERE e.id = ANY(%(ids)s::bigint[]) ORDER BY e.id""")


def best_messages(
    access: Access,
    question: str,
    messages: QuerySet[Message],
    *,
    max_hits: int = 50,
    kinds: Sequence[str] = SEARCHED_KINDS,
) -> list[Message]:
    """At most `max_hits` of these messages, which are those the asker may see, that bear on the question; best first.

    Nothing in a question is an operator; a question without words finds nothing.
    """
    query = parse_query(access.workspace_id, question)
    if query.is_empty:
        return []
    searchable = messages.filter(state__in=("complete", "stopped"), deleted_at=None, kind__in=kinds)
    found = searchable.filter(pk=RawSQL("e.id", []))  # looked up for each: in a join, all of them may be read first
    ids = MESSAGE_TEXTS.candidate_ids(query, sql.SQL("e.id = ({})").format(inline_ids_sql(found)))
    if not ids:
        return []
    candidates = _load_candidates(query, ids)
    best: list[Any] = [candidates.keys[row] for row, _ in MESSAGE_TEXTS.top_hits(query, candidates, max_hits=max_hits)]
    by_id = searchable.in_bulk(best)
    return [by_id[pk] for pk in best if pk in by_id]


def _load_candidates(query: Query, ids: Sequence[int]) -> Candidates:
    """What the ranking needs of these messages."""
    values = {**query.values, **query.vector_parameters, "ids": array_literal(ids)}
    rows = fetch_prepared(_SELECT_CANDIDATES.format(bits=term_bits_sql(query.shape)).as_string(), values)
    columns = np.array([row[:4] for row in rows], np.int64).reshape(len(rows), 4)
    return Candidates(
        keys=columns[:, 0].tolist(),
        positions=columns[:, 0],
        tokens=columns[:, 1],
        words=columns[:, 1],
        hits=query.hits(columns[:, 3]),
        similarity=similarity_with_passages([row[4:] for row in rows], query.embedding.vector)
        if query.embedding
        else None,
        fingerprints=columns[:, 2],
    )
