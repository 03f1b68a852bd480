"""What the sidebar of every workspace page shows: one statement for a page, one for all who are told of a change;
and reads of direct messages."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cache
from typing import LiteralString

from django.db.models import QuerySet
from psycopg import sql

from openvibe.base.problems import Missing
from openvibe.chat.models import Thread, is_channel_readable, participants_known_to, visibility_of
from openvibe.engines.database.prepared_statements import fetch_prepared
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import PRESENCE_SECONDS, Participant
from openvibe.workspaces.queries import name_like

MAX_PEOPLE = 40
MAX_DIRECT = 20
"""Direct messages: those of the newest. Others are found by *New message*, in the inbox and by search."""
RECENT_THREADS = 100
"""The most threads of each channel, those last written in: a channel is unread, and the inbox puts a thread first, for
what is new in them, in threads that the reader marked as unread or follows, and in those where she is named. A page
costs the same however many threads there are."""
MAX_COUNTED_MENTIONS = 200
"""The most mentions that are counted of somebody, the newest in channels that she reads: what is counted of them is not
read yet."""
_IS_NEW = """(r.id IS NOT NULL OR t.last_message_at >=
    (SELECT joined_at FROM workspaces_member WHERE participant_id = {asker}))
    AND NOT EXISTS (SELECT FROM chat_notificationpreference n
        WHERE n.participant_id = {asker} AND n.thread_id = t.id AND n.level = 'nothing')
    AND (
        NOT EXISTS (SELECT FROM chat_notificationpreference n
            WHERE n.participant_id = {asker} AND n.channel_id = t.channel_id AND n.level = 'nothing')
        OR EXISTS (SELECT FROM chat_notificationpreference n
            WHERE n.participant_id = {asker} AND n.thread_id = t.id)
    )"""


def is_new_to(asker: LiteralString) -> sql.Composed:
    """Whether what was not read of a thread `t`, whose read marker is `r`, counts as new to somebody: what was said
    before she joined does not, unless she has opened the thread, nor what is said where she muted it."""
    return sql.SQL(_IS_NEW).format(asker=sql.SQL(asker))


_RECENT_THREADS = """(
        SELECT t.* FROM chat_thread t
        WHERE t.channel_id = {channel} AND t.parent_id IS NULL AND t.archived_at IS NULL AND t.last_seq > 0
        AND t.id <> ALL(ARRAY(
            SELECT n.thread_id FROM chat_notificationpreference n
            WHERE n.participant_id = {asker} AND n.thread_id IS NOT NULL AND n.level = 'nothing'
        ))
        ORDER BY coalesce(t.last_message_at, t.created_at) DESC, t.id DESC LIMIT {recent_threads}
    )"""
# OFFSET: looked up for each thread, never all that she has for each channel.
_MARKER = "SELECT * FROM chat_readmarker r WHERE r.thread_id = t.id AND r.participant_id = {asker} OFFSET 0"
# Whether anything among the newest of a channel is new to somebody.
_IS_UNREAD = """EXISTS (
    SELECT FROM {recent} t LEFT JOIN LATERAL ({marker}) r ON true
    WHERE t.last_seq > coalesce(r.last_read_seq, 0) AND {is_new}
)"""
# A row for each unread mention, where `is_new` says whether the thread is unread for them, too; and one for each thread
# with something new that somebody marked as unread or follows.
_NEWS = """
    SELECT t.channel_id, 1 AS mentions, t.archived_at IS NULL AND {is_new} AS is_new
    FROM (
        SELECT t.id, t.channel_id, t.archived_at, t.last_message_at, m.seq
        FROM chat_mention n JOIN chat_message m ON m.id = n.message_id JOIN chat_thread t ON t.id = m.thread_id
        WHERE n.participant_id = {asker} AND t.parent_id IS NULL AND m.deleted_at IS NULL AND {is_readable}
        ORDER BY n.message_id DESC LIMIT {max_mentions}
    ) t LEFT JOIN LATERAL ({marker}) r ON true
    WHERE t.seq > coalesce(r.last_read_seq, 0)
    UNION ALL
    SELECT t.channel_id, 0, true
    FROM (
        SELECT thread_id FROM chat_readmarker
        WHERE participant_id = {asker} AND marked_unread_seq = last_read_seq
        UNION
        SELECT thread_id FROM chat_notificationpreference
        WHERE participant_id = {asker} AND thread_id IS NOT NULL AND level <> 'nothing'
    ) k
    CROSS JOIN LATERAL (SELECT * FROM chat_thread t WHERE t.id = k.thread_id OFFSET 0) t
    LEFT JOIN LATERAL ({marker}) r ON true
    WHERE t.parent_id IS NULL AND t.archived_at IS NULL AND t.last_seq > coalesce(r.last_read_seq, 0) AND {is_new}
"""

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
    ), k.label)
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
))
"""

# The same of one channel each for many readers.
_SELECT_CHANNEL_UNREAD = """
SELECT asker.id, asker.channel, coalesce(n.is_new, false) OR {is_unread}, coalesce(n.mentions, 0)
FROM unnest(%s::bigint[], %s::bigint[]) AS asker(id, channel) CROSS JOIN LATERAL (
    SELECT sum(mentions) AS mentions, bool_or(is_new) AS is_new FROM ({news}) n WHERE n.channel_id = asker.channel
) n
"""
# Whether the asker, a member, reads the channel of a thread `t`.
_IS_NO_GUEST = "EXISTS (SELECT FROM workspaces_member b WHERE b.participant_id = asker.id AND b.role <> 'guest')"
_IS_READABLE_TO_MEMBER = sql.SQL(
    "EXISTS (SELECT FROM chat_channel c WHERE c.id = t.channel_id AND {is_channel_readable})"
).format(is_channel_readable=is_channel_readable(_IS_NO_GUEST))


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
    `is_here`: a page of theirs is open; `replies`: ids of those that an agent is writing where the asker reads."""

    pk: int
    handle: str
    name: str
    level: int | None
    is_here: bool = False
    picture_version: str = ""
    label: str = ""
    replies: tuple[int, ...] = ()

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
    }
    ((channels, direct, agents, people, workspaces),) = fetch_prepared(_sidebar_statement(), values)
    return Sidebar(
        tuple(SidebarChannel(*row) for row in channels),
        tuple(SidebarDirect(*row) for row in direct),
        tuple(
            SidebarParticipant(pk, handle, name, level, picture_version=version, label=label, replies=tuple(replies))
            for pk, handle, name, level, version, replies, label in agents
        ),
        tuple(SidebarParticipant(*row) for row in people),
        tuple(SidebarWorkspace(*row) for row in workspaces),
    )


@cache
def _sidebar_statement() -> str:
    is_readable = sql.SQL("t.channel_id = ANY(%(channels)s::bigint[])")
    return _format(_SELECT_SIDEBAR, asker="%(asker)s", channel="c.id", is_readable=is_readable)


@cache
def _channel_unread_statement() -> str:
    is_readable = _IS_READABLE_TO_MEMBER
    return _format(_SELECT_CHANNEL_UNREAD, asker="asker.id", channel="asker.channel", is_readable=is_readable)


def _format(
    statement: LiteralString, *, asker: LiteralString, channel: LiteralString, is_readable: sql.Composable
) -> str:
    names = {"asker": sql.SQL(asker), "channel": sql.SQL(channel)}
    recent = sql.SQL(_RECENT_THREADS).format(**names, recent_threads=RECENT_THREADS)
    is_new, marker = is_new_to(asker), sql.SQL(_MARKER).format(**names)
    is_unread = sql.SQL(_IS_UNREAD).format(**names, recent=recent, marker=marker, is_new=is_new)
    news = sql.SQL(_NEWS).format(
        asker=names["asker"], marker=marker, is_new=is_new, is_readable=is_readable, max_mentions=MAX_COUNTED_MENTIONS
    )
    return sql.SQL(statement).format(is_unread=is_unread, news=news).as_string()


def read_channel_unread(pairs: Collection[tuple[int, int]]) -> dict[tuple[int, int], tuple[bool, int]]:
    """The unread state by participant and channel: whether anything is unread there, and how often they are named in
    it. One statement, none without pairs."""
    if not pairs:
        return {}
    rows = fetch_prepared(_channel_unread_statement(), [list(numbers) for numbers in zip(*pairs, strict=True)])
    return {(participant, channel): (unread, mentions) for participant, channel, unread, mentions in rows}


def list_recipients(access: Access, words: str = "") -> QuerySet[Participant]:
    """The people and agents whom the asker may write to: people and agents she knows, without herself, by name; with
    words, who has them in name or handle."""
    return participants_known_to(access).exclude(pk=access.participant_id).filter(name_like(words))


def access_recipient(by: Access, participant_id: int) -> Participant:
    """An active person or agent that the asker knows, other than herself. Raises Missing."""
    recipient = participants_known_to(by).exclude(pk=by.participant_id).filter(pk=participant_id).first()
    if recipient is None:
        raise Missing
    return recipient


def find_direct_thread(*, by: Access, participant_id: int) -> Thread | None:
    """The conversation of the asker with somebody, whether they are still there or not; None when there is none yet."""
    thread: Thread | None = Thread.objects.direct_between(by.participant_id, participant_id).first()
    return thread
