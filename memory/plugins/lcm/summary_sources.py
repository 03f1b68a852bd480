"""What summaries are made from, in the database: the messages or the summaries below one, read, compared, locked."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from django.db.backends.utils import CursorWrapper

from memory.plugins.lcm.chunking import MAX_CHUNK_TOKENS
from memory.plugins.lcm.items import PROMPT_FILTER, fetch_rows
from memory.plugins.lcm.models import Summary
from memory.plugins.lcm.source_lines import SourceMessage, SourceSummary, SummarySource, message_source, summary_source

DbRow = tuple[Any, ...]


class SourceSql(NamedTuple):
    """What one kind of summary is made from: the columns that a check compares, those with the words, and the rows,
    by the items they stand in or by the summary above them; how the summary and what it stands for are stored."""

    fingerprint: str
    content: str
    from_items: str
    from_summary: str
    insert: str
    link: str


MESSAGES = SourceSql(
    fingerprint=f"m.id, m.seq, m.kind, {PROMPT_FILTER}, md5(m.body)",
    content="m.created_at, p.kind, p.label, m.body, m.token_count",
    from_items="""
FROM lcm_item i JOIN chat_message m ON m.id = i.message_id JOIN workspaces_participant p ON p.id = m.author_id
WHERE i.conversation_id = %(conversation)s AND i.ordinal BETWEEN %(first)s AND %(last)s ORDER BY m.seq
""",
    from_summary="""
FROM lcm_summarymessage l JOIN chat_message m ON m.id = l.message_id JOIN workspaces_participant p ON p.id = m.author_id
WHERE l.summary_id = %(summary)s ORDER BY m.seq
""",
    insert="""
INSERT INTO lcm_summary (conversation_id, kind, depth, content, token_count, first_seq, last_seq, earliest_at,
    latest_at, message_count, source_tokens, level, model, stale, source_from_seq)
SELECT %(conversation)s, 'leaf', 0, %(content)s, %(tokens)s, %(first)s, %(last)s, min(m.created_at),
    max(m.created_at), count(*), sum(m.token_count), %(level)s, %(model)s, false, %(source_from)s
FROM lcm_item i JOIN chat_message m ON m.id = i.message_id
WHERE i.conversation_id = %(conversation)s AND i.ordinal BETWEEN %(first)s AND %(last)s
RETURNING id
""",
    link="""
INSERT INTO lcm_summarymessage (summary_id, message_id)
SELECT %(summary)s, message_id FROM lcm_item
WHERE conversation_id = %(conversation)s AND ordinal BETWEEN %(first)s AND %(last)s ORDER BY ordinal
""",
)
SUMMARIES = SourceSql(
    fingerprint="s.id, s.first_seq, s.depth, s.stale, md5(s.content)",
    content="s.earliest_at, s.latest_at, s.first_seq, s.last_seq, s.content, s.token_count",
    from_items="""
FROM lcm_item i JOIN lcm_summary s ON s.id = i.summary_id
WHERE i.conversation_id = %(conversation)s AND i.ordinal BETWEEN %(first)s AND %(last)s ORDER BY s.first_seq
""",
    from_summary="""
FROM lcm_summaryedge e JOIN lcm_summary s ON s.id = e.constituent_id WHERE e.container_id = %(summary)s
ORDER BY s.first_seq
""",
    insert="""
INSERT INTO lcm_summary (conversation_id, kind, depth, content, token_count, first_seq, last_seq, earliest_at,
    latest_at, message_count, source_tokens, level, model, stale, source_from_seq)
SELECT %(conversation)s, 'condensed', max(s.depth) + 1, %(content)s, %(tokens)s, min(s.first_seq), max(s.last_seq),
    min(s.earliest_at), max(s.latest_at), sum(s.message_count), sum(s.token_count), %(level)s, %(model)s, false,
    least(min(s.source_from_seq), %(source_from)s)
FROM lcm_item i JOIN lcm_summary s ON s.id = i.summary_id
WHERE i.conversation_id = %(conversation)s AND i.ordinal BETWEEN %(first)s AND %(last)s
RETURNING id
""",
    link="""
INSERT INTO lcm_summaryedge (container_id, constituent_id)
SELECT %(summary)s, summary_id FROM lcm_item
WHERE conversation_id = %(conversation)s AND ordinal BETWEEN %(first)s AND %(last)s ORDER BY ordinal
""",
)


FINGERPRINT_COLUMNS = 5  # of a row of either
BUMP_VERSION = "UPDATE lcm_conversation SET version = version + 1 WHERE id = %(conversation)s"
LOCK_CONVERSATION = "SELECT FROM lcm_conversation WHERE id = %(conversation)s FOR UPDATE"
DELETED_CONTENT = "[Everything said here was deleted.]"
"""What a leaf says that nothing is left of."""


def messages_from_rows(rows: Sequence[DbRow]) -> list[SourceMessage]:
    """Messages from rows of MESSAGES: those that prompts show."""
    messages = []
    for _, seq, kind, is_shown, _, created_at, author_kind, name, body, tokens in rows:
        is_tool = kind.startswith("tool")
        role = "tool" if is_tool else "assistant" if author_kind in ("agent", "assistant") else "user"
        if is_shown:
            messages.append(SourceMessage(created_at, role, name, body, tokens, is_tool, seq))
    return messages


def summaries_from_rows(rows: Sequence[DbRow]) -> list[SourceSummary]:
    return [SourceSummary(*row[FINGERPRINT_COLUMNS:]) for row in rows]


def read_source(summary: Summary) -> SummarySource:
    """What a summary was made from, as it is now."""
    sql = MESSAGES if summary.kind == Summary.Kind.LEAF else SUMMARIES
    rows = fetch_rows(f"SELECT {sql.fingerprint}, {sql.content} {sql.from_summary}", {"summary": summary.pk})
    return source_from_rows(rows, MAX_CHUNK_TOKENS, is_leaf=sql is MESSAGES)


def source_from_rows(rows: Sequence[DbRow], chunk_tokens: int, *, is_leaf: bool) -> SummarySource:
    if is_leaf:
        return message_source(messages_from_rows(rows), chunk_tokens=chunk_tokens)
    return summary_source([one for one in summaries_from_rows(rows) if one.content != DELETED_CONTENT])


def lock_source(cursor: CursorWrapper, sql: SourceSql, from_rows: str, values: Mapping[str, Any]) -> list[DbRow]:
    """Locks the conversation, and a leaf's messages before it; returns the fingerprints as they are now."""
    if sql is SUMMARIES:
        cursor.execute(LOCK_CONVERSATION, values)
    cursor.execute(f"SELECT {sql.fingerprint} {from_rows} {'FOR SHARE OF m' if sql is MESSAGES else ''}", values)
    fingerprints: list[DbRow] = cursor.fetchall()
    if sql is MESSAGES:
        cursor.execute(LOCK_CONVERSATION, values)
    return fingerprints
