"""What holds for agents in a place, as plain values: its budget, who was added, the place itself."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from openvibe.chat.models import Channel, ChannelMembership, Thread
from openvibe.chat.queries.conversations import access_channel, access_thread
from openvibe.workspaces.access import Access


class ChannelBudget(NamedTuple):
    """The tokens that agents may use in a channel in one UTC day; None: no limit of its own."""

    channel_id: int
    place: str
    tokens: int | None


def channel_budget(channel_id: int) -> ChannelBudget:
    """The budget of a channel as it is now. One query."""
    return _budget_of(Channel.objects.only("name", "first_participant", "daily_token_budget").get(pk=channel_id))


def budget_of_place(thread: Thread) -> ChannelBudget:
    """The budget of the thread's channel, as it was loaded."""
    return _budget_of(thread.channel)


def _budget_of(channel: Channel) -> ChannelBudget:
    return ChannelBudget(channel.pk, str(channel), channel.daily_token_budget)


def added_where_limited(threads: Iterable[Thread], participant_ids: Collection[int]) -> set[tuple[int, int]]:
    """The ids of channel and participant for those that were added, of the threads' channels in which only these
    answer. One query, where there is such a channel."""
    limited = {thread.channel_id for thread in threads if thread.channel.added_agents_only}
    if not limited:
        return set()
    rows = ChannelMembership.objects.filter(channel__in=limited, participant__in=participant_ids)
    return set(rows.values_list("channel_id", "participant_id"))


@dataclass(frozen=True)
class Place:
    """A channel, or a thread of it, which the asker sees."""

    channel: Channel
    thread: Thread | None = None

    @property
    def any_thread(self) -> Thread:
        """The thread; of a channel one that could be begun there, which is in no database."""
        return self.thread or Thread(workspace_id=self.channel.workspace_id, channel=self.channel)

    @property
    def row(self) -> Thread | Channel:
        return self.thread or self.channel

    @property
    def is_dive(self) -> bool:
        return self.thread is not None and self.thread.parent_id is not None

    @property
    def is_for_people_only(self) -> bool:
        return self.thread is not None and self.thread.access == Thread.Access.HUMAN_ONLY

    @property
    def lists_agents(self) -> bool:
        return self.thread is not None and self.thread.access == Thread.Access.AGENT_RESTRICTED

    @property
    def name(self) -> str:
        return str(self.channel) if self.thread is None else self.thread.title


def access_channel_place(access: Access, channel_id: int) -> Place:
    """The channel. Raises Missing where the asker does not see it."""
    return Place(access_channel(access, channel_id))


def access_thread_place(access: Access, thread_id: int) -> Place:
    """The thread with its channel. Raises Missing where the asker does not see it."""
    thread = access_thread(access, thread_id)
    return Place(thread.channel, thread)
