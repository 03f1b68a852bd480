"""Imports of conversations: serializers and endpoints, for owners and admins."""

from typing import Any

from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiResponse, extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.parsers import MultiPartParser
from rest_framework.request import Request
from rest_framework.response import Response

from openvibe.api.fields import ChoiceField
from openvibe.api.idempotency import IDEMPOTENCY_PARAMETER, idempotent
from openvibe.api.views import ApiView
from openvibe.chat import queries, services
from openvibe.chat.importing.account import account_csv, load_account
from openvibe.chat.importing.formats import FORMATS
from openvibe.chat.models import ConversationImport
from openvibe.chat.tasks import enqueue_import_on_commit
from openvibe.workspaces.decorators import request_access


class ImportUpload(serializers.Serializer[Any]):
    """A file, as `multipart/form-data`."""

    file = serializers.FileField(
        help_text="An export of Slack (zip) or Mattermost, chats of ChatGPT, Claude or Open WebUI, a session of Claude "
        "Code, JSONL or QMSum; at most 25 MB."
    )
    format = ChoiceField(choices=list(FORMATS), required=False, help_text="Left out, it is guessed from the file.")
    channel = serializers.IntegerField(
        required=False, help_text="The channel that all of it goes into; left out, each channel of the export is one."
    )


class KindTotalOut(serializers.Serializer[Any]):
    kind = serializers.CharField(help_text="message, person, channel, file, reaction, pin, canvas or record.")
    read = serializers.IntegerField(help_text="How many the file holds: `imported` and `left_out` together.")
    imported = serializers.IntegerField(help_text="How many are here now.")
    present = serializers.IntegerField(help_text="How many of the imported were here before.")
    left_out = serializers.IntegerField(help_text="How many are not here.")


class LeftOutOut(serializers.Serializer[Any]):
    kind = serializers.CharField(help_text="The kind of record.")
    reason = serializers.CharField(help_text="Why, in words.")
    count = serializers.IntegerField(help_text="How many for this reason.")
    places = serializers.ListField(child=serializers.CharField(), help_text="Where the first three stand in the file.")


class ConversationImportOut(serializers.ModelSerializer[ConversationImport]):
    by = serializers.CharField(
        source="requested_by.handle", default=None, allow_null=True, read_only=True, help_text="Who asked for it."
    )
    channel = serializers.IntegerField(
        source="channel_id", read_only=True, allow_null=True, help_text="Where all of it goes; null: one for each."
    )
    kinds = serializers.SerializerMethodField(help_text="How many of each kind were read; empty until it ends.")
    left_out = serializers.SerializerMethodField(help_text="What was left out, by kind and reason.")

    class Meta:
        model = ConversationImport
        fields = (
            *("id", "state", "error", "file_name", "format", "size", "channel", "by", "read", "written", "threads"),
            *("queued_at", "started_at", "finished_at", "kinds", "left_out"),
        )
        read_only_fields = fields

    @extend_schema_field(KindTotalOut(many=True))
    def get_kinds(self, job: ConversationImport) -> Any:
        return KindTotalOut(load_account(job.account)[0], many=True).data

    @extend_schema_field(LeftOutOut(many=True))
    def get_left_out(self, job: ConversationImport) -> Any:
        return LeftOutOut(load_account(job.account)[1], many=True).data


class Imports(ApiView):
    parser_classes = (MultiPartParser,)

    @extend_schema(operation_id="imports_list", responses=ConversationImportOut(many=True))
    def get(self, request: Request) -> Response:
        """Imports of conversations with their accounts, newest first: owners and admins."""
        rows = services.visible_imports(request_access(request))
        return self.paginated_response(rows, ConversationImportOut)

    @extend_schema(
        operation_id="imports_create",
        request={"multipart/form-data": ImportUpload},
        parameters=[IDEMPOTENCY_PARAMETER],
        responses={202: ConversationImportOut},
    )
    @idempotent
    def post(self, request: Request) -> Response:
        """Bring conversations in from a file: owners and admins. A worker reads it; ask for it by its id until `state`
        is `done` or `failed`. The same file twice adds nothing twice."""
        access, data = request_access(request), self.validated_body(ImportUpload)
        services.check_may_import(access)
        channel_id = data.get("channel")
        job = services.request_import(
            by=access,
            chunks=data["file"].chunks(),
            file_name=data["file"].name or "",
            form=data.get("format", ""),
            channel=queries.access_channel(access, channel_id) if channel_id is not None else None,
        )
        enqueue_import_on_commit(job.pk)
        return Response(ConversationImportOut(services.access_import(access, job.pk)).data, status=202)


class OneImport(ApiView):
    @extend_schema(operation_id="imports_get", responses=ConversationImportOut)
    def get(self, request: Request, pk: int) -> Response:
        """One import: how far it is, and its account once it has ended."""
        return Response(ConversationImportOut(services.access_import(request_access(request), pk)).data)


class ImportAccount(ApiView):
    @extend_schema(operation_id="imports_account", responses={(200, "text/csv"): OpenApiResponse(OpenApiTypes.STR)})
    def get(self, request: Request, pk: int) -> HttpResponse:
        """The account of an import as a table."""
        job = services.access_import(request_access(request), pk)
        response = HttpResponse(account_csv(job.account), content_type="text/csv; charset=utf-8")
        response.headers["Content-Disposition"] = f'attachment; filename="import-{job.pk}-account.csv"'
        return response


class ImportNotes(ApiView):
    @extend_schema(operation_id="imports_dismiss_notes", responses={204: None})
    def delete(self, request: Request) -> Response:
        """Put away what the caller's inbox says of imports so far. People only."""
        services.dismiss_import_notes(request_access(request))
        return Response(status=204)
