"""The items of a conversation: ingesting messages, one item for each, and reading what prompts may show of them and
what compaction may put together.

One reading statement, which the server keeps prepared. Its parts are told their thread by scalar subqueries, so that
each walks its index backwards and stops: the cost depends on how much is asked for, never on how long the thread is."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Any, NamedTuple

from django.db import connection, transaction
from psycopg import sql

from memory.plugins.base import ENVELOPE_TOKENS, MAX_ENTRY_TOKENS, ContextEntry, Session
from memory.plugins.lcm.chunking import GAP_KIND, SUMMARY_KIND, ContextItem
from memory.plugins.lcm.models import Item
from openvibe.engines.database.prepared_statements import fetch_prepared

# Messages become visible in the order of their numbers (a number is given under the thread's row lock), so what is
# after `seen_seq` is all that was not seen.
_HAS_NEW_MESSAGES = """
SELECT coalesce((SELECT seq FROM chat_message WHERE thread_id = %(thread)s ORDER BY seq DESC LIMIT 1), 0)
    > coalesce((SELECT seen_seq FROM lcm_conversation WHERE thread_id = %(thread)s), 0)
"""
_INSERT_CONVERSATION = """
INSERT INTO lcm_conversation (thread_id, seen_seq, version)
VALUES (%(thread)s, 0, 0) ON CONFLICT (thread_id) DO NOTHING
"""
_LOCK_CONVERSATION = "SELECT id, seen_seq FROM lcm_conversation WHERE thread_id = %(thread)s FOR UPDATE"
_INSERT_ITEMS = """
WITH taken AS (
    INSERT INTO lcm_item (conversation_id, ordinal, message_id)
    SELECT %(conversation)s, seq, id FROM chat_message WHERE thread_id = %(thread)s AND seq > %(seen)s ORDER BY seq
    RETURNING ordinal
), newest AS (
    SELECT max(ordinal) AS seq, count(*) AS many FROM taken
), moved AS (
    UPDATE lcm_conversation SET seen_seq = newest.seq, version = version + 1
    FROM newest WHERE id = %(conversation)s AND newest.many > 0
)
SELECT many FROM newest
"""


def ingest_messages(thread_id: int) -> int:
    """Gives every message that was not seen yet its item; returns how many there were. Takes the conversation's row
    lock."""
    params = {"thread": thread_id}
    if not fetch_rows(_HAS_NEW_MESSAGES, params)[0][0]:
        return 0
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_INSERT_CONVERSATION, params)
        cursor.execute(_LOCK_CONVERSATION, params)
        conversation, seen_seq = cursor.fetchone()
        cursor.execute(_INSERT_ITEMS, {**params, "conversation": conversation, "seen": seen_seq})
        (item_count,) = cursor.fetchone()
    return int(item_count)


MAX_SEQ = 2**62
"""A number after every message."""

PROMPT_FILTER = "m.state IN ('complete', 'stopped') AND m.deleted_at IS NULL AND m.kind <> 'system' AND m.body <> ''"
"""The condition for messages that prompts show to somebody."""

VISIBLE_FILTER = sql.SQL(PROMPT_FILTER + " AND (m.kind <> 'dive_result' OR %(reads_dive_results)s)")
"""The condition for messages that prompts show to the session's asker."""

MESSAGE_COLUMNS = sql.SQL(
    "m.seq AS ordinal, m.seq AS last, m.kind, m.body AS text, m.token_count AS tokens, m.created_at AS at,"
    " m.id AS message_id, m.author_id, m.call_id, NULL::bigint AS summary_id, 0 AS depth,"
    " m.created_at AS until, 1 AS message_count, m.state = 'stopped' AS is_unfinished"
)
SUMMARY_COLUMNS = sql.SQL(
    "s.first_seq AS ordinal, s.last_seq AS last, 'summary' AS kind, s.content AS text, s.token_count AS tokens,"
    " s.earliest_at AS at, NULL::bigint AS message_id, NULL::bigint AS author_id, '' AS call_id, s.id AS summary_id,"
    " s.depth, s.latest_at AS until, s.message_count, false AS is_unfinished"
)
ENTRY_COLUMNS = sql.SQL(
    "found.ordinal, found.last, found.kind, found.text, found.tokens, to_json(found.at) #>> '{}', found.message_id,"
    " found.author_id, coalesce(who.label, ''), coalesce(who.kind, ''), found.call_id, found.summary_id, found.depth,"
    " CASE WHEN found.summary_id IS NOT NULL THEN to_json(found.until) #>> '{}' ELSE '' END, found.message_count,"
    " found.is_unfinished"
)

# `direct_from`: the first message that is read from the thread itself. That is what was said after the conversation
# was last taken in; or, where a summary reaches over `before`, the first message that summary stands for.
_NEWEST_ENTRIES = sql.SQL("""
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
        coalesce(s.message_count, 1), coalesce(m.state = 'stopped', false)
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


class NewestEntries(NamedTuple):
    """Entries, oldest first; `is_all`: there is nothing older. `long_tokens`: tokens of those over MAX_ENTRY_TOKENS,
    by ordinal."""

    entries: list[ContextEntry]
    is_all: bool
    long_tokens: dict[int, int]


def newest_entries(session: Session, *, tokens: int, minimum: int, rows: int) -> NewestEntries:
    """The newest entries of a session: at least `minimum` of them, and one more than fit `tokens`; about `rows` at
    most."""
    step = 1 << max(rows.bit_length() - 3, 4)
    rows = -(-rows // step) * step  # at most a quarter more: few numbers stand for all, so few statements are prepared
    fetched_rows = fetch_prepared(
        _newest_statement(rows), {**session_params(session), "tokens": tokens, "least": minimum}
    )
    row_count = fetched_rows[0][-1] if fetched_rows else 0
    return NewestEntries(
        entries=[entry_from_row(row[:-1]) for row in fetched_rows],
        is_all=row_count < rows and len(fetched_rows) == row_count,
        long_tokens={row[0]: row[4] for row in fetched_rows if row[4] > MAX_ENTRY_TOKENS},
    )


@cache
def _newest_statement(rows: int) -> str:
    """The statement for so many rows: the planner has to know how many there will be."""
    return _NEWEST_ENTRIES.format(
        message=MESSAGE_COLUMNS,
        shown=VISIBLE_FILTER,
        row=ENTRY_COLUMNS,
        longest=sql.Literal(MAX_ENTRY_TOKENS),
        envelope=sql.Literal(ENVELOPE_TOKENS),
        rows=sql.Literal(rows),
    ).as_string()


def session_params(session: Session) -> dict[str, Any]:
    """What every statement needs to know of a session."""
    return {
        "thread": session.thread_id,
        "workspace": session.access.workspace_id,
        "before": MAX_SEQ if session.before is None else session.before,
        "reads_dive_results": session.access.reads_dive_results,
    }


def fetch_rows(statement: str, values: Sequence[Any] | Mapping[str, Any]) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        rows: list[tuple[Any, ...]] = cursor.fetchall()
        return rows


def entry_from_row(row: tuple[Any, ...]) -> ContextEntry:
    """An entry from ENTRY_COLUMNS, whose times are text: most rows have one, and reading it as a time is dear.
    Summaries have no author; only they end at another time than they begin."""
    ordinal, last, kind, text, tokens, at, *origin, until, message_count, is_unfinished = row
    size, begin, end = min(tokens, MAX_ENTRY_TOKENS), _normalize_time(at), until and _normalize_time(until)
    return ContextEntry._make((ordinal, last, kind, text, size, begin, *origin, end, message_count, is_unfinished))


def _normalize_time(at: str) -> str:
    """PostgreSQL leaves out zeros at the end of a fraction of a second."""
    return datetime.fromisoformat(at).isoformat()


# What compaction reads: items as plain values, with the tokens that a prompt needs for each.

ITEM_COST = (
    f"CASE WHEN s.id IS NOT NULL THEN least(s.token_count, {MAX_ENTRY_TOKENS}) + {ENVELOPE_TOKENS}"
    f" WHEN {PROMPT_FILTER} THEN least(m.token_count, {MAX_ENTRY_TOKENS}) + {ENVELOPE_TOKENS} ELSE 0 END"
)
# OFFSET 0: looked up by their keys, whatever the planner thinks of how many items there are
ITEM_JOINS = """
LEFT JOIN LATERAL (SELECT * FROM lcm_summary WHERE id = i.summary_id OFFSET 0) s ON true
LEFT JOIN LATERAL (SELECT * FROM chat_message WHERE id = i.message_id OFFSET 0) m ON true
"""
ITEM_ROWS = f"""
SELECT i.ordinal, coalesce(m.kind, '{SUMMARY_KIND}'), {ITEM_COST},
    CASE WHEN m.kind IN ('tool_call', 'tool_result') AND m.call_id <> ''
        THEN concat(m.author_id, ' ', m.call_id) ELSE '' END,
    coalesce(m.kind = 'text' AND p.kind <> 'agent', false), coalesce(m.state = 'writing', false),
    coalesce(s.depth, 0), coalesce(s.stale, false)
FROM ({{items}}) i {ITEM_JOINS} LEFT JOIN workspaces_participant p ON p.id = m.author_id ORDER BY i.ordinal
"""  # noqa: S608 - only constants of this package
ITEM_KEYS = "SELECT ordinal, message_id, summary_id FROM lcm_item WHERE conversation_id = %s"
NEWEST_ITEM_KEYS = f"{ITEM_KEYS} ORDER BY ordinal DESC LIMIT %s"
NEWEST_ITEMS_STATEMENT = ITEM_ROWS.replace("{items}", NEWEST_ITEM_KEYS)
ITEMS_AFTER_STATEMENT = ITEM_ROWS.replace("{items}", f"{ITEM_KEYS} AND ordinal > %s ORDER BY ordinal LIMIT %s")
TOTAL_COST = " ".join(("SELECT coalesce(sum(", ITEM_COST, "), 0) FROM (", NEWEST_ITEM_KEYS, ") i", ITEM_JOINS))
SUMMARY_ITEMS = """
SELECT i.ordinal, s.token_count, s.depth, s.stale, s.id, (
    SELECT before.summary_id FROM lcm_item before
    WHERE before.conversation_id = i.conversation_id AND before.ordinal < i.ordinal ORDER BY before.ordinal DESC LIMIT 1
)
FROM lcm_item i JOIN lcm_summary s ON s.id = i.summary_id
WHERE i.conversation_id = %s AND i.summary_id IS NOT NULL ORDER BY i.ordinal DESC LIMIT %s
"""


def newest_items(conversation_id: int, limit: int) -> list[ContextItem]:
    """The newest items, oldest first."""
    return [ContextItem(*row) for row in fetch_rows(NEWEST_ITEMS_STATEMENT, [conversation_id, limit])]


def items_after(conversation_id: int, ordinal: int, limit: int) -> list[ContextItem]:
    return [ContextItem(*row) for row in fetch_rows(ITEMS_AFTER_STATEMENT, [conversation_id, ordinal, limit])]


def total_cost(conversation_id: int, limit: int) -> int:
    """Tokens that the newest `limit` items need in a prompt."""
    return int(fetch_rows(TOTAL_COST, [conversation_id, limit])[0][0])


def last_summarized_seq(conversation_id: int) -> int:
    """The number of the last message that a summary among the items stands for; 0 without any."""
    summaries = Item.objects.filter(conversation=conversation_id, summary__isnull=False).order_by("-ordinal")
    return summaries.values_list("summary__last_seq", flat=True).first() or 0


def summary_items(conversation_id: int, limit: int) -> list[ContextItem]:
    """The newest summaries among the items, oldest first, with a GAP wherever something stands between two."""
    items: list[ContextItem] = []
    newer_id: int | None = None  # what the summary before this one would have to be
    for ordinal, tokens, depth, stale, summary_id, older_id in fetch_rows(SUMMARY_ITEMS, [conversation_id, limit]):
        if items and newer_id != summary_id:
            items.append(ContextItem(ordinal, GAP_KIND, 0))
        items.append(ContextItem(ordinal, SUMMARY_KIND, tokens + ENVELOPE_TOKENS, depth=depth, is_stale=stale))
        newer_id = older_id
    return items[::-1]
