"""Looking things up in what is known: the index of topics."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from knowledge.api.rows import entries_of
from knowledge.api.serializers import IndexOut
from knowledge.topics import topics_by_kind
from openvibe.api.views import ApiView
from openvibe.workspaces.api.auth import asker


class Index(ApiView):
    @extend_schema(operation_id="knowledge_index", responses=IndexOut)
    def get(self, request: Request) -> Response:
        """The topics of what holds, by kind: facts, decisions, policies, runbooks, schemas, plans, known gaps."""
        kinds, is_whole = topics_by_kind(entries_of(asker(request)).holding())  # type: ignore[attr-defined]
        return Response(IndexOut({"results": kinds, "is_whole": is_whole}).data)
