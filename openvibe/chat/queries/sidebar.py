"""What the sidebar of every workspace page shows: one statement for a page."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from psycopg import sql

from openvibe.api.auth import CONNECTED_SECONDS
from openvibe.chat.models import SidebarOrder, visibility_of
from openvibe.chat.queries.at_work import MAX_AT_WORK, SELECT_AT_WORK, AtWork, at_work_from
from openvibe.chat.queries.connections import IS_CONNECTED
from openvibe.chat.queries.unread import with_unread
from openvibe.engines.database.prepared_statements import fetch_prepared
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import PRESENCE_SECONDS

MAX_CHANNELS = 100
"""The most channels that are read beyond favourites, while no more have something new; others stand on the page of all
channels. First come those that name the asker, then those with something new, then those that she joined."""
MAX_NEW_CHANNELS = 200
"""The most channels with something new: as many as can hold a counted mention each."""
MAX_PEOPLE = 50
MAX_DIRECT = 20
"""Direct messages: those of the newest, beside favourites and those with something new. Others are found by *New
message*, in the inbox and by search."""
MAX_NEW_DIRECT = 100
"""The most direct messages that are looked at for something new, favourites aside: those of the newest."""

_SELECT_SIDEBAR = """
WITH news AS (
    SELECT channel_id, sum(mentions) AS mentions, bool_or(is_new) AS is_new FROM ({news}) n GROUP BY channel_id
), known AS (
    SELECT p.id, p.kind, p.handle, p.name, p.label, p.picture_version FROM workspaces_participant p
    WHERE p.workspace_id = %(workspace)s AND p.is_active AND (NOT %(is_guest)s OR p.id = %(asker)s OR EXISTS (
        SELECT FROM chat_channelmembership s
        WHERE s.participant_id = p.id AND s.channel_id = ANY(%(channels)s::bigint[])
    ))
), favourite AS (
    SELECT f.channel_id FROM chat_favourite f WHERE f.participant_id = %(asker)s
), muted AS (
    SELECT m.channel_id, m.thread_id FROM chat_notificationpreference m
    WHERE m.participant_id = %(asker)s AND m.level = 'nothing'
), place AS (
    SELECT c.*, row_number() OVER (
        ORDER BY c.is_favourite DESC, c.mentions > 0 DESC, c.is_unread DESC, c.is_joined DESC, c.name
    ) AS rank
    FROM (
        SELECT c.id, c.name, c.is_private, coalesce(n.is_new, false) OR {is_unread} AS is_unread,
            coalesce(n.mentions, 0) AS mentions, c.id IN (
                SELECT s.channel_id FROM chat_channelmembership s WHERE s.participant_id = %(asker)s
            ) AS is_joined, c.id IN (SELECT channel_id FROM favourite) AS is_favourite,
            EXISTS (SELECT FROM muted m WHERE m.channel_id = c.id) AS is_muted
        FROM chat_channel c LEFT JOIN news n ON n.channel_id = c.id
        WHERE c.id = ANY(%(channels)s::bigint[]) AND c.archived_at IS NULL AND c.first_participant_id IS NULL
    ) c
), direct AS (
    SELECT c.*, coalesce(c.is_new, false) OR {is_unread} AS is_unread,
        greatest(c.mentions, {unread_messages}) AS messages
    FROM (
        SELECT c.id, t.id AS thread_id, n.is_new, coalesce(n.mentions, 0) AS mentions,
            c.first_participant_id + c.second_participant_id - %(asker)s AS other_id,
            c.id IN (SELECT channel_id FROM favourite) AS is_favourite,
            EXISTS (SELECT FROM muted m WHERE m.thread_id = t.id) AS is_muted,
            row_number() OVER (ORDER BY t.last_message_at DESC, t.id DESC) AS rank
        FROM chat_channel c JOIN chat_thread t ON t.channel_id = c.id AND t.parent_id IS NULL
        LEFT JOIN news n ON n.channel_id = c.id
        WHERE c.id = ANY(%(channels)s::bigint[]) AND c.first_participant_id IS NOT NULL AND t.last_seq > 0
        ORDER BY c.id IN (SELECT channel_id FROM favourite) DESC, n.is_new IS TRUE DESC, t.last_message_at DESC,
            t.id DESC LIMIT %(max_new_direct)s
    ) c
)
SELECT to_json(ARRAY(
    SELECT json_build_array(
        c.id, c.name, c.is_private, c.is_unread, c.mentions, c.is_joined, c.is_favourite, c.is_muted
    )
    FROM place c
    WHERE c.is_favourite OR c.rank <= %(max_channels)s
    OR ((c.is_unread OR c.mentions > 0) AND c.rank <= %(max_new_channels)s)
    ORDER BY c.name
)), (
    SELECT json_build_array(
        count(*), count(*) FILTER (WHERE c.is_unread OR c.mentions > 0), coalesce(sum(c.mentions), 0),
        (SELECT count(*) FROM known k WHERE k.kind = 'member')
    ) FROM place c
), to_json(ARRAY(
    SELECT json_build_array(
        d.thread_id, d.id, p.id, p.handle, p.name, p.kind = 'agent', d.is_unread, d.messages, p.picture_version,
        p.label, d.is_favourite, d.is_muted
    )
    FROM direct d JOIN workspaces_participant p ON p.id = d.other_id
    WHERE d.is_favourite OR d.is_unread OR d.messages > 0 OR d.rank <= %(max_direct)s ORDER BY d.rank
)), to_json(ARRAY(
    SELECT json_build_array(o."order", o.folded) FROM chat_sidebarsettings o WHERE o.participant_id = %(asker)s
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
    is_favourite: bool = False
    is_muted: bool = False

    @property
    def is_new(self) -> bool:
        """Whether there is anything for the asker."""
        return self.unread or self.mention_count > 0


@dataclass(frozen=True)
class SidebarDirect:
    """Direct messages of the asker in which something was said. `pk`, `handle` and `name` are the other's;
    `unread_count`: messages of the other that the asker has not read, each of which counts like a mention."""

    thread_id: int
    channel_id: int
    pk: int
    handle: str
    name: str
    is_agent: bool
    unread: bool
    unread_count: int
    picture_version: str = ""
    label: str = ""
    is_favourite: bool = False
    is_muted: bool = False

    @property
    def is_name_ambiguous(self) -> bool:
        return self.label != self.name

    @property
    def is_new(self) -> bool:
        return self.unread or self.unread_count > 0


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
    """The sidebar's entries, channels by name, with favourites among them; at most as many as the constants above say.

    `channel_count`, `new_channel_count` and `mention_count` are of all channels the asker reads, `people_count` of all
    people she knows; `folded` and `order` are her choices."""

    channels: tuple[SidebarChannel, ...]
    direct: tuple[SidebarDirect, ...]
    agents: tuple[SidebarParticipant, ...]
    people: tuple[SidebarParticipant, ...]
    workspaces: tuple[SidebarWorkspace, ...]
    at_work: tuple[AtWork, ...] = ()
    channel_count: int = 0
    new_channel_count: int = 0
    mention_count: int = 0
    people_count: int = 0
    order: str = SidebarOrder.NAME
    folded: frozenset[str] = frozenset()

    @property
    def has_more_channels(self) -> bool:
        return self.channel_count > len(self.channels)

    @property
    def direct_count(self) -> int:
        """Unread direct messages, which are counted for themselves: none of them is among the mentions."""
        return sum(each.unread_count for each in self.direct)

    @property
    def has_news(self) -> bool:
        return self.new_channel_count > 0 or any(each.is_new for each in self.direct)


def read_sidebar(access: Access, user_id: int) -> Sidebar:
    """One statement. What was said in a thread before the asker joined is new only where she has opened it; what is
    said in dives counts nowhere: they are between two. What is muted is not unread; who is named in it is counted."""
    values = {
        "workspace": access.workspace_id,
        "asker": access.participant_id,
        "user": user_id,
        "is_guest": access.is_guest,
        "channels": visibility_of(access).channels,
        "max_channels": MAX_CHANNELS,
        "max_new_channels": MAX_NEW_CHANNELS,
        "max_people": MAX_PEOPLE,
        "max_direct": MAX_DIRECT,
        "max_new_direct": MAX_NEW_DIRECT,
        "presence": PRESENCE_SECONDS,
        "connected": CONNECTED_SECONDS,
        "max_at_work": MAX_AT_WORK,
    }
    ((channels, counts, direct, settings, agents, people, workspaces, at_work),) = fetch_prepared(
        _sidebar_statement(), values
    )
    channel_count, new_channel_count, mention_count, people_count = counts
    order, folded = settings[0] if settings else (SidebarOrder.NAME, ())
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
        channel_count,
        new_channel_count,
        mention_count,
        people_count,
        order,
        frozenset(folded),
    )


@cache
def _sidebar_statement() -> str:
    is_readable = sql.SQL("t.channel_id = ANY(%(channels)s::bigint[])")
    statement = _SELECT_SIDEBAR.replace("{at_work}", SELECT_AT_WORK).replace("{is_connected}", IS_CONNECTED)
    return with_unread(statement, asker="%(asker)s", channel="c.id", is_readable=is_readable)
