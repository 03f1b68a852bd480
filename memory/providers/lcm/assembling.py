"""What of a conversation fits a prompt: the fresh tail, then older entries until the first that does not fit.

The database is read by `reading`; what is chosen of it is decided here, from plain values. Nothing here writes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from psycopg import sql

from memory.providers.base import ENVELOPE, LONGEST, STEP, Entry, Session, Stats
from memory.providers.lcm import groups, reading
from memory.providers.pairs import PAIR_REACH
from openvibe.llm.tokens import count

REFERRED = 2_000
"""Tokens above which a tool's result is only referred to once a person has spoken after it."""

STATS = (
    sql.SQL("""
WITH place AS (
    SELECT t.id AS thread_id, least(t.last_seq, %(before)s - 1) AS messages, c.id AS conversation_id,
        coalesce(c.seen_seq, 0) AS seen_seq, coalesce(c.paused_until > now(), false) AS is_paused,
        coalesce(c.last_error, '') AS last_error
    FROM chat_thread t LEFT JOIN lcm_conversation c ON c.thread_id = t.id
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
SELECT messages, (SELECT count(*) FROM shown),
    (SELECT coalesce(sum(least(tokens, {longest}) + {envelope}), 0) FROM shown),
    made.summaries, coalesce(made.deepest, 0), is_paused, last_error
FROM place, made
""")
    .format(shown=reading.SHOWN, longest=sql.Literal(LONGEST), envelope=sql.Literal(ENVELOPE))
    .as_string()
)


def assemble(session: Session, budget: int, fresh_tail: int, config: Mapping[str, Any]) -> list[Entry]:
    """What fits `budget` tokens, oldest first: the last `fresh_tail` messages always (within the tail's own bound,
    `fresh_tail_tokens` of the config), then older entries, the newest first, up to the first that does not fit.

    One statement; another only where much of what was read first stays out (calls without results, long results
    that are only referred to), or a tool's call or the newest request lies far back. Tool calls and results without
    their other half stay out.
    """
    budget, fresh_tail = max(budget, 0), max(fresh_tail, 0)
    tokens, rows = budget, budget // ENVELOPE + fresh_tail + STEP
    while True:
        found = reading.newest(session, tokens=tokens, least=fresh_tail, rows=rows)
        entries = with_references(without_orphans(found.entries), found.long, session.before)
        start = groups.fresh_tail_start(entries, fresh_tail, budget, config)
        first = first_that_fits(entries, start, budget)
        if found.is_all or (first > 0 and not _may_reach_further(found.entries, fresh_tail)):
            return entries[first:]
        tokens, rows = max(tokens, budget, LONGEST) * 4, rows * 4


def stats(session: Session) -> Stats:
    """What there is of the session. Counts what prompts could show: as long as that is, so long it takes."""
    rows = reading.rows_of(STATS, reading.scope_of(session))
    if not rows:
        return Stats(messages=0, entries=0, tokens=0)
    messages, entries, tokens, summaries, deepest, is_paused, last_error = rows[0]
    note = f"Compaction is paused for a while, because it failed again and again: {last_error}" if is_paused else ""
    return Stats(messages, entries, int(tokens), summaries, deepest, note or last_error)


# --- pure ---------------------------------------------------------------------------------------------------
def without_orphans(entries: Sequence[Entry]) -> list[Entry]:
    """The entries without tool calls that have no result, and results that have no call."""
    paired = {at for span in groups.pair_spans(entries) for at in span}
    return [entry for at, entry in enumerate(entries) if entry.kind not in ("tool_call", "tool_result") or at in paired]


def with_references(entries: Sequence[Entry], long: Mapping[int, int], before: int | None) -> list[Entry]:
    """Tool results over REFERRED tokens become references where a person spoke after them.

    `long` gives the tokens of long entries by ordinal; `before` is the number of the request, where there is one.
    """
    spoke = (entry.ordinal for entry in reversed(entries) if _is_request(entry))
    newest = before if before is not None else next(spoke, 0)
    far = {at for at, tokens in long.items() if tokens > REFERRED and at < newest}
    if not far:
        return list(entries)
    return [
        _referred(entry, long[entry.ordinal]) if entry.kind == "tool_result" and entry.ordinal in far else entry
        for entry in entries
    ]


def _referred(entry: Entry, tokens: int) -> Entry:
    text = (
        f"[A tool answered {tokens:,} tokens here, left out to save room. They are message {entry.ordinal} of this"
        " thread: search your memory for words in it, or read the message itself.]"
    )
    return entry._replace(text=text, tokens=count(text))


def first_that_fits(entries: Sequence[Entry], tail: int, budget: int) -> int:
    """Where the window begins: at `tail`, or as many groups before it as fit with it."""
    left = budget - sum(entry.cost for entry in entries[tail:])
    first = tail
    for start in groups_before(entries, tail, budget):
        left -= sum(entry.cost for entry in entries[start:first])
        if left < 0:
            break
        first = start
    return first


def groups_before(entries: Sequence[Entry], tail: int, budget: int) -> list[int]:
    """Where the groups before `tail` begin, the newest first: what leaves the window together.

    That is a summary; the STEP messages that share their numbers but for the last digit, or each of them where
    together they are dearer than half of the budget; and whatever a tool call and its result hold between them.
    """
    inside = {at for first, last in groups.pair_spans(entries) for at in range(first + 1, last + 1)}
    starts = {at for at in range(tail) if at == 0 or _parts(entries[at - 1], entries[at])}
    for first, end in pairwise([*sorted(starts), tail]):
        if sum(entry.cost for entry in entries[first:end]) > budget / 2:
            starts |= set(range(first, end))
    return sorted(starts - inside, reverse=True)


def _parts(older: Entry, newer: Entry) -> bool:
    is_summary = older.summary_id is not None or newer.summary_id is not None
    return is_summary or older.ordinal // STEP != newer.ordinal // STEP


def _may_reach_further(entries: Sequence[Entry], fresh_tail: int) -> bool:
    """Whether what was not read may belong to what was: the call of a result, or the newest request of a person."""
    if not entries:
        return False
    paired = {at for span in groups.pair_spans(entries) for at in span}
    reach = entries[0].ordinal + PAIR_REACH
    misses_call = any(
        entry.kind == "tool_result" and at not in paired and entry.ordinal <= reach for at, entry in enumerate(entries)
    )
    misses_request = fresh_tail > 0 and entries[-1].ordinal <= reach and not any(map(_is_request, entries))
    return misses_call or misses_request


def _is_request(entry: Entry) -> bool:
    return groups.place_of(entry).by_person
