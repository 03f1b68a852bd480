"""The best messages of all that the asker may see, for the search page and the API."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from django.db.models import QuerySet
from psycopg import sql

from openvibe.base.prepared import prepared_rows
from openvibe.chat.models import Message
from openvibe.chat.searching.finding import SAID
from openvibe.search.asking import Asked, asked, bits_of
from openvibe.search.candidates import Texts, written_out
from openvibe.search.passages import with_passages
from openvibe.search.values import Candidates
from openvibe.workspaces.access import Access

MESSAGES = Texts(texts="chat_message", said="e.body", vectors="chat_messagevector", item="message_id")

_NUMBERS = sql.SQL("""SELECT e.id, e.token_count, hashtext(e.body), {bits},
coalesce(-(v.own <#> %(vector)s::halfvec)::float4, 'NaN'), v.parts
FROM chat_message e LEFT JOIN chat_messagevector v
ON v.message_id = e.id AND v.space_id = %(space)s AND v.dimension = %(dimension)s
WHERE e.id = ANY(%(ids)s::bigint[]) ORDER BY e.id""")


def best_messages(
    access: Access, question: str, messages: QuerySet[Message], *, most: int = 50, kinds: Sequence[str] = SAID
) -> list[Message]:
    """At most `most` of these messages, which are those the asker may see, that bear on the question; best first.

    Nothing in a question is an operator; a question without words finds nothing.
    """
    wanted = asked(access.workspace_id, question)
    if wanted.is_empty:
        return []
    standing = messages.filter(state__in=("complete", "stopped"), deleted_at=None, kind__in=kinds)
    ids = MESSAGES.candidate_ids(wanted, sql.SQL("e.id IN ({})").format(written_out(standing)))
    if not ids:
        return []
    candidates = _numbers_of(wanted, ids)
    best: list[Any] = [candidates.keys[place] for place, _ in MESSAGES.best_of(wanted, candidates, most=most)]
    found = standing.in_bulk(best)
    return [found[pk] for pk in best if pk in found]


def _numbers_of(wanted: Asked, ids: Sequence[int]) -> Candidates:
    """What the ranking needs of these messages."""
    values = {**wanted.values, **wanted.vector_values, "ids": f"{{{','.join(map(str, ids))}}}"}
    rows = prepared_rows(_NUMBERS.format(bits=bits_of(wanted.shape)).as_string(), values)
    columns = np.array([row[:4] for row in rows], np.int64).reshape(len(rows), 4)
    return Candidates(
        keys=columns[:, 0].tolist(),
        orders=columns[:, 0],
        tokens=columns[:, 1],
        words=columns[:, 1],
        hits=wanted.hits(columns[:, 3]),
        similarity=with_passages([row[4:] for row in rows], wanted.question.vector) if wanted.question else None,
        fingerprints=columns[:, 2],
    )
