"""Agents and their SOULs: what the API takes and gives."""

from typing import Any

from rest_framework import serializers

from agents.agent.models import MAX_PERMISSION_MINUTES, MAX_RUN_MINUTES, Agent, Effort, SoulVersion
from agents.agent.soul.rules import RULE_PLACES
from openvibe.api.fields import ChoiceField, IdField, TextField, WholeNumberField
from openvibe.workspaces.api.serializers import ParticipantOut


class AgentOut(serializers.ModelSerializer[Agent]):
    handle = serializers.CharField(source="participant.handle", read_only=True)
    name = serializers.CharField(source="participant.name", read_only=True)
    active = serializers.BooleanField(source="is_active", read_only=True)
    soul = serializers.IntegerField(
        source="soul.number", read_only=True, allow_null=True, default=None, help_text="The SOUL's newest version."
    )

    class Meta:
        model = Agent
        fields = (
            *("id", "handle", "name", "level", "active", "soul", "answers_itself", "daily_token_budget", "effort"),
            "run_minutes",
            "permission_minutes",
        )
        read_only_fields = fields


class AgentChange(serializers.Serializer[Any]):
    level = WholeNumberField(required=False, min_value=1, max_value=4, help_text="The trust level, 1 to 4.")
    note = TextField(required=False, help_text="Why this level, 1 to 300 characters: it is kept in the audit trail.")
    answers_itself = serializers.BooleanField(
        required=False, help_text="A program elsewhere writes its answers, through the API."
    )
    daily_token_budget = WholeNumberField(
        required=False, min_value=0, max_value=2_147_483_647, help_text="Tokens it may use in one day (UTC)."
    )

    effort = serializers.ChoiceField(
        required=False,
        choices=Effort.choices,
        allow_blank=True,
        help_text="How long its model may think before it answers, where it can be told. Empty: as the model does.",
    )
    run_minutes = WholeNumberField(
        required=False,
        min_value=1,
        max_value=MAX_RUN_MINUTES,
        help_text="Minutes that one answer may take where a program elsewhere writes it; then it fails.",
    )
    permission_minutes = WholeNumberField(
        required=False,
        min_value=1,
        max_value=MAX_PERMISSION_MINUTES,
        help_text="A call that it asks leave for is denied after so many.",
    )
    active = serializers.BooleanField(
        required=False,
        help_text=(
            "`false` deactivates it: it answers no more and its tokens are refused; what it said stays. `true` brings "
            "it back."
        ),
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if "level" in attrs and "note" not in attrs:
            raise serializers.ValidationError({"note": "Say why it gets this level."})
        if "note" in attrs and "level" not in attrs:
            raise serializers.ValidationError({"level": "Say which level the note is about."})
        return attrs


class AgentIn(serializers.Serializer[Any]):
    name = TextField(help_text="1 to 80 characters.")
    handle = TextField(required=False, default="", help_text="What people type after @. Empty: made from the name.")
    purpose = TextField(help_text="What it is for, in one line of at most 300 characters.")
    description = TextField(required=False, default="", help_text="What it should know about its job.")
    level = WholeNumberField(required=False, default=1, min_value=1, max_value=4, help_text="The trust level, 1 to 4.")
    channels = serializers.ListField(
        child=IdField(), required=False, default=list, max_length=500, help_text="The channels that it is in, by id."
    )
    answers_itself = serializers.BooleanField(
        required=False, default=True, help_text="A program elsewhere writes its answers, through the API."
    )


class SoulVersionOut(serializers.ModelSerializer[SoulVersion]):
    author = ParticipantOut(read_only=True, allow_null=True)
    tokens = serializers.IntegerField(source="token_count", read_only=True)

    class Meta:
        model = SoulVersion
        fields = ("number", "note", "author", "tokens", "created_at")
        read_only_fields = fields


class SoulOut(serializers.Serializer[Any]):
    """`ETag` carries the number as well: send it back as `If-Match` when saving."""

    number = serializers.IntegerField(help_text="0 before the first version.")
    source = serializers.CharField(help_text="YAML, as it was written.")  # type: ignore[assignment]  # DRF takes it off the class
    content = serializers.DictField(help_text="The same, as an object.")
    versions = SoulVersionOut(
        many=True, help_text="The newest hundred, the newest first: `number` says how many there are."
    )


class SoulIn(serializers.Serializer[Any]):
    source = TextField(max_length=200_000, help_text="YAML or JSON.")  # type: ignore[assignment]  # DRF takes it off the class
    note = TextField(help_text="What changed and why, 1 to 300 characters.")


class SoulRuleIn(serializers.Serializer[Any]):
    feedback = serializers.ListField(
        child=IdField(), min_length=1, max_length=20, help_text="Episodes: the feedback that the rule answers."
    )
    rule = TextField(
        required=False,
        default="",
        help_text="At most 2,000 characters; empty: the first feedback's own words, where everybody may read them.",
    )
    place = ChoiceField(
        choices=RULE_PLACES, default="principle", help_text="Of `rule`: a principle, or what it must never do."
    )
    note = TextField(help_text="What changed and why, 1 to 300 characters.")
