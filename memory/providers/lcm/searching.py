"""Finding words in a conversation: in its messages and in its summaries, each term to the letter.

The newest messages are looked through character by character, so that any term is found: a part of a word, a sign, a
language without spaces. What is older is asked of the text index, which knows whole words. So the cost is bounded,
however long the thread is.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Any

from psycopg import sql

from memory.providers.base import Found, Session
from memory.providers.lcm import reading
from openvibe.llm.fences import clean

LOOKED_THROUGH = 20_000
"""Newest messages of a thread that are looked through letter by letter."""

SUMMARIES = 5_000
"""Newest summaries that are looked through."""

CANDIDATES = 1_000
"""Older messages with the words of a query that are looked at, the newest first."""

TERMS = 32
"""Terms of one query; further ones are not asked for."""

SNIPPET = 500
"""Characters of a snippet, at most."""

MOST = 100
"""Hits of one search, at most."""

_HOLDS = sql.SQL("(SELECT bool_and(strpos(lower({text}), lower(term)) > 0) FROM unnest(%(terms)s::text[]) AS term)")
MESSAGES = (
    sql.SQL("""
WITH place AS (
    SELECT t.id, least(%(before)s, t.last_seq + 1) - %(looked_through)s AS since
    FROM chat_thread t WHERE t.id = %(thread)s AND t.workspace_id = %(workspace)s
), words AS (
    SELECT plainto_tsquery('english', %(words)s) AS asked
), near AS MATERIALIZED (
    SELECT m.id, m.seq FROM chat_message m
    WHERE m.thread_id = (SELECT id FROM place) AND m.seq >= (SELECT since FROM place) AND m.seq < %(before)s
      AND {shown} AND {holds}
    ORDER BY m.seq DESC LIMIT %(limit)s
), far AS MATERIALIZED (
    SELECT m.id, m.seq FROM (
        SELECT * FROM chat_message
        WHERE (SELECT count(*) FROM near) < %(limit)s AND thread_id = (SELECT id FROM place)
          AND seq < least((SELECT since FROM place), %(before)s) AND search @@ (SELECT asked FROM words)
        ORDER BY seq DESC LIMIT %(candidates)s
    ) m WHERE {shown} AND {holds}
    ORDER BY m.seq DESC LIMIT %(limit)s
), hits AS (
    SELECT * FROM near UNION ALL SELECT * FROM far ORDER BY seq DESC LIMIT %(limit)s
)
SELECT m.id, m.seq, who.name, m.created_at, m.body FROM hits JOIN chat_message m ON m.id = hits.id
JOIN workspaces_participant who ON who.id = m.author_id ORDER BY m.seq DESC
""")
    .format(shown=reading.SHOWN, holds=_HOLDS.format(text=sql.SQL("m.body")))
    .as_string()
)
OF_SUMMARIES = (
    sql.SQL("""
SELECT s.id, s.first_seq, '', s.earliest_at, s.content FROM (
    SELECT s.* FROM lcm_summary s JOIN lcm_conversation c ON c.id = s.conversation_id
    JOIN chat_thread t ON t.id = c.thread_id
    WHERE t.id = %(thread)s AND t.workspace_id = %(workspace)s AND s.last_seq < %(before)s AND NOT s.stale
    ORDER BY s.id DESC LIMIT %(summaries)s
) s WHERE {holds} ORDER BY s.last_seq DESC, s.depth LIMIT %(limit)s
""")
    .format(holds=_HOLDS.format(text=sql.SQL("s.content")))
    .as_string()
)


def search(session: Session, query: str, limit: int = 20) -> list[Found]:
    """Messages and summaries that hold every term of the query, in any case; the newest first, messages before
    summaries, at most `limit` (and MOST) in all. Terms are what blanks separate; every character means itself.

    Where there are many of both, a quarter of the hits are summaries.
    """
    terms = terms_of(query)
    limit = min(limit, MOST)
    if not terms or limit < 1:
        return []
    values: dict[str, Any] = {
        **reading.scope_of(session), "terms": terms, "words": " ".join(terms), "limit": limit,
        "looked_through": LOOKED_THROUGH, "candidates": CANDIDATES, "summaries": SUMMARIES,
    }  # fmt: skip
    messages, summaries = reading.rows_of(MESSAGES, values), reading.rows_of(OF_SUMMARIES, values)
    room = max(limit // 4, limit - len(messages))
    summaries = summaries[:room]
    messages = messages[: limit - len(summaries)]
    return [
        *(_found("message", row, terms) for row in messages),
        *(_found("summary", row, terms) for row in summaries),
    ]


def terms_of(query: str) -> list[str]:
    """The terms as bodies hold them: composed characters, no control characters; each once."""
    words = unicodedata.normalize("NFC", clean(query.replace("\x00", " "))).split()
    return list(dict.fromkeys(words))[:TERMS]


def snippet_of(text: str, terms: Sequence[str]) -> str:
    """At most SNIPPET characters around the first place where a term stands, the first that is found."""
    found = next(filter(None, (re.search(re.escape(term), text, re.IGNORECASE) for term in terms)), None)
    if len(text) <= SNIPPET:
        return text
    at, length = (found.start(), len(found[0])) if found else (0, 0)
    start = max(0, min(at - max(1, (SNIPPET - length) // 3), len(text) - SNIPPET))
    before, after = "…" if start else "", "…" if start + SNIPPET < len(text) else ""
    return before + text[start + len(before) : start + SNIPPET - len(after)] + after


def _found(kind: Any, row: tuple[Any, ...], terms: Sequence[str]) -> Found:
    pk, ordinal, author, at, text = row
    return Found(kind, pk, ordinal, author, reading.iso(at), snippet_of(text, terms))
