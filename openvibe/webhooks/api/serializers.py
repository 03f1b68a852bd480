"""What webhooks' endpoints take and give."""

from typing import Any

from rest_framework import serializers

from openvibe.api.fields import ChoiceField, TextField
from openvibe.webhooks.models import KINDS, MAX_PENDING, SECRET_OVERLAP, Delivery, Webhook
from openvibe.workspaces.api.serializers import ParticipantOut


class WebhookOut(serializers.ModelSerializer[Webhook]):
    participant = ParticipantOut(help_text="Who sees what it is told: an agent, or the admin who made it.")
    url = serializers.CharField(
        read_only=True,
        source="masked_url",
        help_text="How it begins, and … for the rest, which may be a secret. Sent back, it is the same.",
    )
    kinds = serializers.ListField(child=ChoiceField(choices=KINDS))
    pending = serializers.IntegerField(
        read_only=True,
        help_text=f"Deliveries that wait, about {MAX_PENDING:,} at most: what comes after waits in the event stream.",
    )
    oldest_pending_at = serializers.DateTimeField(
        read_only=True, allow_null=True, help_text="Since when the oldest of them waits; null when none does."
    )

    class Meta:
        model = Webhook
        fields = (
            "id",
            "participant",
            "url",
            "kinds",
            "state",
            "reason",
            "failing_since",
            "next_attempt_at",
            "pending",
            "oldest_pending_at",
            "created_at",
            "updated_at",
        )
        read_only_fields = fields


class NewWebhookOut(WebhookOut):
    secret = serializers.CharField(help_text="Shown in this answer only.")

    class Meta:
        model = Webhook
        fields = (*WebhookOut.Meta.fields, "secret")
        read_only_fields = fields


class ChangedWebhookOut(WebhookOut):
    secret = serializers.CharField(
        help_text="A new one, in this answer only, where the one before was made before Standard Webhooks; else empty."
    )

    class Meta:
        model = Webhook
        fields = (*WebhookOut.Meta.fields, "secret")
        read_only_fields = fields


class WebhookSecretOut(serializers.Serializer[Any]):
    secret = serializers.CharField(
        help_text="Shown in this answer only. Deliveries are signed with the one before, too, for "
        f"{SECRET_OVERLAP.total_seconds() / 3600:.0f} hours."
    )


class WebhookIn(serializers.Serializer[Any]):
    url = TextField(help_text="Where deliveries are posted, at most 500 characters; no redirect is followed.")
    kinds = serializers.ListField(child=serializers.CharField(max_length=40), max_length=20)
    agent = serializers.CharField(
        required=False, max_length=40, help_text="The handle of the agent whose eyes it has; left out, the caller's."
    )


class WebhookChange(serializers.Serializer[Any]):
    url = TextField(required=False)
    kinds = serializers.ListField(child=serializers.CharField(max_length=40), max_length=20, required=False)
    paused = serializers.BooleanField(required=False)


class DeliveryOut(serializers.ModelSerializer[Delivery]):
    class Meta:
        model = Delivery
        fields = (
            "id",
            "uid",
            "position",
            "kind",
            "state",
            "attempts",
            "status",
            "response",
            "error",
            "milliseconds",
            "attempted_at",
            "created_at",
        )
        read_only_fields = fields
