"""What the sidebar of every workspace page shows: one statement for a page."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from psycopg import sql

from openvibe.api.auth import CONNECTED_SECONDS
from openvibe.chat.models import visibility_of
from openvibe.chat.queries.at_work import MAX_AT_WORK, SELECT_AT_WORK, AtWork, at_work_from
from openvibe.chat.queries.connections import IS_CONNECTED
from openvibe.chat.queries.unread import with_unread
from openvibe.engines.database.prepared_statements import fetch_prepared
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import PRESENCE_SECONDS

MAX_PEOPLE = 40
MAX_DIRECT = 20
"""Direct messages: those of the newest. Others are found by *New message*, in the inbox and by search."""

_SELECT_SIDEBAR = """
WITH news AS (
    SELECT channel_id, sum(mentions) AS mentions, bool_or(is_new) AS is_new FROM ({news}) n GROUP BY channel_id
), known AS (
    SELECT p.id, p.kind, p.handle, p.name, p.label, p.picture_version FROM workspaces_participant p
    WHERE p.workspace_id = %(workspace)s AND p.is_active AND (NOT %(is_guest)s OR p.id = %(asker)s OR EXISTS (
        SELECT FROM chat_channelmembership s
        WHERE s.participant_id = p.id AND s.channel_id = ANY(%(channels)s::bigint[])
    ))
)
SELECT to_json(ARRAY(
    SELECT json_build_array(
        c.id, c.name, c.is_private, coalesce(n.is_new, false) OR {is_unread}, coalesce(n.mentions, 0), EXISTS (
            SELECT FROM chat_channelmembership s WHERE s.channel_id = c.id AND s.participant_id = %(asker)s
        )
    )
    FROM chat_channel c LEFT JOIN news n ON n.channel_id = c.id
    WHERE c.id = ANY(%(channels)s::bigint[]) AND c.archived_at IS NULL AND c.first_participant_id IS NULL
    ORDER BY c.name
)), to_json(ARRAY(
    SELECT json_build_array(
        t.id, c.id, p.id, p.handle, p.name, p.kind = 'agent', coalesce(n.is_new, false) OR {is_unread},
        coalesce(n.mentions, 0), p.picture_version, p.label
    )
    FROM chat_channel c JOIN chat_thread t ON t.channel_id = c.id AND t.parent_id IS NULL
    JOIN workspaces_participant p ON p.id IN (c.first_participant_id, c.second_participant_id) AND p.id <> %(asker)s
    LEFT JOIN news n ON n.channel_id = c.id
    WHERE c.id = ANY(%(channels)s::bigint[]) AND c.first_participant_id IS NOT NULL AND t.last_seq > 0
    ORDER BY t.last_message_at DESC, t.id DESC LIMIT %(max_direct)s
)), to_json(ARRAY(
    SELECT json_build_array(k.id, k.handle, k.name, a.level, k.picture_version, ARRAY(
        SELECT r.reply_id FROM agents_run r JOIN chat_thread t ON t.id = r.thread_id
        WHERE r.agent_id = a.id AND r.state IN ('reading', 'writing') AND r.reply_id IS NOT NULL
        AND t.channel_id = ANY(%(channels)s::bigint[]) ORDER BY r.reply_id
    ), k.label, a.answers_itself AND NOT {is_connected})
    FROM known k JOIN agents_agent a ON a.participant_id = k.id WHERE k.kind = 'agent' ORDER BY k.name, k.id
)), to_json(ARRAY(
    SELECT json_build_array(k.id, k.handle, k.name, NULL, EXISTS (
        SELECT FROM workspaces_presence s
        WHERE s.participant_id = k.id AND s.seen_at > now() - make_interval(secs => %(presence)s)
    ), k.picture_version, k.label)
    FROM known k WHERE k.kind = 'member' ORDER BY k.name, k.id LIMIT %(max_people)s
)), to_json(ARRAY(
    SELECT json_build_array(w.slug, w.name)
    FROM workspaces_workspace w JOIN workspaces_member b ON b.workspace_id = w.id
    WHERE b.user_id = %(user)s AND b.removed_at IS NULL ORDER BY w.name, w.id
)), to_json(ARRAY({at_work}))
"""


@dataclass(frozen=True)
class SidebarChannel:
    """An open channel the asker reads. `mention_count`: of the asker, in what she has not read; `is_joined`: she was
    added to it."""

    pk: int
    name: str
    is_private: bool
    unread: bool
    mention_count: int
    is_joined: bool = False


@dataclass(frozen=True)
class SidebarDirect:
    """Direct messages of the asker in which something was said. `pk`, `handle` and `name` are the other's."""

    thread_id: int
    channel_id: int
    pk: int
    handle: str
    name: str
    is_agent: bool
    unread: bool
    mention_count: int
    picture_version: str = ""
    label: str = ""

    @property
    def is_name_ambiguous(self) -> bool:
        return self.label != self.name


@dataclass(frozen=True)
class SidebarParticipant:
    """Somebody active whom the asker knows: a guest knows only those of her channels. `level` is an agent's;
    `is_here`: a page of theirs is open; `replies`: ids of those that an agent is writing where the asker reads;
    `is_away`: an agent that a program elsewhere answers for, and the program is not connected."""

    pk: int
    handle: str
    name: str
    level: int | None
    is_here: bool = False
    picture_version: str = ""
    label: str = ""
    replies: tuple[int, ...] = ()
    is_away: bool = False

    @property
    def is_agent(self) -> bool:
        return self.level is not None

    @property
    def is_name_ambiguous(self) -> bool:
        return self.label != self.name


@dataclass(frozen=True)
class SidebarWorkspace:
    """A workspace the user is a member of."""

    slug: str
    name: str


@dataclass(frozen=True)
class Sidebar:
    """The sidebar's entries in the order they are shown; at most MAX_PEOPLE people, and MAX_DIRECT direct messages."""

    channels: tuple[SidebarChannel, ...]
    direct: tuple[SidebarDirect, ...]
    agents: tuple[SidebarParticipant, ...]
    people: tuple[SidebarParticipant, ...]
    workspaces: tuple[SidebarWorkspace, ...]
    at_work: tuple[AtWork, ...] = ()


def read_sidebar(access: Access, user_id: int) -> Sidebar:
    """One statement. What was said in a thread before the asker joined is new only where she has opened it; what is
    said in dives counts nowhere: they are between two. What is muted is not unread; who is named in it is counted."""
    values = {
        "workspace": access.workspace_id,
        "asker": access.participant_id,
        "user": user_id,
        "is_guest": access.is_guest,
        "channels": visibility_of(access).channels,
        "max_people": MAX_PEOPLE,
        "max_direct": MAX_DIRECT,
        "presence": PRESENCE_SECONDS,
        "connected": CONNECTED_SECONDS,
        "max_at_work": MAX_AT_WORK,
    }
    ((channels, direct, agents, people, workspaces, at_work),) = fetch_prepared(_sidebar_statement(), values)
    return Sidebar(
        tuple(SidebarChannel(*row) for row in channels),
        tuple(SidebarDirect(*row) for row in direct),
        tuple(
            SidebarParticipant(
                *(pk, handle, name, level),
                picture_version=version,
                label=label,
                replies=tuple(replies),
                is_away=is_away,
            )
            for pk, handle, name, level, version, replies, label, is_away in agents
        ),
        tuple(SidebarParticipant(*row) for row in people),
        tuple(SidebarWorkspace(*row) for row in workspaces),
        at_work_from(at_work),
    )


@cache
def _sidebar_statement() -> str:
    is_readable = sql.SQL("t.channel_id = ANY(%(channels)s::bigint[])")
    statement = _SELECT_SIDEBAR.replace("{at_work}", SELECT_AT_WORK).replace("{is_connected}", IS_CONNECTED)
    return with_unread(statement, asker="%(asker)s", channel="c.id", is_readable=is_readable)
