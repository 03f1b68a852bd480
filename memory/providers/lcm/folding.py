"""Reading what may be folded, and putting a summary in its place: the statements of compaction.

All reads walk an index and stop, so that their cost does not grow with the thread. What is written is checked under
locks against what was read: messages first, then the conversation, the order in which an edit takes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db import connection, transaction

from memory.providers.base import ENVELOPE, LONGEST
from memory.providers.lcm.groups import GAP, SUMMARY, Place
from memory.providers.lcm.reading import IN_PROMPTS, rows_of
from memory.providers.lcm.summarising import (
    Made,
    Said,
    Source,
    Summarised,
    cost,
    source_of_messages,
    source_of_summaries,
)

Row = tuple[Any, ...]

COST = (
    f"CASE WHEN s.id IS NOT NULL THEN least(s.token_count, {LONGEST}) + {ENVELOPE}"
    f" WHEN {IN_PROMPTS} THEN least(m.token_count, {LONGEST}) + {ENVELOPE} ELSE 0 END"
)
# OFFSET 0: looked up by their keys, whatever the planner thinks of how many items there are
HELD = """
LEFT JOIN LATERAL (SELECT * FROM lcm_summary WHERE id = i.summary_id OFFSET 0) s ON true
LEFT JOIN LATERAL (SELECT * FROM chat_message WHERE id = i.message_id OFFSET 0) m ON true
"""
PLACES = f"""
SELECT i.ordinal, coalesce(m.kind, '{SUMMARY}'), {COST},
    CASE WHEN m.kind IN ('tool_call', 'tool_result') THEN m.call_id ELSE '' END,
    coalesce(m.kind = 'text' AND p.kind <> 'agent', false), coalesce(m.state = 'writing', false),
    coalesce(s.depth, 0), coalesce(s.stale, false)
FROM ({{items}}) i {HELD} LEFT JOIN workspaces_participant p ON p.id = m.author_id ORDER BY i.ordinal
"""  # noqa: S608 - only constants of this package
ITEMS = "SELECT ordinal, message_id, summary_id FROM lcm_item WHERE conversation_id = %s"
NEWEST_ITEMS = f"{ITEMS} ORDER BY ordinal DESC LIMIT %s"
NEWEST = PLACES.replace("{items}", NEWEST_ITEMS)
AFTER = PLACES.replace("{items}", f"{ITEMS} AND ordinal > %s ORDER BY ordinal LIMIT %s")
TOTAL = f"SELECT coalesce(sum({COST}), 0) FROM ({NEWEST_ITEMS}) i {HELD}"  # noqa: S608
LAST_FOLDED = """
SELECT s.last_seq FROM lcm_item i JOIN lcm_summary s ON s.id = i.summary_id
WHERE i.conversation_id = %s AND i.summary_id IS NOT NULL ORDER BY i.ordinal DESC LIMIT 1
"""
SUMMARIES = """
SELECT i.ordinal, s.token_count, s.depth, s.stale, s.id, (
    SELECT before.summary_id FROM lcm_item before
    WHERE before.conversation_id = i.conversation_id AND before.ordinal < i.ordinal ORDER BY before.ordinal DESC LIMIT 1
)
FROM lcm_item i JOIN lcm_summary s ON s.id = i.summary_id
WHERE i.conversation_id = %s AND i.summary_id IS NOT NULL ORDER BY i.ordinal DESC LIMIT %s
"""
EARLIER = """
SELECT s.content FROM lcm_item i JOIN lcm_summary s ON s.id = i.summary_id
WHERE i.conversation_id = %s AND i.summary_id IS NOT NULL AND i.ordinal < %s AND NOT s.stale
ORDER BY i.ordinal DESC LIMIT 2
"""
# What a check compares: the message, whether prompts show it, and a fingerprint of its text.
MESSAGE_MARK = f"m.id, m.seq, m.kind, {IN_PROMPTS}, md5(m.body)"
OF_ITEMS = """
FROM lcm_item i JOIN chat_message m ON m.id = i.message_id JOIN workspaces_participant p ON p.id = m.author_id
WHERE i.conversation_id = %s AND i.ordinal BETWEEN %s AND %s ORDER BY m.seq
"""
OF_LEAF = """
FROM lcm_summarymessage l JOIN chat_message m ON m.id = l.message_id JOIN workspaces_participant p ON p.id = m.author_id
WHERE l.summary_id = %s ORDER BY m.seq
"""
SAID = "m.created_at, p.kind, p.name, m.body, m.token_count"
SUMMARY_MARK = "s.id, s.first_seq, s.depth, s.stale, md5(s.content)"
TOLD = "s.earliest_at, s.latest_at, s.first_seq, s.last_seq, s.content, s.token_count"
OF_SUMMARY_ITEMS = """
FROM lcm_item i JOIN lcm_summary s ON s.id = i.summary_id
WHERE i.conversation_id = %s AND i.ordinal BETWEEN %s AND %s ORDER BY s.first_seq
"""
OF_CONTAINER = """
FROM lcm_summaryedge e JOIN lcm_summary s ON s.id = e.constituent_id WHERE e.container_id = %s ORDER BY s.first_seq
"""
MARKS = 5  # columns of a mark
ROOM_FOR_EARLIER = 5_000  # tokens of source, from which on earlier summaries are shown with it

NEW_LEAF = """
INSERT INTO lcm_summary (conversation_id, kind, depth, content, token_count, first_seq, last_seq, earliest_at,
    latest_at, message_count, source_tokens, level, model, stale)
SELECT %(conversation)s, 'leaf', 0, %(content)s, %(tokens)s, %(first)s, %(last)s, min(m.created_at),
    max(m.created_at), count(*), sum(m.token_count), %(level)s, %(model)s, false
FROM lcm_item i JOIN chat_message m ON m.id = i.message_id
WHERE i.conversation_id = %(conversation)s AND i.ordinal BETWEEN %(first)s AND %(last)s
RETURNING id
"""
NEW_CONDENSED = """
INSERT INTO lcm_summary (conversation_id, kind, depth, content, token_count, first_seq, last_seq, earliest_at,
    latest_at, message_count, source_tokens, level, model, stale)
SELECT %(conversation)s, 'condensed', max(s.depth) + 1, %(content)s, %(tokens)s, min(s.first_seq), max(s.last_seq),
    min(s.earliest_at), max(s.latest_at), sum(s.message_count), sum(s.token_count), %(level)s, %(model)s, false
FROM lcm_item i JOIN lcm_summary s ON s.id = i.summary_id
WHERE i.conversation_id = %(conversation)s AND i.ordinal BETWEEN %(first)s AND %(last)s
RETURNING id
"""
LINK_MESSAGES = """
INSERT INTO lcm_summarymessage (summary_id, message_id)
SELECT %(summary)s, message_id FROM lcm_item
WHERE conversation_id = %(conversation)s AND ordinal BETWEEN %(first)s AND %(last)s ORDER BY ordinal
"""
LINK_SUMMARIES = """
INSERT INTO lcm_summaryedge (container_id, constituent_id)
SELECT %(summary)s, summary_id FROM lcm_item
WHERE conversation_id = %(conversation)s AND ordinal BETWEEN %(first)s AND %(last)s ORDER BY ordinal
"""
REPLACE = (
    "DELETE FROM lcm_item WHERE conversation_id = %(conversation)s AND ordinal BETWEEN %(first)s AND %(last)s",
    "INSERT INTO lcm_item (conversation_id, ordinal, summary_id) VALUES (%(conversation)s, %(first)s, %(summary)s)",
    "UPDATE lcm_conversation SET version = version + 1 WHERE id = %(conversation)s",
)
LOCK = "SELECT FROM lcm_conversation WHERE id = %s FOR UPDATE"


@dataclass(frozen=True, slots=True)
class Plan:
    """Neighbouring items that one summary is to stand for, as they were read."""

    conversation_id: int
    first: int
    last: int
    is_leaf: bool
    marks: tuple[Row, ...]
    source: Source
    earlier: tuple[str, ...]
    cost: int
    messages: int


def newest_places(conversation_id: int, most: int) -> list[Place]:
    """The newest items, oldest first."""
    return [Place(*row) for row in rows_of(NEWEST, [conversation_id, most])]


def places_after(conversation_id: int, ordinal: int, most: int) -> list[Place]:
    return [Place(*row) for row in rows_of(AFTER, [conversation_id, ordinal, most])]


def total(conversation_id: int, most: int) -> int:
    """Tokens that the newest `most` items need in a prompt."""
    return int(rows_of(TOTAL, [conversation_id, most])[0][0])


def last_folded(conversation_id: int) -> int:
    """The number of the last message that a summary among the items stands for; 0 without any."""
    found = rows_of(LAST_FOLDED, [conversation_id])
    return int(found[0][0]) if found else 0


def summary_places(conversation_id: int, most: int) -> list[Place]:
    """The newest summaries among the items, oldest first, with a GAP wherever something stands between two."""
    places: list[Place] = []
    newer: int | None = None  # what the summary before this one would have to be
    for ordinal, tokens, depth, stale, summary_id, before in rows_of(SUMMARIES, [conversation_id, most]):
        if places and newer != summary_id:
            places.append(Place(ordinal, GAP, 0))
        places.append(Place(ordinal, SUMMARY, tokens + ENVELOPE, depth=depth, is_stale=stale))
        newer = before
    return places[::-1]


def plan_leaf(conversation_id: int, places: Sequence[Place], *, chunk: int) -> Plan:
    """Read the messages of these places."""
    first, last = places[0].ordinal, places[-1].ordinal
    found = rows_of(f"SELECT {MESSAGE_MARK}, {SAID} {OF_ITEMS}", [conversation_id, first, last])
    lines = said(found)
    return Plan(
        conversation_id, first, last, True, tuple(row[:MARKS] for row in found),
        source_of_messages(lines, chunk=chunk), _earlier(conversation_id, first, chunk),
        sum(cost(line.tokens) for line in lines), len(found),
    )  # fmt: skip


def plan_condensed(conversation_id: int, places: Sequence[Place], *, chunk: int) -> Plan:
    """Read the summaries of these places."""
    first, last = places[0].ordinal, places[-1].ordinal
    found = rows_of(f"SELECT {SUMMARY_MARK}, {TOLD} {OF_SUMMARY_ITEMS}", [conversation_id, first, last])
    told = [Summarised(*row[MARKS:]) for row in found]
    return Plan(
        conversation_id, first, last, False, tuple(row[:MARKS] for row in found),
        source_of_summaries(told), _earlier(conversation_id, first, chunk), sum(cost(one.tokens) for one in told), 0,
    )  # fmt: skip


def _earlier(conversation_id: int, ordinal: int, chunk: int) -> tuple[str, ...]:
    """Up to two summaries that precede, oldest first; none for a model whose window is small."""
    if chunk < ROOM_FOR_EARLIER:
        return ()
    return tuple(content for (content,) in reversed(rows_of(EARLIER, [conversation_id, ordinal])))


def said(found: Sequence[Row]) -> list[Said]:
    """The lines of messages read as MESSAGE_MARK and SAID: those that prompts show."""
    return [
        Said(at, "tool" if kind.startswith("tool") else "assistant" if by == "agent" else "user", name, body, tokens,
             kind.startswith("tool"))
        for _, _, kind, is_shown, _, at, by, name, body, tokens in found if is_shown
    ]  # fmt: skip


def write(plan: Plan, made: Made) -> int | None:
    """Put the summary in the place of what it stands for, in one transaction; its id.

    None, with nothing written, when what it was made from is no longer what was read.
    """
    values: dict[str, Any] = {
        "conversation": plan.conversation_id, "first": plan.first, "last": plan.last, "content": made.content,
        "tokens": made.tokens, "level": made.level, "model": made.model,
    }  # fmt: skip
    where = [plan.conversation_id, plan.first, plan.last]
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        if plan.is_leaf:
            cursor.execute(f"SELECT {MESSAGE_MARK} {OF_ITEMS} FOR SHARE OF m", where)
            unchanged = tuple(cursor.fetchall()) == plan.marks
            cursor.execute(LOCK, [plan.conversation_id])
        else:
            cursor.execute(LOCK, [plan.conversation_id])
            cursor.execute(f"SELECT {SUMMARY_MARK} {OF_SUMMARY_ITEMS}", where)
            unchanged = tuple(cursor.fetchall()) == plan.marks
        if not unchanged:
            return None
        cursor.execute(NEW_LEAF if plan.is_leaf else NEW_CONDENSED, values)
        (values["summary"],) = cursor.fetchone()
        cursor.execute(LINK_MESSAGES if plan.is_leaf else LINK_SUMMARIES, values)
        for statement in REPLACE:
            cursor.execute(statement, values)
    return int(values["summary"])
