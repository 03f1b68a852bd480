"""Permissions: who may change what, and write where: checks for archived threads, and for dives, where only two take
part."""

from openvibe.base.problems import Refused
from openvibe.chat.models import Channel, ChannelMembership, Dive, Thread
from openvibe.workspaces.access import Access

ARCHIVED_MESSAGE = "This conversation is archived and can only be read."
NESTED_DIVE_MESSAGE = "There is no dive inside a dive. Publish this one, then dive deeper."
IS_DIVE_MESSAGE = "A dive goes with the thread it started in. Change that thread."
DIVE_ENDED_MESSAGES = {
    Dive.State.PUBLISHED: "This dive is published and can only be read. Dive deeper from its result to go on.",
    Dive.State.DISCARDED: "This dive was discarded and can only be read. Start another to go on.",
}


def may_manage_channel(channel: Channel, by: Access) -> bool:
    return by.workspace_id == channel.workspace_id and (by.administers or channel.created_by_id == by.participant_id)


def check_creates_channels(by: Access) -> None:
    if by.is_agent or by.is_guest:
        raise Refused("Guests and agents cannot make channels. Ask a member.")


def check_manages_channel(channel: Channel, by: Access) -> None:
    if not may_manage_channel(channel, by):
        raise Refused("Only admins and the person who made a channel may change it.")


def may_manage_thread(thread: Thread, by: Access) -> bool:
    return by.administers or (not by.is_agent and thread.created_by_id == by.participant_id)


def check_not_archived(thread: Thread) -> None:
    """Raises Refused, also where nobody is there to read: direct messages with somebody who left. Costs a query in
    dives, and in direct messages that were read without the two."""
    if is_archived(thread):
        raise Refused(ARCHIVED_MESSAGE, code="archived")
    if text := departure(thread.channel):
        raise Refused(text, code="recipient_left")


def departure(channel: Channel) -> str:
    """The reason why nothing more can be said in direct messages, as a sentence; else empty."""
    for one in (channel.first_participant, channel.second_participant):
        if one is not None and not one.is_active:
            what = "is deactivated" if one.is_agent else "has left the workspace"
            return f"{one.name} {what}. What was said can be read; nothing new can be written."
    return ""


def check_not_direct(thread: Thread) -> None:
    """Raises Refused for direct messages: they are always between the same two, under their names."""
    if thread.channel.is_direct:
        raise Refused("Direct messages have no settings: they stay between the two of you.", code="is_direct")


def check_dive_party(thread: Thread, by: Access) -> None:
    """Raises Refused in a dive that is over or somebody else's. It does not end before the transaction this is in."""
    if thread.parent_id is None:
        return
    dive = Dive.objects.select_for_update(of=("self",), no_key=True).select_related("agent").get(thread_id=thread.pk)
    if not dive.is_active:
        raise Refused(DIVE_ENDED_MESSAGES[Dive.State(dive.state)], code="dive_over")
    if by.participant_id not in (dive.started_by_id, dive.agent_id):
        raise Refused(
            f"In a dive only the person who started it and @{dive.agent.handle} write. Start a dive of your own.",
            code="not_your_dive",
        )


def check_agent_answers(thread: Thread, by: Access) -> None:
    """Raises Refused for an agent that was not added to a channel in which only added ones answer. A query there."""
    channel = thread.channel
    if not (by.is_agent and channel.added_agents_only):
        return
    if not ChannelMembership.objects.filter(channel=channel, participant=by.participant_id).exists():
        raise Refused(f"In {channel} only agents answer that were added.", code="not_added_here")


def check_dive_active(thread: Thread) -> None:
    """Raises Refused for a dive that is published or discarded. A query in dives only, and no lock."""
    state = (
        Dive.objects.filter(thread_id=thread.pk).values_list("state", flat=True).first() if thread.parent_id else None
    )
    if state is not None and state != Dive.State.ACTIVE:
        raise Refused(DIVE_ENDED_MESSAGES[Dive.State(state)], code="dive_over")


def is_archived(thread: Thread) -> bool:
    """Whether the thread, its channel or, for a dive, the thread it started in is archived."""
    if thread.archived_at is not None or thread.channel.archived_at is not None:
        return True
    return (
        thread.parent_id is not None and Thread.objects.filter(pk=thread.parent_id).exclude(archived_at=None).exists()
    )


def check_not_dive(thread: Thread) -> None:
    """Raises Refused for a dive: it is not named, archived or opened by itself."""
    if thread.parent_id is not None:
        raise Refused(IS_DIVE_MESSAGE, code="is_dive")
