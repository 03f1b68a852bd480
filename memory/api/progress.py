"""The progress log of threads: only ever added to."""

from typing import Any

from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from memory.api.work import seen_threads
from memory.models import ProgressEntry
from memory.services.progress import log_progress
from openvibe.api.fields import IdField, TextField
from openvibe.api.idempotency import creates
from openvibe.api.views import ApiView
from openvibe.workspaces.api.auth import asker
from openvibe.workspaces.api.serializers import ParticipantOut

PARTS = ("changed", "evidence", "open_issues", "next_action")


class ProgressOut(serializers.ModelSerializer[ProgressEntry]):
    thread = serializers.IntegerField(source="thread_id", read_only=True)
    author = ParticipantOut(read_only=True)

    class Meta:
        model = ProgressEntry
        fields = ("id", "thread", "checkpoint", *PARTS, "author", "created_at")
        read_only_fields = fields


class ProgressIn(serializers.Serializer[Any]):
    thread = IdField()
    checkpoint = TextField(help_text="One line, at most 200 characters.")
    changed = TextField(required=False, default="", help_text="What changed; at most 2,000 characters, as the others.")
    evidence = TextField(required=False, default="")
    open_issues = TextField(required=False, default="")
    next_action = TextField(required=False, default="")


class ProgressAsked(serializers.Serializer[Any]):
    thread = IdField(required=False)


class Progress(ApiView):
    @extend_schema(operation_id="progress_list", parameters=[ProgressAsked], responses=ProgressOut(many=True))
    def get(self, request: Request) -> Response:
        """The log's lines in the threads the caller sees, the newest first."""
        lines = ProgressEntry.objects.filter(thread__in=seen_threads(asker(request))).select_related("author")
        return self.page(lines.filter(**self.asked(ProgressAsked)), ProgressOut)

    @extend_schema(operation_id="progress_create", request=ProgressIn, responses={201: ProgressOut})
    @creates
    def post(self, request: Request) -> Response:
        """Note where the work stands: a checkpoint, what changed, the evidence, what is open, what comes next."""
        access, said = asker(request), self.said(ProgressIn)
        thread = get_object_or_404(seen_threads(access), pk=said.pop("thread"))
        entry = log_progress(thread=thread, by=access, **said)
        entry.refresh_from_db()
        return Response(ProgressOut(entry).data, status=201)
