"""Feedback and episodes: what the API takes and gives."""

from typing import Any

from rest_framework import serializers

from memory.models import Episode, Feedback
from openvibe.api.fields import IdField, TextField


class FeedbackOut(serializers.ModelSerializer[Feedback]):
    message = serializers.IntegerField(source="message_id", read_only=True)
    tags = serializers.ListField(child=serializers.CharField(), read_only=True)

    class Meta:
        model = Feedback
        fields = ("id", "message", "verdict", "text", "tags", "created_at", "updated_at")
        read_only_fields = fields


class FeedbackIn(serializers.Serializer[Any]):
    message = IdField(help_text="A message an agent wrote.")
    verdict = serializers.ChoiceField(choices=Feedback.Verdict.choices)
    text = TextField(required=False, default="", help_text="At most 2,000 characters.")
    tags = serializers.ListField(
        child=serializers.ChoiceField(choices=Feedback.Tag.choices), required=False, default=list, max_length=10
    )


class EpisodeOut(serializers.ModelSerializer[Episode]):
    agent = serializers.CharField(source="agent.handle", read_only=True)
    thread = serializers.IntegerField(source="thread_id", read_only=True, allow_null=True)
    message = serializers.SerializerMethodField(help_text="The message the feedback was about.")

    class Meta:
        model = Episode
        fields = (
            "id", "agent", "kind", "summary", "learning", "thread", "message", "created_at", "expires_at",
            "prompt_count", "applied_at", "applied_how",
        )  # fmt: skip
        read_only_fields = fields

    def get_message(self, episode: Episode) -> int | None:
        return episode.feedback.message_id if episode.feedback else None


class EpisodesAsked(serializers.Serializer[Any]):
    agent = serializers.CharField(required=False, max_length=40, help_text="A handle; for admins.")
    kind = serializers.ChoiceField(choices=Episode.Kind.choices, required=False)
    open = serializers.BooleanField(required=False, default=False, help_text="Only feedback not yet applied.")
