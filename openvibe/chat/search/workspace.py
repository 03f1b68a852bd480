"""Search of all messages the asker may see, for the search page and the API."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from django.db.models import QuerySet
from django.db.models.expressions import RawSQL
from psycopg import sql

from openvibe.chat.models import Message
from openvibe.chat.search.rows import MESSAGES
from openvibe.chat.search.thread import SEARCHED_KINDS
from openvibe.engines.search.candidates import Lookup, inline_ids_sql
from openvibe.engines.search.expressions import SearchExpression, parse_expression
from openvibe.engines.search.lexeme_fields import matches_tsquery
from openvibe.engines.search.passages import similarity_with_passages
from openvibe.engines.search.query import MAX_SEARCHED_TERMS, Query, parse_query, term_bits_sql
from openvibe.engines.search.values import Candidates
from openvibe.workspaces.access import Access

_CANDIDATES = """SELECT e.id, e.token_count, hashtext(e.body), {bits},
coalesce(-(v.own <#> %(vector)s::halfvec)::float4, 'NaN'), v.parts, {{space_size}}
FROM chat_message e LEFT JOIN chat_messagevector v
ON v.message_id = e.id AND v.space_id = %(space)s AND v.dimension = %(dimension)s
WHERE e.id = ANY({{ids}}) ORDER BY e.id"""


def best_messages(
    access: Access,
    question: str,
    messages: QuerySet[Message],
    *,
    max_hits: int = 50,
    kinds: Sequence[str] = SEARCHED_KINDS,
    are_few: bool = False,
    has_operators: bool = False,
) -> list[Message]:
    """The messages that bear on the question, at most `max_hits` of these, which are those the asker may see; best
    first.

    `are_few`: they may be few of all that were said, by a filter or because the asker sees few. `has_operators`:
    quotes, minuses and stars mean what they do in a search field; else nothing in a question is an operator. A question
    without words finds nothing.
    """
    expression = parse_expression(question) if has_operators else SearchExpression(question)
    if expression.condition:
        messages = messages.filter(matches_tsquery("search", expression.condition))
        are_few = True
    query = parse_query(access.workspace_id, expression.question)
    if expression.prefixes:
        terms = (*expression.prefixes, *query.terms)[:MAX_SEARCHED_TERMS]
        query = replace(query, terms=terms, exact=None)
    if query.is_empty:
        return []
    searchable = messages.filter(state__in=("complete", "stopped"), deleted_at=None, kind__in=kinds)
    looked_up_messages = searchable.filter(
        pk=RawSQL("e.id", [])
    )  # looked up for each: in a join, all of them may be read first
    filtered_ids = inline_ids_sql(searchable.order_by("-created_at", "-id")) if are_few else ""
    candidates = _load_candidates(query, f"e.id = ({inline_ids_sql(looked_up_messages.order_by())})", filtered_ids)
    best: list[Any] = [candidates.keys[row] for row, _ in MESSAGES.top_hits(candidates, max_hits=max_hits)]
    by_id = searchable.in_bulk(best)
    return [by_id[pk] for pk in best if pk in by_id]


def _load_candidates(query: Query, condition: str, filtered_ids: str) -> Candidates:
    """What the ranking needs of the messages that may bear on the question."""
    columns = sql.SQL(_CANDIDATES).format(bits=term_bits_sql(query.shape)).as_string()
    rows = MESSAGES.fetch_candidates(columns, query, (condition,), {}, is_fixed=False, lookup=Lookup(filtered_ids))
    numbers = np.array([row[:4] for row in rows], np.int64).reshape(len(rows), 4)
    return Candidates(
        keys=numbers[:, 0].tolist(),
        positions=numbers[:, 0],
        tokens=numbers[:, 1],
        words=numbers[:, 1],
        hits=query.hits(numbers[:, 3]),
        similarity=similarity_with_passages([row[4:6] for row in rows], query.embedding.vector)
        if query.embedding
        else None,
        fingerprints=numbers[:, 2],
        is_exact=query.is_exact(numbers[:, 3]),
    )
