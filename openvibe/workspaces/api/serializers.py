"""People and tokens, as the API gives them."""

from typing import Any

from rest_framework import serializers

from openvibe.api.fields import ChoiceField, TextField, WholeNumberField
from openvibe.api.models import SCOPES, Token
from openvibe.base.models import AuditRecord
from openvibe.engines.text.cleaning import text_version
from openvibe.workspaces.models import Participant, Snippet, Workspace


class ParticipantOut(serializers.ModelSerializer[Participant]):
    avatar_url = serializers.CharField(
        allow_null=True, help_text="Path of their picture, for signed-in members; another one once it changes."
    )

    class Meta:
        model = Participant
        fields = ("id", "kind", "handle", "name", "avatar_url")
        read_only_fields = fields

    def to_representation(self, instance: Participant) -> dict[str, Any]:
        # As the fields have it, without asking each of them: lists have one for every row.
        return {
            "id": instance.pk,
            "kind": instance.kind,
            "handle": instance.handle,
            "name": instance.name,
            "avatar_url": instance.avatar_url,
        }


class WorkspaceOut(serializers.ModelSerializer[Workspace]):
    class Meta:
        model = Workspace
        fields = ("id", "slug", "name", "description")
        read_only_fields = fields


class AuditQuery(serializers.Serializer[Any]):
    who = serializers.CharField(required=False, max_length=80, help_text="Part of a name or handle.")
    what = ChoiceField(required=False, choices=AuditRecord.Action.choices)
    since = serializers.DateField(required=False, help_text="The first day shown, in UTC.")
    until = serializers.DateField(required=False, help_text="The last day shown, in UTC.")


class AuditOut(serializers.ModelSerializer[AuditRecord]):
    class Meta:
        model = AuditRecord
        fields = ("id", "created_at", "action", "actor_id", "actor", "subject", "before", "after", "note")
        read_only_fields = fields


class TokenOut(serializers.ModelSerializer[Token]):
    scopes = serializers.ListField(child=ChoiceField(choices=SCOPES))
    made_by_id = serializers.IntegerField(
        allow_null=True, help_text="The participant who holds its secret; null: whoever runs the server."
    )

    class Meta:
        model = Token
        fields = (
            "id",
            "name",
            "hint",
            "scopes",
            "made_by_id",
            "created_at",
            "expires_at",
            "revoked_at",
            "last_used_at",
        )
        read_only_fields = fields


class NewTokenOut(TokenOut):
    secret = serializers.CharField(help_text="Shown in this answer only.")

    class Meta:
        model = Token
        fields = (*TokenOut.Meta.fields, "secret")
        read_only_fields = fields


class TokenIn(serializers.Serializer[Any]):
    name = TextField(help_text="What the token is for, 1 to 80 characters.")
    scopes = serializers.ListField(child=serializers.CharField(max_length=20), max_length=10)
    days = WholeNumberField(
        required=False, allow_null=True, help_text="Days until it expires, 1 to 366; never when left out."
    )


class LimitsOut(serializers.Serializer[Any]):
    calls_per_minute = serializers.IntegerField()
    page_rows = serializers.IntegerField()


class MeOut(serializers.Serializer[Any]):
    participant = ParticipantOut()
    workspace = WorkspaceOut()
    role = serializers.CharField(allow_null=True, help_text="Of a member: owner, admin, member or guest.")
    level = serializers.IntegerField(allow_null=True, help_text="Of an agent: its trust level, 1 to 4.")
    scopes = serializers.ListField(child=serializers.CharField())
    token = TokenOut(allow_null=True, help_text="The token of this call; null in a browser session.")
    limits = LimitsOut()
    version = serializers.CharField(help_text="Of OpenVibe.")


class WorkspaceSettingsOut(WorkspaceOut):
    instructions = serializers.SerializerMethodField(help_text="What all agents are told; null for guests.")
    instructions_version = serializers.SerializerMethodField(help_text="Of that text; null for guests.")

    class Meta:
        model = Workspace
        fields = (*WorkspaceOut.Meta.fields, "instructions", "instructions_version")
        read_only_fields = fields

    def get_instructions(self, workspace: Workspace) -> str | None:
        return None if self.context["access"].is_guest else workspace.instructions

    def get_instructions_version(self, workspace: Workspace) -> str | None:
        return None if self.context["access"].is_guest else text_version(workspace.instructions)


class WorkspaceChange(serializers.Serializer[Any]):
    name = TextField(required=False, help_text="1 to 80 characters.")
    description = TextField(required=False, help_text="At most 1,000 characters.")
    instructions = TextField(required=False, help_text="What all agents are told, at most 2,000 tokens.")
    instructions_version = serializers.CharField(
        required=False,
        max_length=40,
        help_text="The one that was read with them: 409 `changed_meanwhile` where another text stands there now.",
    )


class SnippetOut(serializers.ModelSerializer[Snippet]):
    content = serializers.CharField(source="text", read_only=True)
    changed_by = ParticipantOut(allow_null=True)

    class Meta:
        model = Snippet
        fields = ("id", "name", "content", "version", "changed_by", "created_at", "updated_at")
        read_only_fields = fields


class SnippetIn(serializers.Serializer[Any]):
    name = TextField(help_text="What follows @include: 1 to 40 of a-z, 0-9, - and _.")
    content = TextField(source="text", help_text="At most 2,000 tokens, with what it includes.")


class SnippetChange(serializers.Serializer[Any]):
    content = TextField(source="text", help_text="At most 2,000 tokens, with what it includes.")
