"""Rooms, conversations, what was said, and what each reader has seen."""

from openvibe.chat.models.channel import Channel, ChannelMembership
from openvibe.chat.models.message import Mention, Message, MessageRevision, in_short_runs
from openvibe.chat.models.reading import Draft, ReadMarker
from openvibe.chat.models.thread import Thread

__all__ = [
    "Channel",
    "ChannelMembership",
    "Draft",
    "Mention",
    "Message",
    "MessageRevision",
    "ReadMarker",
    "Thread",
    "in_short_runs",
]
