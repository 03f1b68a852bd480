"""The list of who works where: the answers that agents are reading for or writing, where the asker reads."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from openvibe.chat.models import visibility_of
from openvibe.engines.database.prepared_statements import fetch_prepared
from openvibe.workspaces.access import Access

MAX_AT_WORK = 8
"""The most that are listed, those that began first."""

SELECT_AT_WORK = """
SELECT json_build_array(w.run_id, w.name, w.thread_id, w.title, w.since) FROM (
    SELECT r.id AS run_id, p.name, t.id AS thread_id, t.title, coalesce(r.started_at, r.queued_at) AS since
    FROM agents_run r JOIN agents_agent a ON a.id = r.agent_id
    JOIN workspaces_participant p ON p.id = a.participant_id JOIN chat_thread t ON t.id = r.thread_id
    WHERE r.workspace_id = %(workspace)s AND r.state IN ('reading', 'writing')
    AND t.channel_id = ANY(%(channels)s::bigint[])
    ORDER BY r.id LIMIT %(max_at_work)s
) w ORDER BY w.run_id
"""


@dataclass(frozen=True)
class AtWork:
    """An agent that works in a thread, since when."""

    name: str
    thread_id: int
    title: str
    since: datetime


def read_at_work(access: Access) -> tuple[AtWork, ...]:
    """The oldest first, at most MAX_AT_WORK. One statement."""
    values = {"workspace": access.workspace_id, "channels": visibility_of(access).channels, "max_at_work": MAX_AT_WORK}
    return at_work_from([row for (row,) in fetch_prepared(SELECT_AT_WORK, values)])


def at_work_from(rows: list[list[object]]) -> tuple[AtWork, ...]:
    """What the statement's rows say."""
    return tuple(
        AtWork(str(name), int(str(thread_id)), str(title), datetime.fromisoformat(str(since)))
        for _, name, thread_id, title, since in rows
    )
