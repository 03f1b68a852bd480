"""Knowledge as a file, through the API: taken in with a report for every row, and given out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import IO, Any

from django.http import HttpResponseBase, StreamingHttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.parsers import BaseParser
from rest_framework.request import Request
from rest_framework.response import Response

from knowledge.api.entries import KNOWLEDGE
from knowledge.exchange import export_entries
from knowledge.importing import import_entries
from knowledge.models import Entry
from knowledge.sheets import CONTENT_TYPES, MAX_BYTES
from openvibe.api.fields import TextField
from openvibe.api.idempotency import creates
from openvibe.api.parsers import BoundedJSONParser
from openvibe.api.problems import TooLarge
from openvibe.api.views import ApiView
from openvibe.base.problems import Refused
from openvibe.workspaces.api.auth import asker


class Sheet(dict[str, str]):
    """A body that is the file itself: `form`, and `text` that turns back into the very bytes, whatever their code."""

    @property
    def raw(self) -> bytes:
        return self["text"].encode("utf-8", "surrogateescape")


class SheetParser(BaseParser):
    """Reads the body as a Sheet."""

    form = ""

    def parse(
        self, stream: IO[bytes], media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> Sheet:
        raw = stream.read(MAX_BYTES + 1)
        if len(raw) > MAX_BYTES:
            raise TooLarge(f"A file has at most {MAX_BYTES:,} bytes. Split it.")
        return Sheet(form=self.form, text=raw.decode("utf-8", "surrogateescape"))


class CsvParser(SheetParser):
    media_type = "text/csv"
    form = "csv"


class JsonlParser(SheetParser):
    media_type = "application/x-ndjson"
    form = "jsonl"


class ImportIn(serializers.Serializer[Any]):
    """A file that comes in JSON, of at most 2 MB. Larger ones are sent as the body itself."""

    form = serializers.ChoiceField(choices=["csv", "jsonl"])
    text = TextField()


class RowReportOut(serializers.Serializer[Any]):
    number = serializers.IntegerField(help_text="Its line in the file or spreadsheet, from 1.")
    outcome = serializers.ChoiceField(choices=["imported", "same", "refused"])
    why = serializers.CharField(help_text="A sentence; empty where there is nothing to say.")
    entry = serializers.IntegerField(source="entry_id", allow_null=True)


class ImportReportOut(serializers.Serializer[Any]):
    rows = RowReportOut(many=True)
    summary = serializers.CharField(help_text="Such as `3 imported, 1 there already, 2 refused`.")


class ExportAsked(serializers.Serializer[Any]):
    form = serializers.ChoiceField(choices=["csv", "jsonl"], default="csv")
    status = serializers.ChoiceField(choices=Entry.Status.choices, required=False, help_text="Left out: all.")


class Import(ApiView):
    scopes = {"POST": KNOWLEDGE}
    parser_classes = (BoundedJSONParser, CsvParser, JsonlParser)

    @extend_schema(
        operation_id="knowledge_import",
        request={
            "application/json": ImportIn,
            "text/csv": OpenApiTypes.STR,
            "application/x-ndjson": OpenApiTypes.STR,
        },
        responses=ImportReportOut,
    )
    @creates
    def post(self, request: Request) -> Response:
        """A CSV or JSONL file as the body, at most 10 MB; each row for itself. The same file twice imports once."""
        if isinstance(request.data, Sheet):
            raw, form = request.data.raw, request.data["form"]
        else:
            said = self.said(ImportIn)
            raw, form = said["text"].encode(), said["form"]
        return Response(ImportReportOut(import_entries(by=asker(request), raw=raw, form=form)).data)


class Export(ApiView):
    @extend_schema(
        operation_id="knowledge_export",
        parameters=[ExportAsked],
        responses={
            (200, "text/csv"): OpenApiResponse(OpenApiTypes.STR),
            (200, "application/x-ndjson"): OpenApiResponse(OpenApiTypes.STR),
        },
    )
    def get(self, request: Request) -> HttpResponseBase:
        """Everything the caller may read, as a file that can be imported again. People only."""
        access, asked = asker(request), self.asked(ExportAsked)
        if access.is_agent:
            raise Refused("Only people take knowledge out as a file. Search it instead.", code="people_only")
        lines = export_entries(access, asked["form"], statuses=[asked["status"]] if "status" in asked else ())
        answer = StreamingHttpResponse(lines, content_type=CONTENT_TYPES[asked["form"]])
        answer.headers["Content-Disposition"] = f'attachment; filename="knowledge.{asked["form"]}"'
        return answer
