"""Threads as the inbox and a channel's page list them: one statement a page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Literal, LiteralString

from psycopg import sql

from openvibe.chat.models import Channel, Message, visibility_of
from openvibe.chat.queries.unread import RECENT_THREADS, is_new_to
from openvibe.engines.database.prepared_statements import fetch_prepared
from openvibe.engines.database.timestamps import parse_stored_time
from openvibe.engines.text.markdown import plain_text
from openvibe.workspaces.access import Access

PREVIEW_CHARACTERS = 160
"""The length of a message in a list, as plain text."""
Show = Literal["all", "unread", "mentions", "direct"]

_ONLY: Mapping[Show, LiteralString] = {
    "all": "",
    "mentions": """AND t.id IN (
        SELECT m.thread_id FROM chat_mention n JOIN chat_message m ON m.id = n.message_id
        WHERE n.participant_id = %(asker)s AND m.deleted_at IS NULL
    )""",
    "direct": "",
}
_CHANNELS_ONLY: Mapping[Show, LiteralString] = {"direct": "AND c.first_participant_id IS NOT NULL"}

# Threads of a channel `c`, with what they are to the asker. OFFSET: her markers are looked up for each thread that is
# read, never all of them for each channel.
_LIST_SQL = """
    SELECT t.id, coalesce(t.last_message_at, t.created_at) AS at, unread.is_it,
        coalesce(r.marked_unread_seq = r.last_read_seq, false) AS is_marked,
        {is_inbox} AND t.id = ANY(ARRAY(
            SELECT thread_id FROM chat_notificationpreference
            WHERE participant_id = %(asker)s AND thread_id IS NOT NULL AND level <> 'nothing'
        )) AS is_followed,
        t.pin_slot IS NOT NULL AND NOT {is_inbox} AS pinned
    FROM chat_thread t
    LEFT JOIN LATERAL (
        SELECT * FROM chat_readmarker r WHERE r.thread_id = t.id AND r.participant_id = %(asker)s OFFSET 0
    ) r ON true
    CROSS JOIN LATERAL (
        SELECT coalesce(t.last_seq > coalesce(r.last_read_seq, 0) AND {is_new}, false) AS is_it
    ) unread
    WHERE t.channel_id = c.id AND t.parent_id IS NULL AND t.archived_at {archived} {only}
"""

# Of each channel as many as the page may show, from the index; then what may stand before them, however old: the pinned
# threads of a channel, in an inbox those marked as unread and those that the asker follows.
_NEWEST = """
    SELECT t.id, t.at, t.is_it, t.pinned,
        {is_inbox} AND t.is_it AND (t.is_recent OR t.is_marked OR t.is_followed) AS leads
    FROM channel c CROSS JOIN LATERAL (
        SELECT *, row_number() OVER (ORDER BY at DESC, id DESC) <= {recent_threads} AS is_recent FROM ({listed}) t
        ORDER BY at DESC, id DESC LIMIT {depth}
    ) t
    UNION
    SELECT t.id, t.at, t.is_it, t.pinned, {is_inbox} AND t.is_it AS leads
    FROM channel c CROSS JOIN LATERAL ({listed} AND t.id = ANY(ARRAY(
        SELECT thread_id FROM chat_readmarker
        WHERE {is_inbox} AND participant_id = %(asker)s AND marked_unread_seq = last_read_seq
        UNION ALL
        SELECT thread_id FROM chat_notificationpreference
        WHERE {is_inbox} AND participant_id = %(asker)s AND thread_id IS NOT NULL AND level <> 'nothing'
        UNION ALL
        SELECT id FROM chat_thread
        WHERE NOT {is_inbox} AND channel_id = ANY(%(channels)s::bigint[]) AND pin_slot IS NOT NULL
    ))) t
"""

# What is unread in an inbox: all threads with the asker's markers in one join, as most are read. The inner OFFSET: in
# order, so that no more of them are asked whether they are new than the page shows.
_UNREAD = """
    SELECT t.id, t.at, true AS is_it, false AS pinned, false AS leads
    FROM (
        SELECT t.id, t.channel_id, t.last_message_at, coalesce(t.last_message_at, t.created_at) AS at, r.id AS marker_id
        FROM chat_thread t LEFT JOIN chat_readmarker r ON r.thread_id = t.id AND r.participant_id = %(asker)s
        WHERE t.channel_id = ANY(ARRAY(SELECT id FROM channel)) AND t.parent_id IS NULL AND t.archived_at IS NULL
        AND t.last_seq > coalesce(r.last_read_seq, 0)
        ORDER BY coalesce(t.last_message_at, t.created_at) DESC, t.id DESC OFFSET 0
    ) t CROSS JOIN LATERAL (SELECT t.marker_id AS id) r
    WHERE {is_new} ORDER BY t.at DESC, t.id DESC LIMIT %(limit)s + 1 + %(offset)s
"""

_SELECT_THREADS = """
WITH channel AS (
    SELECT c.id FROM chat_channel c
    WHERE c.id = ANY(%(channels)s::bigint[]) AND (NOT {is_inbox} OR c.archived_at IS NULL) {only_channels}
), listed AS ({listed}), page AS (
    SELECT * FROM listed ORDER BY pinned DESC, leads DESC, at DESC, id DESC LIMIT %(limit)s + 1 OFFSET %(offset)s
)
SELECT to_json(ARRAY(
    SELECT json_build_array(
        t.id, coalesce(o.name, t.title), CASE WHEN o.id IS NULL THEN c.name ELSE '' END,
        t.last_seq, t.access, l.at, l.is_it, l.pinned, p.label,
        left(m.body, 400), m.kind, m.state, m.deleted_at IS NOT NULL
    )
    FROM page l CROSS JOIN LATERAL (SELECT * FROM chat_thread t WHERE t.id = l.id OFFSET 0) t
    JOIN chat_channel c ON c.id = t.channel_id
    LEFT JOIN chat_message m ON m.thread_id = t.id AND m.seq = t.last_seq
    LEFT JOIN workspaces_participant p ON p.id = m.author_id
    LEFT JOIN workspaces_participant o ON o.id = c.first_participant_id + c.second_participant_id - %(asker)s
    ORDER BY l.pinned DESC, l.leads DESC, l.at DESC, l.id DESC
)), to_json(ARRAY(
    SELECT json_build_array(c.id, c.name, count(*), max(t.created_at))
    FROM chat_thread t JOIN chat_channel c ON c.id = t.channel_id
    WHERE {is_inbox} AND t.channel_id = ANY(%(channels)s::bigint[]) AND t.imported_count > 0
    AND t.created_at > now() - interval '3 days' AND c.archived_at IS NULL
    AND t.created_at > coalesce(
        (SELECT until FROM chat_importnotesseen WHERE participant_id = %(asker)s), '-infinity'::timestamptz
    )
    GROUP BY c.id ORDER BY max(t.created_at) DESC
))
"""


@dataclass(frozen=True)
class ThreadItem:
    """A thread in a list; direct messages have the other's name as their title, and no channel.

    `author` and `preview`: of its newest message, empty without one; `at`: when it was said, or the thread begun;
    `pinned`: first in the list of its channel."""

    pk: int
    title: str
    channel: str
    last_seq: int
    access: str
    at: datetime
    unread: bool
    pinned: bool = False
    author: str = ""
    preview: str = ""


@dataclass(frozen=True)
class ImportNote:
    """Conversations that came into a channel from elsewhere in the last three days, and since the asker put such notes
    away. Nobody has them as unread."""

    channel_id: int
    channel: str
    threads: int
    at: datetime


@dataclass(frozen=True)
class ThreadList:
    """Some of them in order, whether there are more behind them, and of an inbox what was imported lately."""

    items: list[ThreadItem]
    has_more: bool
    imports: tuple[ImportNote, ...] = ()


def list_inbox_threads(
    access: Access, *, show: Show = "all", channel_id: int | None = None, offset: int = 0, limit: int = 50
) -> ThreadList:
    """Threads that are not put away, nor their channel, by their newest message: first those with something new among
    the RECENT_THREADS of each channel, and those that the asker marked as unread or follows.

    `mentions`: those where somebody named the asker; `direct`: direct messages. A channel that she does not
    read has none."""
    visibility = visibility_of(access)
    is_read = channel_id is None or channel_id in visibility.channel_ids
    channels = visibility.channels if channel_id is None else f"{{{channel_id}}}"
    return _list_threads(access, channels if is_read else "{}", show=show, offset=offset, limit=limit)


def list_unread_threads(access: Access, *, offset: int = 0, limit: int = 50) -> ThreadList:
    """Those of the inbox with something new."""
    return list_inbox_threads(access, show="unread", offset=offset, limit=limit)


def list_channel_threads(
    channel: Channel, access: Access, *, archived: bool = False, offset: int = 0, limit: int = 50
) -> ThreadList:
    """A channel's threads, or those of it that were put away, the one last written in first. The caller has checked
    that the asker reads it."""
    channels = f"{{{channel.pk}}}"
    return _list_threads(access, channels, is_inbox=False, archived=archived, offset=offset, limit=limit)


def message_preview(body: str, kind: str, state: str, *, is_deleted: bool) -> str:
    """What a message says, on one line of plain text, at most PREVIEW_CHARACTERS long."""
    if is_deleted:
        return "Message deleted"
    if kind in (Message.Kind.TOOL_CALL, Message.Kind.TOOL_RESULT):
        return "Used a tool"
    text = plain_text(body)[:PREVIEW_CHARACTERS]
    return "is writing…" if not text and state == Message.State.WRITING else text


@cache
def _threads_statement(show: Show, depth: int, *, is_inbox: bool, archived: bool) -> str:
    """What is chosen stands in the text, not among the values: one plan for all of them would read every thread."""
    choices = {
        "is_inbox": sql.Literal(is_inbox),
        "archived": sql.SQL("IS NOT NULL" if archived else "IS NULL"),
        "is_new": is_new_to("%(asker)s"),
        "only_channels": sql.SQL(_CHANNELS_ONLY.get(show, "")),
    }
    if show == "unread":
        listed = sql.SQL(_UNREAD).format(**choices)
    else:
        of_channel = sql.SQL(_LIST_SQL).format(**choices, only=sql.SQL(_ONLY[show]))
        bounds = {"recent_threads": RECENT_THREADS, "depth": depth}
        listed = sql.SQL(_NEWEST).format(**choices, **bounds, listed=of_channel)
    return sql.SQL(_SELECT_THREADS).format(**choices, listed=listed).as_string()


def _list_threads(
    access: Access,
    channels: str,
    *,
    show: Show = "all",
    is_inbox: bool = True,
    archived: bool = False,
    offset: int,
    limit: int,
) -> ThreadList:
    """`channels`: PostgreSQL's array of their ids."""
    depth = RECENT_THREADS
    while depth < offset + limit + 1:
        depth *= 2
    statement = _threads_statement(show, depth, is_inbox=is_inbox, archived=archived)
    values = {"channels": channels, "asker": access.participant_id, "offset": offset, "limit": limit}
    ((read_rows, imports),) = fetch_prepared(statement, values)
    rows = read_rows[:limit]
    items = [
        ThreadItem(
            pk,
            title,
            channel,
            seq,
            kind_of_access,
            parse_stored_time(at),
            unread,
            pinned,
            author or "",
            message_preview(body, kind, state, is_deleted=is_deleted) if author else "",
        )
        for pk, title, channel, seq, kind_of_access, at, unread, pinned, author, body, kind, state, is_deleted in rows
    ]
    notes = (ImportNote(pk, name, count, parse_stored_time(at)) for pk, name, count, at in imports)
    return ThreadList(items, len(read_rows) > limit, tuple(notes))
