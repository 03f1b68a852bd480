"""Viewers: who listens to an event stream, by what right, which events they may know of, and which of them notify: a
look-up in what this process knows of them.

Kept true by the events that change it, and every few seconds by `refresh_viewers` for what has no event: a sign-out, a
token that expires, an account that is closed."""

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import cast

from django.db.models import Q
from django.utils import timezone

from openvibe.api.models import Token
from openvibe.chat.live.batch import EventBatch, LiveEvent
from openvibe.chat.models import Channel, Message, Thread
from openvibe.engines.database.prepared_statements import fetch_prepared
from openvibe.workspaces.access import Access, Role, role_access
from openvibe.workspaces.models import DoNotDisturb, NotificationLevel, Participant
from openvibe.workspaces.queries import AGENT_ACCESSES

ACCESS_KINDS = ("access_changed", "agent_changed", "channel_changed", "members_changed")
"""Events after which somebody may see more, or less. What a thread shows of itself is read with each event."""


@dataclass(eq=False)
class Viewer:
    """One listener, signed in by a session or a token. `access` is None once it holds no more (or not yet asked);
    `password`: the hash that the session was opened with."""

    workspace_id: int
    participant_id: int
    session_key: str | None = None
    token_id: int | None = None
    access: Access | None = None
    password: str = ""
    public_ids: frozenset[int] = frozenset()
    own_ids: frozenset[int] = frozenset()
    notify_level: str = NotificationLevel.NOTHING
    """A member's default."""
    do_not_disturb: DoNotDisturb = field(default_factory=DoNotDisturb)
    has_push: bool = False
    """Whether a browser of a member's is sent notifications."""

    def sees(self, event: LiveEvent) -> bool:
        """Whether the viewer may know of the event now: the rule of `visible_to`, asked of one row.

        Not `sees_thread`: a thousand viewers share one set of public channels, and what a thread lists is read with the
        event, not with the viewer.
        """
        access, thread = self.access, event.thread
        if access is None or event.participant_id not in (None, self.participant_id):
            return False
        channel_id = thread.channel_id if thread else event.channel_id
        if event.thread_id is not None and thread is None:  # it is gone
            return False
        if channel_id is not None and channel_id not in self.public_ids and channel_id not in self.own_ids:
            return False
        return not access.is_agent or self._agent_sees(event, access)

    def _agent_sees(self, event: LiveEvent, access: Access) -> bool:
        thread = event.thread
        if event.kind == "pins_changed" or (event.message_id is not None and event.message is None):
            return False
        if not access.reads_dive_results and (
            event.kind == "dive_changed"
            or (thread is not None and thread.parent_id is not None)
            or (event.message is not None and event.message.kind == Message.Kind.DIVE_RESULT)
        ):
            return False
        return (
            thread is None
            or thread.access == Thread.Access.OPEN
            or (thread.access == Thread.Access.AGENT_RESTRICTED and self.participant_id in thread.listed)
        )


def refresh_viewers(viewers: Collection[Viewer]) -> None:
    """Asks anew whether they may listen and what they may see. At most seven queries, whatever their number."""
    accesses, habits = _current_accesses({viewer.participant_id for viewer in viewers})
    sessions, tokens = _open_sessions(viewers), _valid_tokens(viewers)
    public_ids = _public_channel_ids({access.workspace_id for access in accesses.values()})
    own_ids = _own_channel_ids(accesses)
    for viewer in viewers:
        access = accesses.get(viewer.participant_id)
        password, viewer.notify_level, viewer.has_push, viewer.do_not_disturb = habits.get(
            viewer.participant_id, NO_HABITS
        )
        holds = (
            (viewer.token_id is None or viewer.token_id in tokens)
            and (viewer.session_key is None or viewer.session_key in sessions)
            and (viewer.session_key is None or viewer.password in ("", password))
        )
        viewer.access = access if holds and access and access.workspace_id == viewer.workspace_id else None
        viewer.password = viewer.password or password
        viewer.own_ids = own_ids.get(viewer.participant_id, frozenset())
        reads_public = viewer.access is not None and viewer.access.reads_public_channels
        viewer.public_ids = public_ids.get(viewer.workspace_id, frozenset()) if reads_public else frozenset()


# Each with an array: a thousand placeholders take longer to fill in than to answer.
_SELECT_MEMBERS = """
SELECT m.participant_id, m.workspace_id, m.role, u.password, m.notify_level,
    EXISTS (SELECT FROM chat_pushsubscription s WHERE s.user_id = u.id),
    u.dnd_until, u.dnd_start, u.dnd_end, u.time_zone
FROM workspaces_member m JOIN workspaces_user u ON u.id = m.user_id
WHERE m.participant_id = ANY(%s::bigint[]) AND m.removed_at IS NULL AND u.is_active
"""
_SELECT_OPEN_SESSIONS = """
SELECT session_key FROM django_session WHERE session_key = ANY(%s::text[]) AND expire_date > %s
"""
_SELECT_OWN_CHANNELS = """
SELECT participant_id, array_agg(channel_id) FROM chat_channelmembership
WHERE participant_id = ANY(%s::bigint[]) GROUP BY participant_id
"""
Habits = tuple[str, str, bool, DoNotDisturb]
NO_HABITS: Habits = ("", NotificationLevel.NOTHING, False, DoNotDisturb())


def _current_accesses(participant_ids: Collection[int]) -> tuple[dict[int, Access], dict[int, Habits]]:
    """What each may see; of members, what signs their sessions, what they are notified of, where, and when
    not."""
    rows = fetch_prepared(_SELECT_MEMBERS, [list(participant_ids)])
    accesses = {}
    for pk, workspace_id, role, *_ in rows:
        accesses[pk] = role_access(workspace_id=workspace_id, participant_id=pk, role=cast(Role, role))
    if rest := set(participant_ids) - accesses.keys():
        agents = Participant.objects.filter(pk__in=rest, kind=Participant.Kind.AGENT).select_related("agent")
        accesses |= AGENT_ACCESSES.only()(agents)
    return accesses, {row[0]: (row[3], row[4], row[5], DoNotDisturb(*row[6:])) for row in rows}


def _open_sessions(viewers: Iterable[Viewer]) -> set[str]:
    keys = {viewer.session_key for viewer in viewers if viewer.session_key is not None}
    return {key for (key,) in fetch_prepared(_SELECT_OPEN_SESSIONS, [list(keys), timezone.now()])} if keys else set()


def _valid_tokens(viewers: Iterable[Viewer]) -> set[int]:
    ids = {viewer.token_id for viewer in viewers if viewer.token_id is not None}
    is_unexpired = Q(expires_at=None) | Q(expires_at__gt=timezone.now())
    tokens = Token.objects.filter(is_unexpired, pk__in=ids, revoked_at=None)
    return set(tokens.values_list("pk", flat=True)) if ids else set()


def _public_channel_ids(workspace_ids: Collection[int]) -> dict[int, frozenset[int]]:
    channels = Channel.objects.filter(workspace__in=workspace_ids, is_private=False)
    groups: defaultdict[int, set[int]] = defaultdict(set)
    for workspace_id, channel_id in channels.order_by().values_list("workspace_id", "pk"):
        groups[workspace_id].add(channel_id)
    return {workspace_id: frozenset(ids) for workspace_id, ids in groups.items()}


def _own_channel_ids(participant_ids: Collection[int]) -> dict[int, frozenset[int]]:
    return {pk: frozenset(ids) for pk, ids in fetch_prepared(_SELECT_OWN_CHANNELS, [list(participant_ids)])}


def is_notified(viewer: Viewer, event: LiveEvent, batch: EventBatch) -> bool:
    """Whether a notification of the event, which the viewer sees, is shown to her: the one place of this rule."""
    message = event.message
    if message is None or not event.announces or message.author_id == viewer.participant_id:
        return False
    level = _chosen_level(viewer, event, batch) or viewer.notify_level
    is_named = viewer.participant_id in message.named
    is_wanted = level == NotificationLevel.ALL or (level == NotificationLevel.MENTIONS and is_named)
    return is_wanted and viewer.do_not_disturb.ends_at(timezone.now()) is None


def is_muted(viewer: Viewer, event: LiveEvent, batch: EventBatch) -> bool:
    """Whether the viewer muted the place where the event's message stands."""
    return _chosen_level(viewer, event, batch) == NotificationLevel.NOTHING


def _chosen_level(viewer: Viewer, event: LiveEvent, batch: EventBatch) -> str:
    """What the viewer chose for the thread, else for its channel; empty where she has her default."""
    levels, thread = batch.notification_levels, event.thread
    return levels.get((viewer.participant_id, None, event.thread_id)) or (
        levels.get((viewer.participant_id, thread.channel_id, None), "") if thread else ""
    )
