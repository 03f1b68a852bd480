"""Emoji on messages: serializers and endpoints."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from openvibe.api.fields import TextField
from openvibe.api.views import ApiView
from openvibe.chat import queries, services
from openvibe.chat.models import Reaction
from openvibe.workspaces.api.serializers import ParticipantOut
from openvibe.workspaces.decorators import request_access

EMOJI_HELP = "One emoji, or its name as in `:tada:`. It is kept in its fully qualified form."


class ReactionOut(serializers.ModelSerializer[Reaction]):
    participant = ParticipantOut(read_only=True)

    class Meta:
        model = Reaction
        fields = ("id", "emoji", "participant", "created_at")
        read_only_fields = fields


class ReactionIn(serializers.Serializer[Any]):
    emoji = TextField(help_text=EMOJI_HELP)


class Reactions(ApiView):
    page_order = "id"

    @extend_schema(operation_id="reactions_list", responses=ReactionOut(many=True))
    def get(self, request: Request, pk: int) -> Response:
        """Who put which emoji on a message, the first first."""
        message = queries.access_message(request_access(request), pk)
        return self.paginated_response(message.reactions.select_related("participant"), ReactionOut)

    @extend_schema(operation_id="reactions_add", request=ReactionIn, responses={201: ReactionOut})
    def post(self, request: Request, pk: int) -> Response:
        """Put an emoji on a message; twice is once. At most 20 different ones on a message. It is not feedback: no
        prompt holds it."""
        access = request_access(request)
        message, data = queries.access_message(access, pk), self.validated_body(ReactionIn)
        reaction = services.add_reaction(message=message, by=access, **data)
        return Response(ReactionOut(reaction).data, status=201)

    @extend_schema(operation_id="reactions_remove", parameters=[ReactionIn], responses={204: None})
    def delete(self, request: Request, pk: int) -> Response:
        """Take one's own emoji away; one that is not there is none."""
        access = request_access(request)
        message, params = queries.access_message(access, pk), self.validated_query(ReactionIn)
        services.remove_reaction(message=message, by=access, **params)
        return Response(status=204)
