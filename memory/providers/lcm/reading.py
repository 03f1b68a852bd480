"""What prompts may show of a conversation, read from its items and from the messages not taken in yet. Reads only.

One statement, which the server keeps prepared. Its parts are told their thread by scalar subqueries, so that each
walks its index backwards and stops: the cost depends on how much is asked for, never on how long the thread is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Any, NamedTuple

from django.db import connection
from psycopg import sql

from memory.providers.base import ENVELOPE, LONGEST, Entry, Session
from openvibe.base.prepared import prepared_rows

END = 2**62
"""A number after every message."""

IN_PROMPTS = "m.state IN ('complete', 'stopped') AND m.deleted_at IS NULL AND m.kind <> 'system' AND m.body <> ''"
"""Which messages prompts show to somebody."""

SHOWN = sql.SQL(IN_PROMPTS + " AND (m.kind <> 'dive_result' OR %(reads_dive_results)s)")
"""Which messages prompts show to the session's asker."""

MESSAGE = sql.SQL(
    "m.seq AS ordinal, m.seq AS last, m.kind, m.body AS text, m.token_count AS tokens, m.created_at AS at,"
    " m.id AS message_id, m.author_id, m.call_id, NULL::bigint AS summary_id, 0 AS depth,"
    " m.created_at AS until, 1 AS message_count"
)
SUMMARY = sql.SQL(
    "s.first_seq AS ordinal, s.last_seq AS last, 'summary' AS kind, s.content AS text, s.token_count AS tokens,"
    " s.earliest_at AS at, NULL::bigint AS message_id, NULL::bigint AS author_id, '' AS call_id, s.id AS summary_id,"
    " s.depth, s.latest_at AS until, s.message_count"
)
ROW = sql.SQL(
    "found.ordinal, found.last, found.kind, found.text, found.tokens, to_json(found.at) #>> '{}', found.message_id,"
    " found.author_id, coalesce(who.name, ''), coalesce(who.kind, ''), found.call_id, found.summary_id, found.depth,"
    " CASE WHEN found.summary_id IS NOT NULL THEN to_json(found.until) #>> '{}' ELSE '' END, found.message_count"
)

# `direct_from`: the first message that is read from the thread itself. That is what was said after the conversation
# was last taken in; or, where a summary reaches over `before`, the first message that summary stands for.
_NEWEST = sql.SQL("""
WITH place AS (
    SELECT t.id AS thread_id, c.id AS conversation_id, coalesce((
        SELECT CASE WHEN s.last_seq >= %(before)s THEN s.first_seq END
        FROM lcm_item i LEFT JOIN lcm_summary s ON s.id = i.summary_id
        WHERE i.conversation_id = c.id AND i.ordinal < %(before)s ORDER BY i.ordinal DESC LIMIT 1
    ), c.seen_seq + 1, 1) AS direct_from
    FROM chat_thread t LEFT JOIN lcm_conversation c ON c.thread_id = t.id
    WHERE t.id = %(thread)s AND t.workspace_id = %(workspace)s
), found AS (
    (SELECT {message} FROM chat_message m
     WHERE m.thread_id = (SELECT thread_id FROM place) AND m.seq >= (SELECT direct_from FROM place)
       AND m.seq < %(before)s AND {shown}
     ORDER BY m.seq DESC LIMIT {rows})
    UNION ALL
    (SELECT i.ordinal, coalesce(s.last_seq, m.seq), coalesce(m.kind, 'summary'), coalesce(m.body, s.content),
        coalesce(m.token_count, s.token_count), coalesce(m.created_at, s.earliest_at), m.id, m.author_id,
        coalesce(m.call_id, ''), s.id, coalesce(s.depth, 0), coalesce(m.created_at, s.latest_at),
        coalesce(s.message_count, 1)
     FROM lcm_item i LEFT JOIN lcm_summary s ON s.id = i.summary_id LEFT JOIN chat_message m ON m.id = i.message_id
     WHERE i.conversation_id = (SELECT conversation_id FROM place)
       AND i.ordinal < least((SELECT direct_from FROM place), %(before)s) AND (s.id IS NOT NULL OR {shown})
     ORDER BY i.ordinal DESC LIMIT {rows})
), newest AS (
    SELECT * FROM found ORDER BY ordinal DESC LIMIT {rows}
), priced AS (
    SELECT *, row_number() OVER newer AS place,
        sum(least(tokens, {longest}) + {envelope}) OVER newer - (least(tokens, {longest}) + {envelope}) AS spent
    FROM newest WINDOW newer AS (ORDER BY ordinal DESC)
)
SELECT {row}, (SELECT count(*) FROM newest) FROM priced AS found
LEFT JOIN workspaces_participant who ON who.id = found.author_id
WHERE found.spent <= %(tokens)s OR found.place <= %(least)s
ORDER BY found.ordinal
""")


class Newest(NamedTuple):
    """Entries, oldest first; `is_all`: there is nothing older. `long`: tokens of those over LONGEST, by ordinal."""

    entries: list[Entry]
    is_all: bool
    long: dict[int, int]


def newest(session: Session, *, tokens: int, least: int, rows: int) -> Newest:
    """The newest entries of a session: at least `least` of them, and one more than fit `tokens`; about `rows` at
    most."""
    rows = _rounded(rows)
    found = prepared_rows(_newest_rows(rows), {**scope_of(session), "tokens": tokens, "least": least})
    there_are = found[0][-1] if found else 0
    return Newest(
        entries=[entry_of(row[:-1]) for row in found],
        is_all=there_are < rows and len(found) == there_are,
        long={row[0]: row[4] for row in found if row[4] > LONGEST},
    )


def _rounded(rows: int) -> int:
    """Few numbers stand for all, at most a quarter more, so that few statements are prepared."""
    step = 1 << max(rows.bit_length() - 3, 4)
    return -(-rows // step) * step


@cache
def _newest_rows(rows: int) -> str:
    """The statement for so many rows: the planner has to know how many there will be."""
    return _NEWEST.format(
        message=MESSAGE, shown=SHOWN, row=ROW, longest=sql.Literal(LONGEST), envelope=sql.Literal(ENVELOPE),
        rows=sql.Literal(rows),
    ).as_string()  # fmt: skip


def scope_of(session: Session) -> dict[str, Any]:
    """What every statement needs to know of a session."""
    return {
        "thread": session.thread_id,
        "workspace": session.access.workspace_id,
        "before": END if session.before is None else session.before,
        "reads_dive_results": session.access.reads_dive_results,
    }


def rows_of(statement: str, values: Sequence[Any] | Mapping[str, Any]) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        rows: list[tuple[Any, ...]] = cursor.fetchall()
        return rows


def entry_of(row: tuple[Any, ...]) -> Entry:
    """An entry from the columns of ROW, whose times are text: most rows have one, and reading it as a time is dear.
    Summaries have no author; only they end at another time than they begin."""
    (ordinal, last, kind, text, tokens, at, message_id, author_id, author_name, author_kind, call_id, summary_id,
     depth, until, message_count) = row  # fmt: skip
    return Entry(
        ordinal, last, kind, text, min(tokens, LONGEST), _as_python(at), message_id, author_id, author_name,
        author_kind, call_id, summary_id, depth, until and _as_python(until), message_count,
    )  # fmt: skip


def iso(at: datetime) -> str:
    return at.isoformat()


def _as_python(at: str) -> str:
    """PostgreSQL leaves out zeros at the end of a fraction of a second."""
    return datetime.fromisoformat(at).isoformat()
