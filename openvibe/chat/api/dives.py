"""Dives and their results: serializers and endpoints."""

from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from openvibe.api.fields import ChoiceField, IdField, TextField
from openvibe.api.idempotency import idempotent
from openvibe.api.views import ApiView
from openvibe.chat import queries, services
from openvibe.chat.api.message_serializers import MessageOut
from openvibe.chat.api.views import agents_by_handle
from openvibe.chat.models import Dive, DiveResult
from openvibe.engines.llm.offline.drafts import ResultDraft
from openvibe.workspaces.access import Access
from openvibe.workspaces.api.serializers import ParticipantOut
from openvibe.workspaces.decorators import request_access


class ResultOut(serializers.ModelSerializer[DiveResult]):
    message = serializers.IntegerField(source="message_id", read_only=True, help_text="The card in the thread.")
    body = serializers.CharField(source="full", read_only=True, help_text="Markdown.")
    tokens = serializers.IntegerField(source="full_tokens", read_only=True, help_text="Of the body (o200k_base).")
    published_by = ParticipantOut(read_only=True)

    class Meta:
        model = DiveResult
        fields = (
            "message",
            "headline",
            "bullets",
            "body",
            "tokens",
            "deferred",
            "questions",
            "published_by",
            "published_at",
        )
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
        source="result.dive_result",
        read_only=True,
        allow_null=True,
        default=None,
        help_text="Once published; null again when its message was deleted.",
    )

    class Meta:
        model = Dive
        fields = (
            "id",
            "thread",
            "parent",
            "message",
            "agent",
            "started_by",
            "state",
            "result",
            "created_at",
            "ended_at",
            "ended_by",
        )
        read_only_fields = fields


class DivesParams(serializers.Serializer[Any]):
    thread = IdField(required=False, help_text="Only dives that started in this thread.")
    state = ChoiceField(choices=Dive.State.choices, required=False)


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
    body = serializers.CharField(source="full", read_only=True)
    deferred = serializers.ListField(child=serializers.CharField(), read_only=True)
    questions = serializers.ListField(child=serializers.CharField(), read_only=True)


class DraftOut(serializers.Serializer[Any]):
    asked = serializers.IntegerField(
        source="request_seq",
        read_only=True,
        allow_null=True,
        help_text="The seq, in the dive, of the message that asked for it.",
    )
    draft = DraftParts(read_only=True, allow_null=True)
    is_picked = serializers.BooleanField(
        source="is_extracted",
        read_only=True,
        help_text="The reply was not in the form of a result: these are sentences picked from it.",
    )


class ResultIn(serializers.Serializer[Any]):
    headline = TextField(help_text="One line of 1 to 120 characters.")
    bullets = serializers.ListField(child=TextField(), max_length=100, help_text="3 to 5 key points.")
    body = TextField(source="full", required=False, default="", help_text="Markdown, at most 100,000 characters.")
    deferred = serializers.ListField(
        child=TextField(), max_length=100, required=False, default=list, help_text="At most 2: what was put off."
    )
    questions = serializers.ListField(
        child=TextField(), max_length=100, required=False, default=list, help_text="At most 2: what stays open."
    )


def dive_data(pk: int, access: Access) -> dict[str, object]:
    return dict(DiveOut(queries.access_dive(access, pk)).data)


class Dives(ApiView):
    @extend_schema(operation_id="dives_list", parameters=[DivesParams], responses=DiveOut(many=True))
    def get(self, request: Request) -> Response:
        """Dives from the threads the caller sees, newest first. Agents below L2 see none."""
        params = self.validated_query(DivesParams)
        dives: QuerySet[Dive] = Dive.objects.visible_to(request_access(request))
        dives = dives.select_related("agent", "started_by", "ended_by", "result__dive_result__published_by")
        if "thread" in params:
            dives = dives.filter(parent_id=params["thread"])
        return self.paginated_response(dives.filter(state=params["state"]) if "state" in params else dives, DiveOut)

    @extend_schema(operation_id="dives_create", request=DiveIn, responses={201: DiveOut})
    @idempotent
    def post(self, request: Request) -> Response:
        """Start a dive from a message, with an agent. People only; at most 7 active ones in a thread."""
        access, data = request_access(request), self.validated_body(DiveIn)
        source = queries.access_message(access, data.pop("message"))
        (agent,) = agents_by_handle([data.pop("agent")], access, field="agent")
        dive = services.start_dive(source=source, by=access, agent=agent, **data)
        return Response(dive_data(dive.pk, access), status=201)


class OneDive(ApiView):
    @extend_schema(operation_id="dives_get", responses=DiveOut)
    def get(self, request: Request, pk: int) -> Response:
        """One dive, with its result once it is published."""
        return Response(dive_data(pk, request_access(request)))


class DiveDraft(ApiView):
    @extend_schema(operation_id="dives_get_draft", responses=DraftOut)
    def get(self, request: Request, pk: int) -> Response:
        """What the agent drafted, in its parts; `draft` is null while nobody asked or the agent has not answered."""
        return Response(DraftOut(queries.newest_agent_draft(queries.access_dive(request_access(request), pk))).data)

    @extend_schema(operation_id="dives_request_draft", request=None, responses={202: MessageOut})
    @idempotent
    def post(self, request: Request, pk: int) -> Response:
        """Have the dive's agent draft the result; its next reply in the dive is the draft. The starter and admins."""
        access = request_access(request)
        message = services.request_draft(dive=queries.access_dive(access, pk), by=access)
        return Response(MessageOut(queries.access_message(access, message.pk)).data, status=202)


class Publish(ApiView):
    @extend_schema(operation_id="dives_publish", request=ResultIn, responses={201: DiveOut})
    @idempotent
    def post(self, request: Request, pk: int) -> Response:
        """Post the result in the thread the dive started in, and end the dive. The starter and admins."""
        access, data = request_access(request), self.validated_body(ResultIn)
        parts: dict[str, Any] = {name: tuple(part) if isinstance(part, list) else part for name, part in data.items()}
        services.publish_dive(dive=queries.access_dive(access, pk), by=access, result=ResultDraft(**parts))
        return Response(dive_data(pk, access), status=201)


class Discard(ApiView):
    @extend_schema(operation_id="dives_discard", request=None, responses=DiveOut)
    def post(self, request: Request, pk: int) -> Response:
        """End the dive without a result. The starter and admins; twice is once."""
        access = request_access(request)
        services.discard_dive(dive=queries.access_dive(access, pk), by=access)
        return Response(dive_data(pk, access))
