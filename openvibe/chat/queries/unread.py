"""What is unread and new to somebody, in threads and channels, and what she muted. The rule is `is_new_to` in SQL, and
`filter_unread` for querysets."""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from typing import LiteralString

from django.db.models import Exists, F, OuterRef, Q, QuerySet, Subquery
from psycopg import sql

from openvibe.chat.models import NotificationPreference, ReadMarker, Thread, is_channel_readable
from openvibe.engines.database.prepared_statements import fetch_prepared
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Member, NotificationLevel

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
# How many messages of others are unread and new to somebody, in direct messages: each counts like a mention.
_UNREAD_MESSAGES = """(SELECT count(*) FROM (
    SELECT FROM chat_thread t LEFT JOIN LATERAL ({marker}) r ON true JOIN chat_message m ON m.thread_id = t.id
    WHERE t.channel_id = {channel} AND t.parent_id IS NULL AND {is_new} AND m.seq > coalesce(r.last_read_seq, 0)
    AND m.author_id <> {asker} AND m.deleted_at IS NULL AND m.state <> 'replaced' AND m.kind IN ('text', 'dive_result')
    LIMIT {max_mentions}
) unread_messages)"""
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


# The same of one channel each for many readers.
_SELECT_CHANNEL_UNREAD = """
SELECT asker.id, asker.channel, coalesce(n.is_new, false) OR {is_unread}, CASE WHEN EXISTS (
    SELECT FROM chat_channel d WHERE d.id = asker.channel AND d.first_participant_id IS NOT NULL
) THEN greatest(coalesce(n.mentions, 0), {unread_messages}) ELSE coalesce(n.mentions, 0) END
FROM unnest(%s::bigint[], %s::bigint[]) AS asker(id, channel) CROSS JOIN LATERAL (
    SELECT sum(mentions) AS mentions, bool_or(is_new) AS is_new FROM ({news}) n WHERE n.channel_id = asker.channel
) n
"""
# Whether the asker, a member, reads the channel of a thread `t`.
_IS_NO_GUEST = "EXISTS (SELECT FROM workspaces_member b WHERE b.participant_id = asker.id AND b.role <> 'guest')"
_IS_READABLE_TO_MEMBER = sql.SQL(
    "EXISTS (SELECT FROM chat_channel c WHERE c.id = t.channel_id AND {is_channel_readable})"
).format(is_channel_readable=is_channel_readable(_IS_NO_GUEST))


def read_channel_unread(pairs: Collection[tuple[int, int]]) -> dict[tuple[int, int], tuple[bool, int]]:
    """The unread state by participant and channel: whether anything is unread there, and how often they are named in
    it; of direct messages, how many messages are unread. One statement, none without pairs."""
    if not pairs:
        return {}
    rows = fetch_prepared(_channel_unread_statement(), [list(numbers) for numbers in zip(*pairs, strict=True)])
    return {(participant, channel): (unread, mentions) for participant, channel, unread, mentions in rows}


@cache
def _channel_unread_statement() -> str:
    is_readable = _IS_READABLE_TO_MEMBER
    return with_unread(_SELECT_CHANNEL_UNREAD, asker="asker.id", channel="asker.channel", is_readable=is_readable)


def with_unread(
    statement: LiteralString, *, asker: LiteralString, channel: LiteralString, is_readable: sql.Composable
) -> str:
    """A statement with what is new to an asker in the places `{is_unread}`, whether anything in a channel is,
    `{unread_messages}`, how many messages of others in it are, and `{news}`, rows of channels with their unread
    mentions. `is_readable`: whether the asker reads a thread `t`."""
    names = {"asker": sql.SQL(asker), "channel": sql.SQL(channel)}
    recent = sql.SQL(_RECENT_THREADS).format(**names, recent_threads=RECENT_THREADS)
    is_new, marker = is_new_to(asker), sql.SQL(_MARKER).format(**names)
    is_unread = sql.SQL(_IS_UNREAD).format(**names, recent=recent, marker=marker, is_new=is_new)
    news = sql.SQL(_NEWS).format(
        asker=names["asker"], marker=marker, is_new=is_new, is_readable=is_readable, max_mentions=MAX_COUNTED_MENTIONS
    )
    bounds = {"max_mentions": MAX_COUNTED_MENTIONS}
    unread_messages = sql.SQL(_UNREAD_MESSAGES).format(**names, marker=marker, is_new=is_new, **bounds)
    return sql.SQL(statement).format(is_unread=is_unread, unread_messages=unread_messages, news=news).as_string()


def filter_unread(threads: QuerySet[Thread], access: Access) -> QuerySet[Thread]:
    """The threads, of those with `last_read_seq`, that have something new, as the inbox lists them: nothing put away,
    and to a member nothing from before she joined unless she opened it, and nothing that she muted."""
    threads = threads.filter(archived_at=None, channel__archived_at=None, last_seq__gt=F("last_read_seq"))
    if access.is_agent:
        return threads
    threads = threads.exclude(muted_threads(access))
    joined_at = Member.objects.filter(participant_id=access.participant_id).values("joined_at")
    is_opened = Exists(ReadMarker.objects.filter(thread=OuterRef("pk"), participant_id=access.participant_id))
    return threads.filter(Q(is_opened) | Q(last_message_at__gte=Subquery(joined_at)))


def muted_threads(access: Access) -> Q:
    """The condition, for rows of threads, that the asker muted them, or their channel and not them."""
    own = NotificationPreference.objects.filter(participant_id=access.participant_id)
    of_thread = own.filter(thread=OuterRef("pk"))
    muting_channel = own.filter(channel=OuterRef("channel_id"), level=NotificationLevel.NOTHING)
    is_muted = Q(Exists(of_thread.filter(level=NotificationLevel.NOTHING)))
    return is_muted | (Q(Exists(muting_channel)) & ~Q(Exists(of_thread)))
