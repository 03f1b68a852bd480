"""The people whom somebody knows, and who reads a channel or a thread."""

from __future__ import annotations

from django.db.models import Q, QuerySet

from openvibe.chat.models.channel import Channel, ChannelMembership
from openvibe.chat.models.thread import Thread
from openvibe.chat.models.visibility import load_visibility, sees_channel, sees_thread
from openvibe.engines.database.compiled_queries import CompiledQuery
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import IMPORTED_KINDS, Participant
from openvibe.workspaces.queries import AGENT_ACCESSES


def participants_known_to(access: Access) -> QuerySet[Participant]:
    """Active members and agents; a guest knows only those of the channels she is in."""
    participants = Participant.objects.filter(workspace_id=access.workspace_id, is_active=True).exclude(
        kind__in=IMPORTED_KINDS
    )
    if access.is_guest:
        mine = ChannelMembership.objects.filter(participant_id=access.participant_id).values("channel_id")
        shared = ChannelMembership.objects.filter(channel_id__in=mine).values("participant_id")
        participants = participants.filter(Q(pk__in=shared) | Q(pk=access.participant_id))
    return participants.select_related("agent", "member").order_by("name", "id")


def participants_nameable_by(access: Access, thread: Thread) -> QuerySet[Participant]:
    """The participants whom the asker may name in a thread that she sees: those she knows, and those who read it. For
    all but guests that is everybody active; that somebody else is there, a guest is not told by trying handles and
    numbers."""
    known_participants = participants_known_to(access)
    if not access.is_guest:
        return known_participants
    readers = Q(pk__in=members_with_access(thread.channel).order_by().values("pk"))
    readers |= Q(pk__in=[agent.pk for agent in agents_with_access(thread)])
    return Participant.objects.filter(Q(pk__in=known_participants.order_by().values("pk")) | readers)


def agents_with_access(row: Thread | Channel) -> list[Participant]:
    """Active agents that may see this row, by the same rule their prompts follow.

    Two queries whatever the number of agents.
    """
    agents: list[Participant] = _active_agents.objects(row.workspace_id)
    accesses = AGENT_ACCESSES.only()(agents)
    load_visibility(accesses.values())
    seers = {
        pk
        for pk, one in accesses.items()
        if (sees_thread(one, row) if isinstance(row, Thread) else sees_channel(one, row.pk))
    }
    return [agent for agent in agents if agent.pk in seers]


@CompiledQuery
def _active_agents(workspace_id: int) -> QuerySet[Participant]:
    agents = Participant.objects.filter(workspace=workspace_id, kind=Participant.Kind.AGENT, is_active=True)
    return agents.select_related("agent")


def members_with_access(channel: Channel) -> QuerySet[Participant]:
    """Members who may read the channel."""
    added = Q(channel_memberships__channel=channel)
    by_role = Q(member__role__in=("owner", "admin", "member"))
    people = Participant.objects.filter(workspace_id=channel.workspace_id, kind=Participant.Kind.MEMBER, is_active=True)
    readers = added if channel.is_private else added | by_role
    return people.filter(readers).select_related("member").distinct().order_by("name", "id")
