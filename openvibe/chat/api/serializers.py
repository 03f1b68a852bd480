"""Channels, threads and people: what the API takes and gives."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from openvibe.api.fields import ChoiceField, IdField, SeqField, TextField, WholeNumberField
from openvibe.chat.models import Channel, Thread
from openvibe.engines.text.cleaning import text_version
from openvibe.workspaces.api.serializers import ParticipantOut
from openvibe.workspaces.models import Participant


class InstructionsVersion(serializers.Serializer[Any]):
    instructions_version = serializers.SerializerMethodField(help_text="Of the text of `instructions`.")

    def get_instructions_version(self, scope: Channel | Thread) -> str:
        return text_version(scope.instructions)


class ChannelOut(InstructionsVersion, serializers.ModelSerializer[Channel]):
    class Meta:
        model = Channel
        fields = (
            *("id", "name", "description", "instructions", "instructions_version", "is_private"),
            *("added_agents_only", "agent_tools", "daily_token_budget", "archived_at", "created_at"),
        )
        read_only_fields = fields


class ChannelIn(serializers.Serializer[Any]):
    name = TextField(help_text="1 to 40 of a-z, 0-9, - and _.")
    description = TextField(required=False, default="", help_text="At most 1,000 characters.")
    is_private = serializers.BooleanField(required=False, default=False)


MAX_AGENT_TOOLS = 5_000
INSTRUCTIONS_HELP = "What agents are told here, at most 2,000 tokens; empty takes it away. Owners and admins."

VERSION_HELP = "The one that was read with them: 409 `changed_meanwhile` where another text stands there now."


class ChannelChange(serializers.Serializer[Any]):
    """Settings of a channel, at least one."""

    instructions = TextField(required=False, help_text=INSTRUCTIONS_HELP)
    instructions_version = serializers.CharField(required=False, max_length=40, help_text=VERSION_HELP)
    added_agents_only = serializers.BooleanField(
        required=False,
        help_text="Whether only agents answer that were added. For admins and the person who made the channel.",
    )
    agent_tools = serializers.ListField(
        child=serializers.CharField(max_length=200),
        required=False,
        allow_null=True,
        max_length=MAX_AGENT_TOOLS,
        help_text="What agents may use here at most; null: all that they may use. Owners and admins.",
    )
    daily_token_budget = WholeNumberField(
        required=False,
        allow_null=True,
        help_text="Tokens that agents may use here in one UTC day; null: no limit of its own. Owners and admins.",
    )


class ThreadOut(InstructionsVersion, serializers.ModelSerializer[Thread]):
    channel = serializers.IntegerField(source="channel_id", read_only=True)
    parent = serializers.IntegerField(  # type: ignore[assignment]  # DRF takes it off the class
        source="parent_id", read_only=True, allow_null=True, help_text="For a dive: the thread it started in."
    )
    created_by = ParticipantOut(read_only=True, allow_null=True)
    allowed_agents = serializers.SerializerMethodField(help_text="Handles.")
    following_agents = serializers.SerializerMethodField(help_text="Handles.")
    is_pinned = serializers.SerializerMethodField(help_text="Shown first in its channel.")
    last_read_seq = serializers.IntegerField(
        read_only=True, default=0, help_text="Up to which message the caller has read it; unread below `last_seq`."
    )

    class Meta:
        model = Thread
        fields = (
            "id",
            "channel",
            "parent",
            "title",
            "instructions",
            "instructions_version",
            "access",
            "allowed_agents",
            "following_agents",
            "created_by",
            "created_at",
            "archived_at",
            "is_pinned",
            "last_seq",
            "last_read_seq",
            "last_message_at",
        )
        read_only_fields = fields

    def get_is_pinned(self, thread: Thread) -> bool:
        return thread.pin_slot is not None

    def get_allowed_agents(self, thread: Thread) -> list[str]:
        return [agent.handle for agent in thread.allowed_agents.all()]

    def get_following_agents(self, thread: Thread) -> list[str]:
        return [agent.handle for agent in thread.following_agents.all()]


class DirectMessagesOut(serializers.ModelSerializer[Thread]):
    """`id` is that of the thread, in which messages are read and posted as in any."""

    participants = serializers.SerializerMethodField(help_text="The two.")
    last_read_seq = serializers.IntegerField(read_only=True, default=0, help_text="Unread below `last_seq`.")

    class Meta:
        model = Thread
        fields = ("id", "participants", "created_at", "last_seq", "last_read_seq", "last_message_at")
        read_only_fields = fields

    @extend_schema_field(ParticipantOut(many=True))
    def get_participants(self, thread: Thread) -> object:
        two = (thread.channel.first_participant, thread.channel.second_participant)
        return ParticipantOut([one for one in two if one is not None], many=True).data


class DirectMessagesIn(serializers.Serializer[Any]):
    to = TextField(help_text="The handle of a person or an agent.")


HANDLES_HELP = "Handles of agents; for access agent_restricted."


class ThreadIn(serializers.Serializer[Any]):
    channel = IdField()
    title = TextField(help_text="Cut at 200 characters.")
    access = ChoiceField(choices=Thread.Access.choices, default=Thread.Access.OPEN)
    allowed_agents = serializers.ListField(
        child=serializers.CharField(max_length=40), max_length=100, required=False, default=list, help_text=HANDLES_HELP
    )


class ThreadChange(serializers.Serializer[Any]):
    title = TextField(required=False)
    instructions = TextField(required=False, help_text=INSTRUCTIONS_HELP)
    instructions_version = serializers.CharField(required=False, max_length=40, help_text=VERSION_HELP)
    archived = serializers.BooleanField(required=False)
    is_pinned = serializers.BooleanField(
        required=False, help_text="Shown first in its channel, which has at most 10 of them."
    )
    access = ChoiceField(choices=Thread.Access.choices, required=False)
    allowed_agents = serializers.ListField(
        child=serializers.CharField(max_length=40), max_length=100, required=False, help_text=HANDLES_HELP
    )


class ThreadsParams(serializers.Serializer[Any]):
    channel = IdField(required=False, help_text="Only threads of this channel.")
    parent = IdField(  # type: ignore[assignment]  # DRF takes it off the class
        required=False, help_text="The dives of this thread, as threads; left out otherwise."
    )
    unread = serializers.BooleanField(
        required=False, default=False, help_text="The inbox: only threads with something new to the caller."
    )


class ThreadExportParams(serializers.Serializer[Any]):
    form = ChoiceField(
        choices=["jsonl", "md"], default="jsonl", help_text="jsonl can be imported again; md is for people."
    )


class ReadIn(serializers.Serializer[Any]):
    """One of the two."""

    seq = SeqField(required=False, help_text="Everything up to this message is read; never moves backwards.")
    unread_from = SeqField(required=False, help_text="This message and all after it count as unread again.")


class ReadOut(serializers.Serializer[Any]):
    last_read_seq = serializers.IntegerField(help_text="Everything up to this message is read.")


class PersonOut(serializers.ModelSerializer[Participant]):
    role = serializers.CharField(source="member.role", read_only=True, help_text="owner, admin, member or guest.")
    is_here = serializers.BooleanField(read_only=True, help_text="Whether a page of theirs is open now.")
    avatar_url = serializers.CharField(read_only=True, allow_null=True, help_text="Path of their picture.")

    class Meta:
        model = Participant
        fields = ("id", "handle", "name", "avatar_url", "role", "is_here")
        read_only_fields = fields
