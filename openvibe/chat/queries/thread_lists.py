"""Threads as the inbox and a channel's page list them: one statement for the rows of a page and how many there are."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import cache

from psycopg import sql

from openvibe.base.prepared_statements import fetch_prepared
from openvibe.chat.models import Channel, reach_of
from openvibe.chat.queries.sidebar import is_new_to
from openvibe.workspaces.access import Access

_SELECT_THREADS = """
WITH listed AS (
    SELECT t.id, t.title, c.name AS channel, t.created_by_id, t.last_seq, t.access,
        coalesce(t.last_message_at, t.created_at) AS at, unread.is_it,
        t.pin_slot IS NOT NULL AND NOT %(is_inbox)s AS pinned
    FROM chat_thread t
    JOIN chat_channel c ON c.id = t.channel_id
    LEFT JOIN chat_readmarker r ON r.thread_id = t.id AND r.participant_id = %(asker)s
    CROSS JOIN LATERAL (
        SELECT t.last_seq > coalesce(r.last_read_seq, 0) AND {is_new} AS is_it
    ) unread
    WHERE t.channel_id = ANY(%(channels)s::bigint[]) AND t.parent_id IS NULL
        AND (t.archived_at IS NOT NULL) = %(archived)s
        AND (NOT %(is_inbox)s OR (unread.is_it AND c.archived_at IS NULL))
)
SELECT (SELECT count(*) FROM listed), to_json(ARRAY(
    SELECT json_build_array(l.id, l.title, l.channel, p.name, l.last_seq, l.access, l.at, coalesce(l.is_it, false),
        l.pinned)
    FROM (SELECT * FROM listed ORDER BY pinned DESC, at DESC, id DESC LIMIT %(limit)s OFFSET %(offset)s) l
    LEFT JOIN workspaces_participant p ON p.id = l.created_by_id ORDER BY l.pinned DESC, l.at DESC, l.id DESC
))
"""


@dataclass(frozen=True)
class ThreadItem:
    """A thread in a list. `creator` is None where whoever began it is gone; `at`: of its newest message, or its own;
    `pinned`: first in the list of its channel."""

    pk: int
    title: str
    channel: str
    creator: str | None
    last_seq: int
    access: str
    at: datetime
    unread: bool
    pinned: bool = False


@dataclass(frozen=True)
class ThreadList:
    """Some of them, the pinned ones and then the one last written in first, and how many there are in all."""

    items: list[ThreadItem]
    total: int


def list_unread_threads(access: Access, *, offset: int = 0, limit: int = 50) -> ThreadList:
    """Threads with something new that are not put away, nor their channel."""
    values = {"channels": reach_of(access).channels, "archived": False, "is_inbox": True}
    return _list_threads(access, {**values, "offset": offset, "limit": limit})


def list_channel_threads(
    channel: Channel, access: Access, *, archived: bool = False, offset: int = 0, limit: int = 50
) -> ThreadList:
    """A channel's threads, or those of it that were put away. The caller has checked that the asker reads it."""
    values = {"channels": f"{{{channel.pk}}}", "archived": archived, "is_inbox": False}
    return _list_threads(access, {**values, "offset": offset, "limit": limit})


@cache
def _threads_statement() -> str:
    return sql.SQL(_SELECT_THREADS).format(is_new=is_new_to("%(asker)s")).as_string()


def _list_threads(access: Access, values: dict[str, object]) -> ThreadList:
    ((total, rows),) = fetch_prepared(_threads_statement(), {**values, "asker": access.participant_id})
    items = [
        ThreadItem(pk, title, channel, creator, last_seq, kind, datetime.fromisoformat(at), unread, pinned)
        for pk, title, channel, creator, last_seq, kind, at, unread, pinned in rows
    ]
    return ThreadList(items, total)
