"""The plan of one summary: what it is made from, and putting it in place of its items if that is still so.

All reads walk an index and stop, so that their cost does not grow with the thread. What is written is checked under
locks against what was read: messages first, then the conversation, the order in which an edit takes them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from django.db import connection, transaction

from memory.plugins.lcm.chunking import MAX_CHUNK_TOKENS, ContextItem
from memory.plugins.lcm.items import fetch_rows
from memory.plugins.lcm.models import Item
from memory.plugins.lcm.source_lines import SummarySource, message_source, summary_source
from memory.plugins.lcm.summarizer import SummaryDraft, entry_cost
from memory.plugins.lcm.summary_prompt import MAX_EARLIER_SUMMARIES, NO_WISHES, SummaryWishes
from memory.plugins.lcm.summary_sources import (
    BUMP_VERSION,
    FINGERPRINT_COLUMNS,
    MESSAGES,
    SUMMARIES,
    DbRow,
    SourceSql,
    lock_source,
    messages_from_rows,
    summaries_from_rows,
)
from openvibe.engines.llm.protocol import ModelClient

LEAF_SHARE, CONDENSED_SHARE = 3, 2
"""A summary is to take this part of its source: a third, a half."""

MIN_CHUNK_FOR_EARLIER = 5_000
"""Tokens of source, from which on earlier summaries are shown with it."""

REPLACE_ITEMS = (
    "DELETE FROM lcm_item WHERE conversation_id = %(conversation)s AND ordinal BETWEEN %(first)s AND %(last)s",
    "INSERT INTO lcm_item (conversation_id, ordinal, summary_id) VALUES (%(conversation)s, %(first)s, %(summary)s)",
    BUMP_VERSION,
)
EARLIER_SUMMARIES = "SELECT id, first_seq, content FROM lcm_summary WHERE id = ANY(%s) AND NOT stale ORDER BY first_seq"


class SummaryWriter(NamedTuple):
    """A writer of summaries, with the number of tokens it is shown at once and what new ones are to keep. Without a
    client they are picked from the source."""

    client: ModelClient | None
    chunk_tokens: int = MAX_CHUNK_TOKENS
    wishes: SummaryWishes = NO_WISHES


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


def plan_summary(
    conversation_id: int, items: Sequence[ContextItem], *, is_leaf: bool, chunk_tokens: int
) -> SummaryPlan:
    """Reads the messages of these items, or the summaries."""
    sql = MESSAGES if is_leaf else SUMMARIES
    place = {"conversation": conversation_id, "first": items[0].ordinal, "last": items[-1].ordinal}
    rows = fetch_rows(f"SELECT {sql.fingerprint}, {sql.content} {sql.from_items}", place)
    if is_leaf:
        messages = messages_from_rows(rows)
        source, sizes = message_source(messages, chunk_tokens=chunk_tokens), [one.tokens for one in messages]
    else:
        summaries = summaries_from_rows(rows)
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
    """The summaries that precede, up to MAX_EARLIER_SUMMARIES, oldest first; none for a model whose window is small.

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


def write_summary(plan: SummaryPlan, draft: SummaryDraft) -> int | None:
    """Puts the summary in the place of what it stands for, in one transaction; returns its id.

    None, with nothing written, when what it was made from, earlier context included, is no longer what was read.
    """
    earlier_rows = plan.earlier_rows if draft.level != "fallback" else []  # what is cut from its source saw no other
    source_from = min([plan.place["first"], *(first_seq for _, first_seq, _ in earlier_rows)])
    values = {**draft._asdict(), **plan.place, "source_from": source_from}
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        if lock_source(cursor, plan.sql, plan.sql.from_items, values) != plan.fingerprints:
            return None
        cursor.execute(EARLIER_SUMMARIES, [[pk for pk, _, _ in earlier_rows]])
        if cursor.fetchall() != earlier_rows:
            return None
        cursor.execute(plan.sql.insert, values)
        (values["summary"],) = cursor.fetchone()
        for statement in (plan.sql.link, *REPLACE_ITEMS):
            cursor.execute(statement, values)
    return int(values["summary"])
