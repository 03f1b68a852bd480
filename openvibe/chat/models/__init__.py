"""Rooms, conversations, what was said, and what each reader has seen."""

from openvibe.chat.models.channel import Channel, ChannelMembership
from openvibe.chat.models.dive import MOST_ACTIVE, Dive, DiveResult
from openvibe.chat.models.message import Mention, Message, MessageRevision, in_short_runs
from openvibe.chat.models.reading import Draft, ReadMarker
from openvibe.chat.models.thread import Thread
from openvibe.chat.models.vector import MessageToEmbed, MessageVector

__all__ = [
    "MOST_ACTIVE",
    "Channel",
    "ChannelMembership",
    "Dive",
    "DiveResult",
    "Draft",
    "Mention",
    "Message",
    "MessageRevision",
    "MessageToEmbed",
    "MessageVector",
    "ReadMarker",
    "Thread",
    "in_short_runs",
]
