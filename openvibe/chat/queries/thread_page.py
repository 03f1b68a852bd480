"""What a thread's page shows around its messages: one statement."""

from __future__ import annotations

from dataclasses import dataclass

from openvibe.chat.models import Thread
from openvibe.engines.database.prepared_statements import fetch_prepared
from openvibe.workspaces.access import Access

_SELECT_SURROUNDINGS = """
SELECT coalesce((SELECT body FROM chat_draft WHERE thread_id = %(thread)s AND participant_id = %(asker)s), ''),
    (SELECT count(*) FROM chat_dive WHERE parent_id = %(thread)s AND state = 'active'),
    to_json(ARRAY(
        SELECT json_build_array(p.id, p.handle) FROM chat_thread_following_agents f
        JOIN workspaces_participant p ON p.id = f.participant_id WHERE f.thread_id = %(thread)s ORDER BY p.handle
    )), to_json(ARRAY(
        SELECT json_build_array(p.id, p.handle) FROM chat_thread_allowed_agents a
        JOIN workspaces_participant p ON p.id = a.participant_id WHERE a.thread_id = %(thread)s ORDER BY p.handle
    )),
    coalesce((SELECT level FROM chat_notificationpreference
        WHERE participant_id = %(asker)s AND thread_id = %(thread)s), ''),
    coalesce((SELECT level FROM chat_notificationpreference
        WHERE participant_id = %(asker)s AND channel_id = %(channel)s), '')
"""


@dataclass(frozen=True)
class NamedAgent:
    """An agent that a thread names, active or not."""

    pk: int
    handle: str


@dataclass(frozen=True)
class ThreadSurroundings:
    """`draft`: what stands in the asker's composer. `allowed_agents` counts where the thread's access is restricted.
    `notify_level` and `channel_notify_level`: what she chose for the thread and its channel; empty where nothing."""

    draft: str
    active_dives: int
    followers: tuple[NamedAgent, ...]
    allowed_agents: tuple[NamedAgent, ...]
    notify_level: str
    channel_notify_level: str


def read_surroundings(thread: Thread, access: Access) -> ThreadSurroundings:
    """One statement. The caller has checked that the asker sees the thread."""
    values = {"thread": thread.pk, "channel": thread.channel_id, "asker": access.participant_id}
    ((draft, active_dives, followers, allowed_rows, *levels),) = fetch_prepared(_SELECT_SURROUNDINGS, values)
    following, listed = (tuple(NamedAgent(*row) for row in rows) for rows in (followers, allowed_rows))
    return ThreadSurroundings(draft, active_dives, following, listed, *levels)
