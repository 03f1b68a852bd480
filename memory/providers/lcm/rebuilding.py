"""Summaries that lost their words because a message below them was changed get new ones, from what there is now.

From the leaves upwards: a condensed summary waits until none of its constituents is stale.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db import connection, transaction

from memory.providers.lcm.folding import (
    LOCK,
    MARKS,
    MESSAGE_MARK,
    OF_CONTAINER,
    OF_LEAF,
    SAID,
    SUMMARY_MARK,
    TOLD,
    Row,
    said,
)
from memory.providers.lcm.models import Summary
from memory.providers.lcm.reading import rows_of
from memory.providers.lcm.summarising import (
    NO_MODEL,
    Made,
    Source,
    Summarised,
    source_of_messages,
    source_of_summaries,
    summarise,
    without_headers,
)
from openvibe.llm.protocol import ModelClient
from openvibe.llm.tokens import count

DELETED = "[Everything said here was deleted.]"
"""What a leaf says that nothing is left of."""

TRIES = 2

UPDATE = """
UPDATE lcm_summary SET content = %(content)s, token_count = %(tokens)s, level = %(level)s, model = %(model)s,
    stale = false, source_tokens = %(source_tokens)s
WHERE id = %(summary)s AND stale
"""
RENEWED = "UPDATE lcm_conversation SET version = version + 1 WHERE id = %s"


def rebuild_stale(conversation_id: int, *, client: ModelClient | None, chunk: int, limit: int) -> int:
    """Give every stale summary of a conversation its words again; how many got them.

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
        if _rebuild(ready, client, chunk, limit):
            rebuilt += 1
        else:
            stuck.add(ready.pk)


def _rebuild(summary: Summary, client: ModelClient | None, chunk: int, limit: int) -> bool:
    is_leaf = summary.kind == Summary.Kind.LEAF
    marked, told, of = (MESSAGE_MARK, SAID, OF_LEAF) if is_leaf else (SUMMARY_MARK, TOLD, OF_CONTAINER)
    for _ in range(TRIES):
        found = rows_of(f"SELECT {marked}, {told} {of}", [summary.pk])
        source = source_of_messages(said(found), chunk=chunk) if is_leaf else _of_summaries(found)
        made = summarise(source, share=3 if is_leaf else 2, limit=limit, client=client) if source.tokens else None
        marks = [row[:MARKS] for row in found]
        if _written(summary, made or _as_it_is(source, limit), marks, sum(row[-1] for row in found)):
            return True
    return False


def _of_summaries(found: Sequence[Row]) -> Source:
    """What the constituents tell, without those of which nothing is left."""
    told = [Summarised(*row[MARKS:]) for row in found]
    return source_of_summaries([one for one in told if one.content != DELETED])


def _as_it_is(source: Source, limit: int) -> Made:
    """What hardly says anything can be no shorter: it stands as it is. What says nothing says so."""
    words = without_headers(source.text) if source.tokens else ""
    words = words if words and count(words) <= limit else DELETED
    return Made(words, count(words), "fallback", NO_MODEL)


def _written(summary: Summary, made: Made, marks: Sequence[Row], source_tokens: int) -> bool:
    """Write the new words, if what they were made from is still what was read; whether they stand."""
    values: dict[str, Any] = {
        "summary": summary.pk, "content": made.content, "tokens": made.tokens, "level": made.level,
        "model": made.model, "source_tokens": source_tokens,
    }  # fmt: skip
    is_leaf = summary.kind == Summary.Kind.LEAF
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        if is_leaf:
            cursor.execute(f"SELECT {MESSAGE_MARK} {OF_LEAF} FOR SHARE OF m", [summary.pk])
            unchanged = cursor.fetchall() == marks
            cursor.execute(LOCK, [summary.conversation_id])
        else:
            cursor.execute(LOCK, [summary.conversation_id])
            cursor.execute(f"SELECT {SUMMARY_MARK} {OF_CONTAINER}", [summary.pk])
            unchanged = cursor.fetchall() == marks
        if not unchanged:
            return False
        cursor.execute(UPDATE, values)
        cursor.execute(RENEWED, [summary.conversation_id])
    return True
