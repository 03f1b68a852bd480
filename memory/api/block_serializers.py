"""Context blocks and profile notes: what the API takes and gives."""

from typing import Any

from rest_framework import serializers

from memory.models import BLOCK_TOKEN_LIMIT
from openvibe.api.fields import IdField, TextField


class AgentAsked(serializers.Serializer[Any]):
    agent = serializers.CharField(
        required=False, max_length=40, help_text="Whose blocks: a handle. People say it; an agent means itself."
    )


class BlockOut(serializers.Serializer[Any]):
    label = serializers.CharField()  # type: ignore[assignment]  # a field has an attribute of this name
    description = serializers.CharField()
    content = serializers.CharField()
    tokens = serializers.IntegerField(help_text="Tokens of the content (o200k_base).")
    max_tokens = serializers.IntegerField(help_text="The most the content may have.")
    readonly = serializers.BooleanField()
    version = serializers.IntegerField(help_text="0: predefined, and not written yet.")
    etag = serializers.CharField(source="stamp", help_text="For If-Match, in quotes.")


class BlocksOut(serializers.Serializer[Any]):
    results = BlockOut(many=True)


class BlockChange(serializers.Serializer[Any]):
    """What is left out of a change stays as it is."""

    content = TextField(help_text="At most `max_tokens` tokens.")
    description = TextField(required=False, help_text="At most 300 characters.")
    max_tokens = serializers.IntegerField(
        required=False, min_value=1, max_value=BLOCK_TOKEN_LIMIT, help_text="Only admins set it."
    )
    readonly = serializers.BooleanField(
        required=False, allow_null=True, default=None, help_text="Only admins set it. Left out: as it is."
    )


class BlockIn(BlockChange):
    label = serializers.CharField(  # type: ignore[assignment]  # a field has an attribute of this name
        max_length=40, help_text="a–z, 0–9, _ and -, beginning with a letter."
    )
    content = TextField(required=False, default="", help_text="At most `max_tokens` tokens.")


class AppendIn(serializers.Serializer[Any]):
    content = TextField(help_text="Added at the end, after a newline.")


class BlockToolOut(serializers.Serializer[Any]):
    name = serializers.CharField()
    description = serializers.CharField()
    parameters = serializers.DictField(help_text="JSON schema of the arguments.")


class ToolsOut(serializers.Serializer[Any]):
    tools = BlockToolOut(many=True, help_text="Empty when no block may be written.")


class BlocksText(serializers.Serializer[Any]):
    text = serializers.CharField(help_text="Empty when no block says anything.")


class NotesAsked(AgentAsked):
    person = serializers.CharField(required=False, max_length=40, help_text="About whom: a member's handle.")
    thread = IdField(required=False, help_text="Instead: whoever spoke last in this thread.")


class NotesOut(serializers.Serializer[Any]):
    agent = serializers.CharField()
    person = serializers.CharField()
    text = serializers.CharField()
    tokens = serializers.IntegerField(help_text="Tokens of the text (o200k_base).")
    max_tokens = serializers.IntegerField()
    version = serializers.IntegerField(help_text="0: nothing noted yet.")


class NotesIn(serializers.Serializer[Any]):
    text = TextField(help_text="The notes, whole; empty clears them.")
