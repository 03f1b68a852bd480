"""Messages that a person saved: serializer and endpoints."""

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from openvibe.api.fields import utc_text
from openvibe.api.views import ApiView
from openvibe.chat import queries, services
from openvibe.chat.api.message_serializers import FoundOut
from openvibe.chat.models import Message
from openvibe.workspaces.decorators import request_access


class SavedOut(FoundOut):
    saved_at = serializers.DateTimeField(read_only=True)

    class Meta:
        model = Message
        fields = (*FoundOut.Meta.fields, "saved_at")
        read_only_fields = fields
        list_serializer_class = FoundOut.Meta.list_serializer_class

    def to_representation(self, instance: Message) -> dict[str, object]:
        return {**super().to_representation(instance), "saved_at": utc_text(vars(instance)["saved_at"])}


class SavedMessages(ApiView):
    page_order = "-saved_id"

    @extend_schema(operation_id="saved_list", responses=SavedOut(many=True))
    def get(self, request: Request) -> Response:
        """Messages the caller saved and may still see, the last saved first. People only."""
        access = request_access(request)
        services.check_saves(access)
        messages = queries.saved_messages(access).select_related("thread")
        return self.paginated_response(queries.with_authors_and_mentions(messages), SavedOut)


class SaveMessage(ApiView):
    @extend_schema(operation_id="saved_add", request=None, responses={204: None})
    def put(self, request: Request, pk: int) -> Response:
        """Save a message for oneself; twice is once. Nobody else is told."""
        access = request_access(request)
        services.save_message(message=queries.access_message(access, pk), by=access)
        return Response(status=204)

    @extend_schema(operation_id="saved_remove", responses={204: None})
    def delete(self, request: Request, pk: int) -> Response:
        """Save it no longer; one that is not saved is none."""
        access = request_access(request)
        services.unsave_message(message=queries.access_message(access, pk), by=access)
        return Response(status=204)
