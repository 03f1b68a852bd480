"""Rebuilding stale summaries: a message below them was changed, so their words are written anew.

From the leaves upwards: a condensed summary waits until none of its constituents is stale."""

from typing import Any

from django.db import connection, transaction

from memory.plugins.lcm.items import fetch_rows
from memory.plugins.lcm.models import Summary
from memory.plugins.lcm.source_lines import SummarySource, strip_headers
from memory.plugins.lcm.summarizer import NO_MODEL, SummaryDraft, summarize
from memory.plugins.lcm.summary_plan import CONDENSED_SHARE, LEAF_SHARE, SummaryWriter
from memory.plugins.lcm.summary_sources import (
    BUMP_VERSION,
    DELETED_CONTENT,
    FINGERPRINT_COLUMNS,
    MESSAGES,
    SUMMARIES,
    lock_source,
    source_from_rows,
)
from openvibe.engines.llm.tokens import count_tokens

MAX_TRIES = 2

UPDATE_SUMMARY = """
UPDATE lcm_summary SET content = %(content)s, token_count = %(tokens)s, level = %(level)s, model = %(model)s,
    stale = false, source_tokens = %(source_tokens)s, version = version + 1, source_from_seq = coalesce(
        (SELECT min(d.source_from_seq) FROM lcm_summaryedge e JOIN lcm_summary d ON d.id = e.constituent_id
         WHERE e.container_id = %(summary)s), first_seq)
WHERE id = %(summary)s AND stale
"""


def rebuild_stale_summaries(conversation_id: int, writer: SummaryWriter, limit: int) -> int:
    """Gives every stale summary of a conversation its words again, at most `limit` tokens each; returns how many got
    them.

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


def _rebuild_summary(summary: Summary, writer: SummaryWriter, limit: int) -> bool:
    """Writes the new words, if what they were made from is still what was read; returns whether they stand. No earlier
    context is shown, so that what changes next makes fewer summaries stale."""
    is_leaf = summary.kind == Summary.Kind.LEAF
    sql = MESSAGES if is_leaf else SUMMARIES
    values: dict[str, Any] = {"summary": summary.pk, "conversation": summary.conversation_id}
    for _ in range(MAX_TRIES):
        rows = fetch_rows(f"SELECT {sql.fingerprint}, {sql.content} {sql.from_summary}", values)
        source = source_from_rows(rows, writer.chunk_tokens, is_leaf=is_leaf)
        share = LEAF_SHARE if is_leaf else CONDENSED_SHARE
        draft = _draft(source, share, limit, writer) if source.tokens else None
        values |= {**(draft or _verbatim_draft(source, limit))._asdict(), "source_tokens": sum(row[-1] for row in rows)}
        with transaction.atomic(durable=True), connection.cursor() as cursor:
            if lock_source(cursor, sql, sql.from_summary, values) == [row[:FINGERPRINT_COLUMNS] for row in rows]:
                cursor.execute(UPDATE_SUMMARY, values)
                cursor.execute(BUMP_VERSION, values)
                return True
    return False


def _verbatim_draft(source: SummarySource, limit: int) -> SummaryDraft:
    """What hardly says anything can be no shorter: it stands as it is. What says nothing says so."""
    text = strip_headers(source.text) if source.tokens else ""
    text = text if text and count_tokens(text) <= limit else DELETED_CONTENT
    return SummaryDraft(text, count_tokens(text), "fallback", NO_MODEL)


def _draft(source: SummarySource, share: int, limit: int, writer: SummaryWriter) -> SummaryDraft | None:
    return summarize(source, share=share, limit=limit, client=writer.client, wishes=writer.wishes)
