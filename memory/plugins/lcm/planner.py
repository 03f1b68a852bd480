"""Planning and writing summaries: what one is made from, putting it in place of its items, rebuilding a stale one.

All reads walk an index and stop, so that their cost does not grow with the thread. What is written is checked under
locks against what was read: messages first, then the conversation, the order in which an edit takes them. Stale
summaries (a message below them was changed) are rebuilt from the leaves upwards: a condensed summary waits until none
of its constituents is stale."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from django.db import connection, transaction
from django.db.backends.utils import CursorWrapper

from memory.plugins.base import ENVELOPE_TOKENS, MAX_ENTRY_TOKENS
from memory.plugins.lcm.chunking import GAP_KIND, MAX_CHUNK_TOKENS, SUMMARY_KIND, ContextItem
from memory.plugins.lcm.items import PROMPT_FILTER, fetch_rows
from memory.plugins.lcm.models import Item, Summary
from memory.plugins.lcm.summarizer import (
    MAX_EARLIER_SUMMARIES,
    NO_MODEL,
    SourceMessage,
    SourceSummary,
    SummaryDraft,
    SummarySource,
    entry_cost,
    message_source,
    strip_headers,
    summarize,
    summary_source,
)
from openvibe.llm.protocol import ModelClient
from openvibe.llm.tokens import count_tokens

DbRow = tuple[Any, ...]

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
    CASE WHEN m.kind IN ('tool_call', 'tool_result') THEN m.call_id ELSE '' END,
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
    content="m.created_at, p.kind, p.name, m.body, m.token_count",
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
FINGERPRINT_COLUMNS = 5
MIN_CHUNK_FOR_EARLIER = 5_000
"""Tokens of source, from which on earlier summaries are shown with it."""

BUMP_VERSION = "UPDATE lcm_conversation SET version = version + 1 WHERE id = %(conversation)s"
REPLACE_ITEMS = (
    "DELETE FROM lcm_item WHERE conversation_id = %(conversation)s AND ordinal BETWEEN %(first)s AND %(last)s",
    "INSERT INTO lcm_item (conversation_id, ordinal, summary_id) VALUES (%(conversation)s, %(first)s, %(summary)s)",
    BUMP_VERSION,
)
EARLIER_SUMMARIES = "SELECT id, first_seq, content FROM lcm_summary WHERE id = ANY(%s) AND NOT stale ORDER BY first_seq"
LOCK_CONVERSATION = "SELECT FROM lcm_conversation WHERE id = %(conversation)s FOR UPDATE"


class SummaryWriter(NamedTuple):
    """Who writes summaries, how many tokens it is shown at once, and what new ones keep in most detail. Without a
    client they are cut from the source."""

    client: ModelClient | None
    chunk_tokens: int = MAX_CHUNK_TOKENS
    focus: str = ""


@dataclass(frozen=True, slots=True)
class SummaryPlan:
    """Neighbouring items that one summary is to stand for, as they were read. `place` names them in statements,
    `earlier_rows` are the summaries shown with them: id, number of the first message, content."""

    sql: SourceSql
    place: dict[str, int]
    fingerprints: list[DbRow]
    source: SummarySource
    earlier_rows: list[DbRow]
    cost: int
    messages: int

    @property
    def earlier(self) -> tuple[str, ...]:
        return tuple(content for _, _, content in self.earlier_rows)


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


def plan_summary(
    conversation_id: int, items: Sequence[ContextItem], *, is_leaf: bool, chunk_tokens: int
) -> SummaryPlan:
    """Read the messages of these items, or the summaries."""
    sql = MESSAGES if is_leaf else SUMMARIES
    place = {"conversation": conversation_id, "first": items[0].ordinal, "last": items[-1].ordinal}
    rows = fetch_rows(f"SELECT {sql.fingerprint}, {sql.content} {sql.from_items}", place)
    if is_leaf:
        messages = _source_messages(rows)
        source, sizes = message_source(messages, chunk_tokens=chunk_tokens), [one.tokens for one in messages]
    else:
        summaries = _source_summaries(rows)
        source, sizes = summary_source(summaries), [one.tokens for one in summaries]
    return SummaryPlan(
        sql,
        place,
        [row[:FINGERPRINT_COLUMNS] for row in rows],
        source,
        _earlier_summaries(conversation_id, place["first"], chunk_tokens),
        cost=sum(map(entry_cost, sizes)),
        messages=len(rows) if is_leaf else 0,
    )


def _earlier_summaries(conversation_id: int, ordinal: int, chunk_tokens: int) -> list[DbRow]:
    """Up to MAX_EARLIER_SUMMARIES that precede, oldest first; none for a model whose window is small.

    One that was itself made with earlier context is not given: else everything would go back to the first message,
    and a word deleted there would have every summary of the thread made anew.
    """
    if chunk_tokens < MIN_CHUNK_FOR_EARLIER:
        return []
    preceding = Item.objects.filter(conversation=conversation_id, summary__isnull=False, ordinal__lt=ordinal)
    columns = ("summary", "summary__first_seq", "summary__content", "summary__source_from_seq", "summary__stale")
    newest = preceding.order_by("-ordinal").values_list(*columns)[:MAX_EARLIER_SUMMARIES]
    return [
        (pk, first_seq, content)
        for pk, first_seq, content, source_from_seq, is_stale in reversed(newest)
        if source_from_seq == first_seq and not is_stale
    ]


def _source_messages(rows: Sequence[DbRow]) -> list[SourceMessage]:
    """Messages from rows of MESSAGES: those that prompts show."""
    messages = []
    for _, _, kind, is_shown, _, created_at, author_kind, name, body, tokens in rows:
        is_tool = kind.startswith("tool")
        role = "tool" if is_tool else "assistant" if author_kind in ("agent", "assistant") else "user"
        if is_shown:
            messages.append(SourceMessage(created_at, role, name, body, tokens, is_tool))
    return messages


def _source_summaries(rows: Sequence[DbRow]) -> list[SourceSummary]:
    return [SourceSummary(*row[FINGERPRINT_COLUMNS:]) for row in rows]


def write_summary(plan: SummaryPlan, draft: SummaryDraft) -> int | None:
    """Put the summary in the place of what it stands for, in one transaction; its id.

    None, with nothing written, when what it was made from, earlier context included, is no longer what was read.
    """
    earlier_rows = plan.earlier_rows if draft.level != "fallback" else []  # what is cut from its source saw no other
    source_from = min([plan.place["first"], *(first_seq for _, first_seq, _ in earlier_rows)])
    values = {**draft._asdict(), **plan.place, "source_from": source_from}
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        if _lock_source(cursor, plan.sql, plan.sql.from_items, values) != plan.fingerprints:
            return None
        cursor.execute(EARLIER_SUMMARIES, [[pk for pk, _, _ in earlier_rows]])
        if cursor.fetchall() != earlier_rows:
            return None
        cursor.execute(plan.sql.insert, values)
        (values["summary"],) = cursor.fetchone()
        for statement in (plan.sql.link, *REPLACE_ITEMS):
            cursor.execute(statement, values)
    return int(values["summary"])


def _lock_source(cursor: CursorWrapper, sql: SourceSql, from_rows: str, values: Mapping[str, Any]) -> list[DbRow]:
    """Lock the conversation, and a leaf's messages before it; the fingerprints as they are now."""
    if sql is SUMMARIES:
        cursor.execute(LOCK_CONVERSATION, values)
    cursor.execute(f"SELECT {sql.fingerprint} {from_rows} {'FOR SHARE OF m' if sql is MESSAGES else ''}", values)
    fingerprints: list[DbRow] = cursor.fetchall()
    if sql is MESSAGES:
        cursor.execute(LOCK_CONVERSATION, values)
    return fingerprints


DELETED_CONTENT = "[Everything said here was deleted.]"
"""What a leaf says that nothing is left of."""

MAX_TRIES = 2

LEAF_SHARE, CONDENSED_SHARE = 3, 2
"""A summary is to take this part of its source: a third, a half."""

UPDATE_SUMMARY = """
UPDATE lcm_summary SET content = %(content)s, token_count = %(tokens)s, level = %(level)s, model = %(model)s,
    stale = false, source_tokens = %(source_tokens)s, version = version + 1, source_from_seq = coalesce(
        (SELECT min(d.source_from_seq) FROM lcm_summaryedge e JOIN lcm_summary d ON d.id = e.constituent_id
         WHERE e.container_id = %(summary)s), first_seq)
WHERE id = %(summary)s AND stale
"""


def rebuild_stale_summaries(conversation_id: int, writer: SummaryWriter, limit: int) -> int:
    """Give every stale summary of a conversation its words again, at most `limit` tokens each; how many got them.

    Raises what the model raises; those rebuilt before that stay rebuilt. One that keeps changing meanwhile stays
    stale, and what stands above it.
    """
    rebuilt = 0
    stuck: set[int] = set()
    while True:
        stale = Summary.objects.filter(conversation=conversation_id, stale=True).exclude(pk__in=stuck)
        ready = stale.exclude(constituents__stale=True).order_by("depth", "first_seq").first()
        if ready is None:
            return rebuilt
        if _rebuild_summary(ready, writer, limit):
            rebuilt += 1
        else:
            stuck.add(ready.pk)


def read_source(summary: Summary) -> SummarySource:
    """What a summary was made from, as it is now."""
    sql = MESSAGES if summary.kind == Summary.Kind.LEAF else SUMMARIES
    rows = fetch_rows(f"SELECT {sql.fingerprint}, {sql.content} {sql.from_summary}", {"summary": summary.pk})
    return _source_from_rows(rows, MAX_CHUNK_TOKENS, is_leaf=sql is MESSAGES)


def _source_from_rows(rows: Sequence[DbRow], chunk_tokens: int, *, is_leaf: bool) -> SummarySource:
    if is_leaf:
        return message_source(_source_messages(rows), chunk_tokens=chunk_tokens)
    return summary_source([one for one in _source_summaries(rows) if one.content != DELETED_CONTENT])


def _rebuild_summary(summary: Summary, writer: SummaryWriter, limit: int) -> bool:
    """Write the new words, if what they were made from is still what was read; whether they stand. No earlier context
    is shown, so that what changes next makes fewer summaries stale."""
    is_leaf = summary.kind == Summary.Kind.LEAF
    sql = MESSAGES if is_leaf else SUMMARIES
    values: dict[str, Any] = {"summary": summary.pk, "conversation": summary.conversation_id}
    for _ in range(MAX_TRIES):
        rows = fetch_rows(f"SELECT {sql.fingerprint}, {sql.content} {sql.from_summary}", values)
        source = _source_from_rows(rows, writer.chunk_tokens, is_leaf=is_leaf)
        share = LEAF_SHARE if is_leaf else CONDENSED_SHARE
        draft = summarize(source, share=share, limit=limit, client=writer.client) if source.tokens else None
        values |= {**(draft or _verbatim_draft(source, limit))._asdict(), "source_tokens": sum(row[-1] for row in rows)}
        with transaction.atomic(durable=True), connection.cursor() as cursor:
            if _lock_source(cursor, sql, sql.from_summary, values) == [row[:FINGERPRINT_COLUMNS] for row in rows]:
                cursor.execute(UPDATE_SUMMARY, values)
                cursor.execute(BUMP_VERSION, values)
                return True
    return False


def _verbatim_draft(source: SummarySource, limit: int) -> SummaryDraft:
    """What hardly says anything can be no shorter: it stands as it is. What says nothing says so."""
    text = strip_headers(source.text) if source.tokens else ""
    text = text if text and count_tokens(text) <= limit else DELETED_CONTENT
    return SummaryDraft(text, count_tokens(text), "fallback", NO_MODEL)
