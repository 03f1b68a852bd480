"""Assembling the context: the fresh tail, then older entries until the first that does not fit the budget.

The database is read by `items`; what is chosen of it is decided here, from plain values. Nothing here writes."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from psycopg import sql

from memory.plugins.base import (
    ENVELOPE_TOKENS,
    MAX_ENTRY_TOKENS,
    MAX_PAIR_DISTANCE,
    WINDOW_STEP,
    ContextEntry,
    Session,
    SessionStats,
)
from memory.plugins.lcm import chunking, items
from memory.plugins.lcm.fresh_tail import fresh_tail_index
from memory.plugins.lcm.pause import PAUSE_AFTER_FAILURES
from openvibe.engines.llm.tokens import count_tokens

MAX_RESULT_TOKENS_IN_PROMPT = 2_000
"""Tokens above which a tool's result is only referred to once a person has spoken after it."""

STATS_STATEMENT = (
    sql.SQL("""
WITH place AS (
    SELECT t.id AS thread_id, c.id AS conversation_id,
        coalesce(c.seen_seq, 0) AS seen_seq, coalesce(writers.last_error, '') AS last_error,
        coalesce(writers.is_paused, false) AS is_paused
    FROM chat_thread t LEFT JOIN lcm_conversation c ON c.thread_id = t.id
    LEFT JOIN LATERAL (
        SELECT (array_agg(f.last_error ORDER BY e.is_for_summaries DESC NULLS LAST, e.is_default DESC NULLS LAST)
                FILTER (WHERE f.last_error <> ''))[1] AS last_error,
            bool_and(coalesce(f.paused_until BETWEEN clock_timestamp() AND clock_timestamp() + {longest_pause}, false))
                AS is_paused
        FROM (SELECT w.id FROM llm_endpoint w WHERE w.workspace_id = t.workspace_id AND {writes}
              UNION ALL SELECT NULL WHERE NOT EXISTS (
                  SELECT FROM llm_endpoint w WHERE w.workspace_id = t.workspace_id AND {writes})) AS writer
        LEFT JOIN llm_endpoint e ON e.id = writer.id
        LEFT JOIN lcm_endpointfailures f
            ON f.workspace_id = t.workspace_id AND f.endpoint_id IS NOT DISTINCT FROM writer.id
    ) AS writers ON true
    WHERE t.id = %(thread)s AND t.workspace_id = %(workspace)s
), shown AS (
    SELECT m.token_count AS tokens FROM chat_message m WHERE m.thread_id = (SELECT thread_id FROM place)
    AND m.seq > (SELECT seen_seq FROM place) AND m.seq < %(before)s AND {shown}
    UNION ALL
    SELECT coalesce(s.token_count, m.token_count)
    FROM lcm_item i LEFT JOIN lcm_summary s ON s.id = i.summary_id LEFT JOIN chat_message m ON m.id = i.message_id
    WHERE i.conversation_id = (SELECT conversation_id FROM place) AND i.ordinal < %(before)s
    AND (s.id IS NOT NULL OR {shown})
), made AS (
    SELECT count(*) AS summaries, max(depth) AS deepest FROM lcm_summary
    WHERE conversation_id = (SELECT conversation_id FROM place)
)
SELECT (SELECT count(*) FROM chat_message m
        WHERE m.thread_id = place.thread_id AND m.seq < %(before)s AND {shown}),
    (SELECT count(*) FROM shown),
    (SELECT coalesce(sum(least(tokens, {longest}) + {envelope}), 0) FROM shown),
    made.summaries, coalesce(made.deepest, 0), is_paused, last_error
FROM place, made
""")
    .format(
        shown=items.VISIBLE_FILTER,
        writes=sql.SQL("(w.is_for_summaries OR w.summary_rank IS NOT NULL OR w.is_default OR w.is_fallback)"),
        longest=sql.Literal(MAX_ENTRY_TOKENS),
        envelope=sql.Literal(ENVELOPE_TOKENS),
        longest_pause=sql.Literal(PAUSE_AFTER_FAILURES),
    )
    .as_string()
)


def assemble_entries(session: Session, budget: int, fresh_tail: int, config: Mapping[str, Any]) -> list[ContextEntry]:
    """What fits `budget` tokens, oldest first: the last `fresh_tail` messages always (within the tail's own bound,
    `fresh_tail_tokens` of the config), then older entries, the newest first, up to the first that does not fit.

    One statement; another only where much of what was read first stays out (calls without results, long results
    that are only referred to), or a tool's call or the newest request lies far back. Tool calls and results without
    their other half stay out.
    """
    budget, fresh_tail = max(budget, 0), max(fresh_tail, 0)
    tokens, rows = budget, budget // ENVELOPE_TOKENS + fresh_tail + WINDOW_STEP
    while True:
        newest = items.newest_entries(session, tokens=tokens, minimum=fresh_tail, rows=rows)
        entries = with_references(without_orphans(newest.entries), newest.long_tokens, session.before)
        tail_start = fresh_tail_index(entries, fresh_tail, budget, config)
        first_shown = first_fitting_index(entries, tail_start, budget)
        if newest.is_all or (first_shown > 0 and not _needs_older_entries(newest.entries, fresh_tail)):
            return entries[first_shown:]
        tokens, rows = max(tokens, budget, MAX_ENTRY_TOKENS) * 4, rows * 4


def session_stats(session: Session) -> SessionStats:
    """What there is of the session. Counts all messages: as many as they are, so long it takes."""
    rows = items.fetch_rows(STATS_STATEMENT, items.session_params(session))
    if not rows:
        return SessionStats(messages=0, entries=0, tokens=0)
    messages, entries, tokens, summaries, deepest, is_paused, last_error = rows[0]
    note = f"Compaction is paused for a while, because it failed again and again: {last_error}" if is_paused else ""
    return SessionStats(messages, entries, int(tokens), summaries, deepest, note or last_error)


def without_orphans(entries: Sequence[ContextEntry]) -> list[ContextEntry]:
    """The entries without tool calls that have no result, and results that have no call."""
    paired_indices = _paired_indices(entries)
    return [
        entry
        for index, entry in enumerate(entries)
        if entry.kind not in ("tool_call", "tool_result") or index in paired_indices
    ]


def _paired_indices(entries: Sequence[ContextEntry]) -> set[int]:
    return {index for pair in chunking.tool_pair_spans(entries) for index in pair}


def with_references(entries: Sequence[ContextEntry], long: Mapping[int, int], before: int | None) -> list[ContextEntry]:
    """Tool results over MAX_RESULT_TOKENS_IN_PROMPT become references where a person spoke after them.

    `long` gives the tokens of long entries by ordinal; `before` is the number of the request, where there is one.
    """
    request_ordinals = (entry.ordinal for entry in reversed(entries) if _is_request(entry))
    last_request = before if before is not None else next(request_ordinals, 0)
    return [
        _reference_to(entry, long[entry.ordinal])
        if entry.kind == "tool_result"
        and entry.ordinal < last_request
        and long.get(entry.ordinal, 0) > MAX_RESULT_TOKENS_IN_PROMPT
        else entry
        for entry in entries
    ]


def _reference_to(entry: ContextEntry, tokens: int) -> ContextEntry:
    text = (
        f"[A tool answered {tokens:,} tokens here, left out to save room. They are message {entry.ordinal} of this"
        " thread: search your memory for words in it to read what stands around them.]"
    )
    return entry._replace(text=text, tokens=count_tokens(text))


def first_fitting_index(entries: Sequence[ContextEntry], tail_start: int, budget: int) -> int:
    """The index at which the window begins: at `tail_start`, or as many groups before it as fit with it."""
    remaining = budget - sum(entry.cost for entry in entries[tail_start:])
    first = tail_start
    for start in group_starts(entries, tail_start, budget):
        remaining -= sum(entry.cost for entry in entries[start:first])
        if remaining < 0:
            break
        first = start
    return first


def group_starts(entries: Sequence[ContextEntry], tail_start: int, budget: int) -> list[int]:
    """The indices at which the groups before `tail_start` begin, the newest first: what leaves the window together.

    That is a summary; the WINDOW_STEP messages that share their numbers but for the last digit, or each of them where
    together they are dearer than half of the budget; and whatever a tool call and its result hold between them.
    """
    inside = {index for first, last in chunking.tool_pair_spans(entries) for index in range(first + 1, last + 1)}
    starts = {index for index in range(tail_start) if index == 0 or _starts_group(entries[index - 1], entries[index])}
    for first, end in pairwise([*sorted(starts), tail_start]):
        if sum(entry.cost for entry in entries[first:end]) > budget / 2:
            starts |= set(range(first, end))
    return sorted(starts - inside, reverse=True)


def _starts_group(older: ContextEntry, newer: ContextEntry) -> bool:
    is_summary = older.summary_id is not None or newer.summary_id is not None
    return is_summary or older.ordinal // WINDOW_STEP != newer.ordinal // WINDOW_STEP


def _needs_older_entries(entries: Sequence[ContextEntry], fresh_tail: int) -> bool:
    """Whether what was not read may belong to what was: the call of a result, or the newest request of a person."""
    if not entries:
        return False
    paired_indices = _paired_indices(entries)
    reach = entries[0].ordinal + MAX_PAIR_DISTANCE
    misses_call = any(
        entry.kind == "tool_result" and index not in paired_indices and entry.ordinal <= reach
        for index, entry in enumerate(entries)
    )
    misses_request = fresh_tail > 0 and entries[-1].ordinal <= reach and not any(map(_is_request, entries))
    return misses_call or misses_request


def _is_request(entry: ContextEntry) -> bool:
    return chunking.item_from_entry(entry).by_person
