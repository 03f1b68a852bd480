"""What holds in a channel or a thread, and why."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from agents.tools.effective import effective_in
from openvibe.api.views import ApiView
from openvibe.chat.queries import access_channel_place, access_thread_place
from openvibe.workspaces.decorators import request_access

CHANGE_HELP = "Path of the page where it is changed; null for those who may not."
ORIGIN_HELP = "Where it comes from, in words."


class EffectiveInstructionsOut(serializers.Serializer[Any]):
    origin = serializers.CharField(read_only=True, help_text=ORIGIN_HELP)
    text = serializers.CharField(read_only=True)
    change_url = serializers.CharField(read_only=True, allow_null=True, help_text=CHANGE_HELP)


class EffectiveToolOut(serializers.Serializer[Any]):
    name = serializers.CharField(read_only=True)
    label = serializers.CharField(  # type: ignore[assignment]  # DRF takes it off the class
        read_only=True, help_text="What it does."
    )
    state = serializers.CharField(read_only=True, help_text="allowed, asks (people, before each call) or refused.")
    why = serializers.CharField(read_only=True, help_text="Why, as a sentence.")


class EffectiveBudgetOut(serializers.Serializer[Any]):
    origin = serializers.CharField(read_only=True, help_text=ORIGIN_HELP)
    limit = serializers.IntegerField(read_only=True, allow_null=True, help_text="Tokens of a UTC day; null: none.")
    used = serializers.IntegerField(read_only=True, help_text="Tokens used since midnight UTC.")
    change_url = serializers.CharField(read_only=True, allow_null=True, help_text=CHANGE_HELP)


class EffectiveAgentOut(serializers.Serializer[Any]):
    handle = serializers.CharField(read_only=True)
    name = serializers.CharField(read_only=True)
    answers = serializers.BooleanField(read_only=True, help_text="Whether it answers here, as things are now.")
    why_not = serializers.CharField(read_only=True, help_text="Why it does not; empty where it does.")
    level = serializers.IntegerField(read_only=True, help_text="The trust level, 1 to 4.")
    level_label = serializers.CharField(read_only=True)
    level_origin = serializers.CharField(read_only=True, help_text="Where the level holds.")
    level_url = serializers.CharField(read_only=True, help_text="Path of the page that shows it.")
    runs_elsewhere = serializers.BooleanField(read_only=True, help_text="A program elsewhere writes its answers.")
    soul = serializers.IntegerField(read_only=True, allow_null=True, help_text="The SOUL's newest version.")
    soul_url = serializers.CharField(read_only=True, allow_null=True, help_text="Path of the page that shows it.")
    tools = EffectiveToolOut(many=True, read_only=True)
    calls = EffectiveToolOut(
        many=True, read_only=True, help_text="Kinds of calls that it makes with tools of its own, of one elsewhere."
    )
    tools_url = serializers.CharField(read_only=True, allow_null=True, help_text=CHANGE_HELP)
    budget = EffectiveBudgetOut(read_only=True, allow_null=True)
    knowledge = serializers.CharField(read_only=True, help_text="Which entries its prompts may hold, in words.")


class EffectiveToolsOut(serializers.Serializer[Any]):
    origin = serializers.CharField(read_only=True, help_text=ORIGIN_HELP)
    names = serializers.ListField(
        child=serializers.CharField(), read_only=True, allow_null=True, help_text="As `agent_tools`; null: all."
    )
    labels = serializers.ListField(
        child=serializers.CharField(), read_only=True, allow_null=True, help_text="The same in words."
    )
    change_url = serializers.CharField(read_only=True, allow_null=True, help_text=CHANGE_HELP)


class EffectiveKnowledgeOut(serializers.Serializer[Any]):
    origin = serializers.CharField(read_only=True, help_text=ORIGIN_HELP)
    shared = serializers.IntegerField(read_only=True, help_text="Shared entries that hold now.")
    restricted = serializers.IntegerField(read_only=True, help_text="Restricted ones that the caller may read.")
    url = serializers.CharField(read_only=True, help_text="Path of the page that lists them.")


class EffectiveMemoryOut(serializers.Serializer[Any]):
    plugin = serializers.CharField(read_only=True)
    mode = serializers.CharField(read_only=True, help_text="full, read-only or ignored.")
    words = serializers.CharField(read_only=True, help_text="What that means.")
    origin = serializers.CharField(read_only=True, help_text=ORIGIN_HELP)
    change_url = serializers.CharField(read_only=True, allow_null=True, help_text=CHANGE_HELP)


class EffectiveOut(serializers.Serializer[Any]):
    channel = serializers.IntegerField(read_only=True, allow_null=True, help_text="Null for direct messages.")
    thread = serializers.IntegerField(read_only=True, allow_null=True, help_text="Null for a whole channel.")
    place = serializers.CharField(read_only=True)
    instructions = EffectiveInstructionsOut(many=True, read_only=True, help_text="In the order that prompts have.")
    added_agents_only = serializers.BooleanField(read_only=True, help_text="Only agents that were added answer.")
    agents_origin = serializers.CharField(read_only=True, help_text="Who says which agents answer.")
    agents_url = serializers.CharField(read_only=True, allow_null=True, help_text="Path of who reads here.")
    agents = EffectiveAgentOut(many=True, read_only=True, help_text="Those that read here.")
    tools = EffectiveToolsOut(read_only=True, help_text="What the channel says of tools.")
    budgets = EffectiveBudgetOut(many=True, read_only=True)
    knowledge = EffectiveKnowledgeOut(read_only=True, allow_null=True, help_text="Null where no agent uses any.")
    memory = EffectiveMemoryOut(read_only=True)


class ChannelEffective(ApiView):
    @extend_schema(operation_id="channels_effective", responses=EffectiveOut)
    def get(self, request: Request, pk: int) -> Response:
        """What holds for agents in a channel, and why: instructions, which agents answer, what each may use, budgets,
        knowledge and memory. What the caller may not know is not in it."""
        access = request_access(request)
        return Response(EffectiveOut(effective_in(access_channel_place(access, pk), access)).data)


class ThreadEffective(ApiView):
    @extend_schema(operation_id="threads_effective", responses=EffectiveOut)
    def get(self, request: Request, pk: int) -> Response:
        """What holds for agents in a thread or a dive, and why, as `channels_effective` says it of a channel."""
        access = request_access(request)
        return Response(EffectiveOut(effective_in(access_thread_place(access, pk), access)).data)
