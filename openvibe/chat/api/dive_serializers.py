"""Dives and their results: what the API takes and gives."""

from typing import Any

from rest_framework import serializers

from openvibe.api.fields import IdField, TextField
from openvibe.chat.models import Dive, DiveResult
from openvibe.workspaces.api.serializers import ParticipantOut

FULL = "Markdown, at most 100,000 characters."


class ResultOut(serializers.ModelSerializer[DiveResult]):
    message = serializers.IntegerField(source="message_id", read_only=True, help_text="The card in the thread.")
    bullets = serializers.ListField(child=serializers.CharField(), read_only=True)
    deferred = serializers.ListField(child=serializers.CharField(), read_only=True)
    questions = serializers.ListField(child=serializers.CharField(), read_only=True)
    published_by = ParticipantOut(read_only=True)

    class Meta:
        model = DiveResult
        fields = (
            "message", "headline", "bullets", "full", "full_tokens", "deferred", "questions", "published_by",
            "published_at",
        )  # fmt: skip
        read_only_fields = fields


class DiveOut(serializers.ModelSerializer[Dive]):
    """`thread` is the dive's own: read and write there. `parent` is where it started and where its result stands."""

    thread = serializers.IntegerField(source="thread_id", read_only=True)
    parent = serializers.IntegerField(  # type: ignore[assignment]  # DRF takes it off the class
        source="parent_id", read_only=True
    )
    message = serializers.IntegerField(source="source_id", read_only=True, help_text="What it started from.")
    agent = ParticipantOut(read_only=True)
    started_by = ParticipantOut(read_only=True)
    ended_by = ParticipantOut(read_only=True, allow_null=True, help_text="Who published or discarded it.")
    result = ResultOut(
        source="result.dive_result", read_only=True, allow_null=True, default=None,
        help_text="Once published; null again when its message was deleted.",
    )  # fmt: skip

    class Meta:
        model = Dive
        fields = (
            "id", "thread", "parent", "message", "agent", "started_by", "state", "result", "created_at", "ended_at",
            "ended_by",
        )  # fmt: skip
        read_only_fields = fields


class DivesAsked(serializers.Serializer[Any]):
    thread = IdField(required=False, help_text="Only dives that started in this thread.")
    state = serializers.ChoiceField(choices=Dive.State.choices, required=False)


class DiveIn(serializers.Serializer[Any]):
    message = IdField(help_text="The message to start from; of a result, to dive deeper.")
    agent = serializers.CharField(max_length=40, help_text="The handle of the agent to dive with.")
    body = TextField(required=False, default="", help_text="What you ask first; the agent answers it.")
    client_id = TextField(
        required=False, default="", help_text="Your own key: the same key is the same dive, returned again."
    )


class DraftParts(serializers.Serializer[Any]):
    headline = serializers.CharField(read_only=True)
    bullets = serializers.ListField(child=serializers.CharField(), read_only=True)
    full = serializers.CharField(read_only=True)
    deferred = serializers.ListField(child=serializers.CharField(), read_only=True)
    questions = serializers.ListField(child=serializers.CharField(), read_only=True)


class DraftOut(serializers.Serializer[Any]):
    asked = serializers.IntegerField(
        read_only=True, allow_null=True, help_text="The seq, in the dive, of the message that asked for it."
    )
    draft = DraftParts(read_only=True, allow_null=True)
    is_picked = serializers.BooleanField(
        read_only=True, help_text="The reply was not in the form of a result: these are sentences picked from it."
    )


class ResultIn(serializers.Serializer[Any]):
    headline = TextField(help_text="One line of 1 to 120 characters.")
    bullets = serializers.ListField(child=TextField(), max_length=100, help_text="3 to 5 key points.")
    full = TextField(required=False, default="", help_text=FULL)
    deferred = serializers.ListField(
        child=TextField(), max_length=100, required=False, default=list, help_text="At most 2: what was put off."
    )
    questions = serializers.ListField(
        child=TextField(), max_length=100, required=False, default=list, help_text="At most 2: what stays open."
    )
