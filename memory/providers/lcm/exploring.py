"""Going down from a summary to what was said: a leaf's messages, a condensed summary's constituents.

The scope comes first. An id that is unknown, one of another thread or workspace and one that stands for messages the
session does not see yet are the same: Missing.
"""

from __future__ import annotations

from psycopg import sql

from memory.providers.base import Description, Expanded, Session
from memory.providers.lcm import reading
from memory.providers.lcm.models import Summary
from openvibe.base.problems import Missing

CAP = 4_000
"""Tokens that one expansion gives, except where a single message is longer."""

AT_ONCE = 200
"""Entries that one expansion gives at most."""

_OF_LEAF = sql.SQL("""
SELECT {message} FROM lcm_summarymessage held JOIN chat_message m ON m.id = held.message_id
WHERE held.summary_id = %(summary)s AND m.thread_id = %(thread)s AND m.seq > %(cursor)s AND {shown}
ORDER BY m.seq LIMIT %(rows)s
""").format(message=reading.MESSAGE, shown=reading.SHOWN)
_OF_CONDENSED = sql.SQL("""
SELECT {summary} FROM lcm_summaryedge held JOIN lcm_summary s ON s.id = held.constituent_id
WHERE held.container_id = %(summary)s AND s.first_seq > %(cursor)s ORDER BY s.first_seq LIMIT %(rows)s
""").format(summary=reading.SUMMARY)
_STEP_DOWN = sql.SQL("""
WITH held AS ({held}), measured AS (SELECT *, sum(tokens) OVER (ORDER BY ordinal) AS together FROM held)
SELECT {row}, (SELECT count(*) FROM held)
FROM measured AS found LEFT JOIN workspaces_participant who ON who.id = found.author_id
WHERE found.together <= %(cap)s OR found.ordinal = (SELECT min(ordinal) FROM held) ORDER BY found.ordinal
""")
MESSAGES_OF_LEAF = _STEP_DOWN.format(held=_OF_LEAF, row=reading.ROW).as_string()
CONSTITUENTS = _STEP_DOWN.format(held=_OF_CONDENSED, row=reading.ROW).as_string()


def describe(session: Session, summary_id: int) -> Description:
    """The summary and where it stands. Raises Missing."""
    found = _in_scope(session, summary_id)
    above = found.containers.values_list("pk", flat=True).first()
    below = found.constituents.order_by("first_seq").values_list("pk", flat=True)
    return Description(
        id=found.pk,
        kind="leaf" if found.kind == Summary.Kind.LEAF else "condensed",
        depth=found.depth,
        content=found.content,
        tokens=found.token_count,
        source_tokens=found.source_tokens,
        first=found.first_seq,
        last=found.last_seq,
        earliest=reading.iso(found.earliest_at),
        latest=reading.iso(found.latest_at),
        message_count=found.message_count,
        container=above,
        constituents=tuple(below),
        level=found.level,
        model=found.model,
        is_stale=found.stale,
    )


def expand(session: Session, summary_id: int, cursor: int | None = None) -> Expanded:
    """One step down, oldest first: at most CAP tokens and AT_ONCE entries, but always one while there is one left.

    Messages as far as the session sees them, with all of their text. `cursor` is that of the answer before. Raises
    Missing.
    """
    found = _in_scope(session, summary_id)
    statement = MESSAGES_OF_LEAF if found.kind == Summary.Kind.LEAF else CONSTITUENTS
    values = {"summary": found.pk, "cursor": _place_of(cursor), "cap": CAP, "rows": AT_ONCE + 1}
    rows = reading.rows_of(statement, {**reading.scope_of(session), **values})
    entries = tuple(reading.entry_of(row[:-1]) for row in rows[:AT_ONCE])
    there_are = rows[0][-1] if rows else 0
    return Expanded(entries, entries[-1].ordinal if len(entries) < there_are else None)


def _in_scope(session: Session, summary_id: int) -> Summary:
    """The summary, if it is one of the session's own thread and of nothing the session does not see. Raises Missing."""
    summaries = Summary.objects.filter(pk=summary_id, conversation__thread=session.thread_id)
    summaries = summaries.filter(conversation__thread__workspace=session.access.workspace_id)
    if session.before is not None:
        summaries = summaries.filter(last_seq__lt=session.before)
    found = summaries.first()
    if found is None:
        raise Missing
    return found


def _place_of(cursor: int | None) -> int:
    return 0 if cursor is None else min(max(cursor, 0), reading.END)
