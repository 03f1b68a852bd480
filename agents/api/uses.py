"""Where an entry of knowledge was used."""

from typing import Any

from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from agents.models import KnowledgeUse, Run
from agents.usage import uses_of
from knowledge.api.rows import entries_of
from openvibe.api.views import ApiView
from openvibe.workspaces.api.auth import asker


class UseOut(serializers.ModelSerializer[KnowledgeUse]):
    run = serializers.IntegerField(source="run_id", read_only=True)
    agent = serializers.CharField(source="run.agent.handle", read_only=True)
    task = serializers.ChoiceField(source="run.task", choices=Run.Task.choices, read_only=True)
    thread = serializers.IntegerField(source="run.thread_id", read_only=True)
    how: Any = serializers.ChoiceField(choices=["prompt", "tool"], read_only=True)

    class Meta:
        model = KnowledgeUse
        fields = ("id", "run", "agent", "task", "thread", "how", "created_at")
        read_only_fields = fields


class EntryUses(ApiView):
    @extend_schema(operation_id="knowledge_uses", responses=UseOut(many=True))
    def get(self, request: Request, pk: int) -> Response:
        """Runs that had the entry before them, in threads the caller sees, the newest first; an agent gets its own."""
        access = asker(request)
        return self.page(uses_of(get_object_or_404(entries_of(access), pk=pk), access), UseOut)
