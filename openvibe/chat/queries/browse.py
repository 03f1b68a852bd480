"""Reads of the channels one may browse, and of one place of the sidebar with what its reader may do with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from django.db.models import Count, Exists, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce

from openvibe.base.params import MAX_ID
from openvibe.base.problems import Missing
from openvibe.chat.models import (
    Channel,
    ChannelMembership,
    Favourite,
    NotificationPreference,
    SidebarOrder,
    SidebarSettings,
    Thread,
    sees_channel,
    visibility_of,
)
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import NotificationLevel, Participant

BrowseScope = Literal["all", "joined", "others"]
"""Channels to list: all that the asker sees, those she joined, those she did not."""
BROWSE_SCOPES: tuple[BrowseScope, ...] = get_args(BrowseScope)


def browse_channels(access: Access, *, words: str = "", show: BrowseScope = "all") -> QuerySet[Channel]:
    """Open channels the asker sees, by name, with `member_count` and `agent_count` (who was added to each and is
    active), `is_joined` and `is_favourite`; with words, those whose name or purpose holds them."""
    holds = Q(name__icontains=words.removeprefix("#")) | Q(description__icontains=words)
    own = ChannelMembership.objects.filter(channel=OuterRef("pk"), participant=access.participant_id)
    favourites = Favourite.objects.filter(channel=OuterRef("pk"), participant=access.participant_id)
    channels: QuerySet[Channel] = Channel.objects.visible_to(access).filter(holds, archived_at=None)
    channels = channels.annotate(
        is_joined=Exists(own),
        is_favourite=Exists(favourites),
        member_count=_count_of(Participant.Kind.MEMBER),
        agent_count=_count_of(Participant.Kind.AGENT),
    )
    if show != "all":
        channels = channels.filter(is_joined=show == "joined")
    return channels.order_by("name", "id")


def _count_of(kind: Participant.Kind) -> Coalesce:
    """How many active participants of this kind were added to a channel."""
    rows = ChannelMembership.objects.filter(channel=OuterRef("pk"), participant__kind=kind, participant__is_active=True)
    counts = rows.order_by().values("channel").annotate(count=Count("pk")).values("count")
    return Coalesce(Subquery(counts), 0)


@dataclass(frozen=True)
class SidebarChoices:
    """How somebody arranged her sidebar; favourites as ids of channels, and of threads of direct messages, that she
    still sees."""

    order: str
    folded: list[str]
    favourite_channels: list[int]
    favourite_direct_messages: list[int]


def read_sidebar_choices(access: Access) -> SidebarChoices:
    """Two queries."""
    settings = SidebarSettings.objects.filter(participant=access.participant_id).first()
    favourites = Favourite.objects.filter(participant=access.participant_id).order_by("id")
    favourites = favourites.filter(channel__id__any_of=visibility_of(access).channels)
    threads = Thread.objects.filter(channel=OuterRef("channel"), parent=None).order_by().values("pk")[:1]
    rows = favourites.annotate(thread=Subquery(threads)).values_list(
        "channel_id", "thread", "channel__first_participant"
    )
    return SidebarChoices(
        settings.order if settings else SidebarOrder.NAME,
        list(settings.folded) if settings else [],
        [channel for channel, _, first in rows if first is None],
        [thread for _, thread, first in rows if first is not None],
    )


@dataclass(frozen=True)
class SidebarPlace:
    """A channel or direct messages, and what they are to their reader. `thread` and `other` are of direct messages."""

    channel: Channel
    is_favourite: bool
    is_muted: bool
    is_joined: bool
    thread: Thread | None = None
    other: Participant | None = None


def access_sidebar_place(access: Access, channel_id: int) -> SidebarPlace:
    """A channel or direct messages that the asker sees, open or archived. Raises Missing. Two queries, three of direct
    messages."""
    if not sees_channel(access, min(channel_id, MAX_ID)):
        raise Missing
    own = {"participant": access.participant_id, "channel": OuterRef("pk")}
    channels = Channel.objects.select_related("first_participant__agent", "second_participant__agent").annotate(
        favourite=Exists(Favourite.objects.filter(**own)),
        joined=Exists(ChannelMembership.objects.filter(**own)),
        muted=Exists(NotificationPreference.objects.filter(**own, level=NotificationLevel.NOTHING)),
    )
    channel = channels.get(pk=channel_id)
    facts = vars(channel)
    if not channel.is_direct:
        return SidebarPlace(channel, facts["favourite"], facts["muted"], facts["joined"])
    thread = Thread.objects.get(channel=channel, parent=None)
    preferences = NotificationPreference.objects.filter(participant=access.participant_id, thread=thread)
    two = (channel.first_participant, channel.second_participant)
    other = next(one for one in two if one is not None and one.pk != access.participant_id)
    is_muted = preferences.filter(level=NotificationLevel.NOTHING).exists()
    return SidebarPlace(channel, facts["favourite"], is_muted, is_joined=True, thread=thread, other=other)
