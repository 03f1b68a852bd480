"""Which entries come into question for a question, and what the ranking needs to know of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from psycopg import sql

from openvibe.base.prepared import prepared_rows
from openvibe.search.asking import Asked, bits_of
from openvibe.search.candidates import Texts
from openvibe.search.passages import with_passages
from openvibe.search.values import Candidates

ENTRIES = Texts(
    texts="knowledge_entry",
    said="e.topic || ' ' || e.content",
    vectors="knowledge_entryvector",
    item="entry_id",
)

_NUMBERS = sql.SQL("""SELECT e.id, e.tokens, hashtext(e.content), e.held, e.topics,
coalesce(-(v.own <#> %(vector)s::halfvec)::float4, 'NaN'), v.parts
FROM (SELECT id, tokens, content, {bits} AS held, {topics} AS topics FROM
(SELECT id, tokens, content, search, topic || ' ' || content AS body FROM knowledge_entry
WHERE id = ANY(%(ids)s::bigint[])) asked OFFSET 0) e LEFT JOIN knowledge_entryvector v
ON v.entry_id = e.id AND v.space_id = %(space)s AND v.dimension = %(dimension)s ORDER BY e.id""")


def numbers_of(asked: Asked, ids: Sequence[int]) -> Candidates:
    """What the ranking needs of these entries. A word in the topic counts three times."""
    values: Mapping[str, object] = {
        **asked.values,
        **asked.vector_values,
        **{f"topic{place}": f"{term.text}:A" for place, term in enumerate(asked.terms) if term.is_indexed},
        "ids": f"{{{','.join(map(str, ids))}}}",
    }
    statement = _NUMBERS.format(bits=bits_of(asked.shape), topics=_topics(asked)).as_string()
    rows = prepared_rows(statement, values)
    columns: NDArray[np.int64] = np.array([row[:5] for row in rows], np.int64).reshape(len(rows), 5)
    hits = asked.hits(columns[:, 3]) + 2 * asked.hits(columns[:, 4])
    tokens = columns[:, 1]
    return Candidates(
        keys=columns[:, 0].tolist(),
        orders=columns[:, 0],
        tokens=tokens,
        words=tokens,
        hits=hits,
        similarity=with_passages([row[5:] for row in rows], asked.question.vector) if asked.question else None,
        fingerprints=columns[:, 2],
    )


def _topics(asked: Asked) -> sql.Composable:
    """Which terms stand in the topic, as bits."""
    held = [
        sql.SQL("CASE WHEN search @@ {}::tsquery THEN {} ELSE 0 END").format(
            sql.Placeholder(f"topic{place}"), 1 << place
        )
        for place, term in enumerate(asked.terms)
        if term.is_indexed
    ]
    return sql.SQL(" | ").join(held) if held else sql.SQL("0")
