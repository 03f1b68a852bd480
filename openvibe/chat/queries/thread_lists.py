"""Threads as the inbox and a channel's page list them: one statement for the rows of a page and how many there are."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Literal

from psycopg import sql

from openvibe.base.markdown import plain_text
from openvibe.base.prepared_statements import fetch_prepared
from openvibe.base.timestamps import parse_stored_time
from openvibe.chat.models import Channel, Message, visibility_of
from openvibe.chat.queries.sidebar import is_new_to
from openvibe.workspaces.access import Access

PREVIEW_CHARACTERS = 160
"""Of a message in a list, as plain text."""
Show = Literal["all", "unread", "mentions"]

_SELECT_THREADS = """
WITH listed AS (
    SELECT t.id, coalesce(t.last_message_at, t.created_at) AS at, unread.is_it,
        t.pin_slot IS NOT NULL AND NOT %(is_inbox)s AS pinned
    FROM chat_thread t
    JOIN chat_channel c ON c.id = t.channel_id
    LEFT JOIN chat_readmarker r ON r.thread_id = t.id AND r.participant_id = %(asker)s
    CROSS JOIN LATERAL (
        SELECT coalesce(t.last_seq > coalesce(r.last_read_seq, 0) AND {is_new}, false) AS is_it
    ) unread
    WHERE t.channel_id = ANY(%(channels)s::bigint[]) AND t.parent_id IS NULL
        AND (t.archived_at IS NOT NULL) = %(archived)s
        AND (NOT %(is_inbox)s OR c.archived_at IS NULL)
        AND (NOT %(only_unread)s OR unread.is_it)
        AND (NOT %(only_mentions)s OR EXISTS (
            SELECT FROM chat_mention n JOIN chat_message m ON m.id = n.message_id
            WHERE n.participant_id = %(asker)s AND m.thread_id = t.id AND m.deleted_at IS NULL
        ))
), page AS (
    SELECT * FROM listed ORDER BY pinned DESC, (%(is_inbox)s AND is_it) DESC, at DESC, id DESC
    LIMIT %(limit)s OFFSET %(offset)s
)
SELECT (SELECT count(*) FROM listed), to_json(ARRAY(
    SELECT json_build_array(
        t.id, coalesce(o.name, t.title), CASE WHEN o.id IS NULL THEN c.name ELSE '' END,
        t.last_seq, t.access, l.at, l.is_it, l.pinned, p.name,
        left(m.body, 400), m.kind, m.state, m.deleted_at IS NOT NULL
    )
    FROM page l JOIN chat_thread t ON t.id = l.id JOIN chat_channel c ON c.id = t.channel_id
    LEFT JOIN chat_message m ON m.thread_id = t.id AND m.seq = t.last_seq
    LEFT JOIN workspaces_participant p ON p.id = m.author_id
    LEFT JOIN workspaces_participant o ON o.id = c.first_participant_id + c.second_participant_id - %(asker)s
    ORDER BY l.pinned DESC, (%(is_inbox)s AND l.is_it) DESC, l.at DESC, l.id DESC
)), to_json(ARRAY(
    SELECT json_build_array(c.id, c.name, count(*), max(t.created_at))
    FROM chat_thread t JOIN chat_channel c ON c.id = t.channel_id
    WHERE %(is_inbox)s AND t.channel_id = ANY(%(channels)s::bigint[]) AND t.imported_count > 0
    AND t.created_at > now() - interval '3 days' AND c.archived_at IS NULL
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
    """Conversations that came into a channel from elsewhere in the last three days. Nobody has them as unread."""

    channel_id: int
    channel: str
    threads: int
    at: datetime


@dataclass(frozen=True)
class ThreadList:
    """Some of them in order, how many there are in all, and of an inbox what was imported lately."""

    items: list[ThreadItem]
    total: int
    imports: tuple[ImportNote, ...] = ()


def list_inbox_threads(
    access: Access, *, show: Show = "all", channel_id: int | None = None, offset: int = 0, limit: int = 50
) -> ThreadList:
    """Threads that are not put away, nor their channel: those with something new first, then by their newest message.

    `mentions`: those where somebody named the asker. A channel she does not read has none."""
    visibility = visibility_of(access)
    is_read = channel_id is None or channel_id in visibility.channel_ids
    channels = visibility.channels if channel_id is None else f"{{{channel_id}}}"
    values = {"channels": channels if is_read else "{}", "archived": False, "is_inbox": True}
    only = {"only_unread": show == "unread", "only_mentions": show == "mentions"}
    return _list_threads(access, {**values, **only, "offset": offset, "limit": limit})


def list_unread_threads(access: Access, *, offset: int = 0, limit: int = 50) -> ThreadList:
    """Those of the inbox with something new."""
    return list_inbox_threads(access, show="unread", offset=offset, limit=limit)


def list_channel_threads(
    channel: Channel, access: Access, *, archived: bool = False, offset: int = 0, limit: int = 50
) -> ThreadList:
    """A channel's threads, or those of it that were put away, the one last written in first. The caller has checked
    that the asker reads it."""
    values = {"channels": f"{{{channel.pk}}}", "archived": archived, "is_inbox": False}
    only = {"only_unread": False, "only_mentions": False}
    return _list_threads(access, {**values, **only, "offset": offset, "limit": limit})


def message_preview(body: str, kind: str, state: str, *, is_deleted: bool) -> str:
    """What a message says, on one line of plain text, at most PREVIEW_CHARACTERS long."""
    if is_deleted:
        return "Message deleted"
    if kind in (Message.Kind.TOOL_CALL, Message.Kind.TOOL_RESULT):
        return "Used a tool"
    text = plain_text(body)[:PREVIEW_CHARACTERS]
    return "is writing…" if not text and state == Message.State.WRITING else text


@cache
def _threads_statement() -> str:
    return sql.SQL(_SELECT_THREADS).format(is_new=is_new_to("%(asker)s")).as_string()


def _list_threads(access: Access, values: dict[str, object]) -> ThreadList:
    ((total, rows, imports),) = fetch_prepared(_threads_statement(), {**values, "asker": access.participant_id})
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
    return ThreadList(items, total, tuple(notes))
