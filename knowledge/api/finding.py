"""Looking things up in what is known: search, entries like a text, the index of topics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from knowledge.api.rows import entries_of, for_answers
from knowledge.api.serializers import FoundEntriesOut, IndexOut, SearchAsked, SimilarIn, SimilarOut
from knowledge.finding import FoundEntry, find_entries, similar_entries
from knowledge.topics import topics_by_kind
from openvibe.api.views import ApiView
from openvibe.workspaces.access import Access
from openvibe.workspaces.api.auth import asker
from openvibe.workspaces.models import Participant


class Search(ApiView):
    @extend_schema(operation_id="knowledge_search", parameters=[SearchAsked], responses=FoundEntriesOut)
    def get(self, request: Request) -> Response:
        """The entries that bear on a question, as prompts find them. `status` and `freshness` are for people: agents
        get what could stand in their prompts."""
        access, asked = asker(request), self.asked(SearchAsked)
        question, handle = asked.pop("q"), asked.pop("owner", None)
        if handle is not None:
            people = Participant.objects.filter(workspace_id=access.workspace_id, handle=handle.lstrip("@"))
            asked["owner_id"] = people.values_list("pk", flat=True).first() or -1  # nobody's: finds nothing
        found = find_entries(access, question, **asked)
        rows = _rows(found.hits, access)
        tokens = sum(row["entry"].tokens for row in rows)
        told = bool(rows) or not access.is_agent  # nothing found is all an agent learns of what it may not be given
        answer = {
            "results": rows, "tokens": tokens,
            "by_words": told and found.by_words, "by_vectors": told and found.by_vectors,
        }  # fmt: skip
        return Response(FoundEntriesOut(answer).data)


class Similar(ApiView):
    scopes = {"POST": "read"}

    @extend_schema(operation_id="knowledge_similar", request=SimilarIn, responses=SimilarOut)
    def post(self, request: Request) -> Response:
        """The entries that hold and are most like a text, such as one that is about to be written. Writes nothing."""
        access, said = asker(request), self.said(SimilarIn)
        hits = similar_entries(access, said["text"], most=said["most"], without=said.get("without"))
        return Response(SimilarOut({"results": _rows(hits, access)}).data)


class Index(ApiView):
    @extend_schema(operation_id="knowledge_index", responses=IndexOut)
    def get(self, request: Request) -> Response:
        """The topics of what holds, by kind: facts, decisions, policies, runbooks, schemas, plans, known gaps."""
        kinds, is_whole = topics_by_kind(entries_of(asker(request)).holding())
        return Response(IndexOut({"results": kinds, "is_whole": is_whole}).data)


def _rows(hits: Sequence[FoundEntry], access: Access) -> list[dict[str, Any]]:
    """What was found, as answers show it; agents get what holds only. One query."""
    found = for_answers(entries_of(access).filter(pk__in=[hit.entry.pk for hit in hits]), access)
    shown = {entry.pk: entry for entry in found}
    return [{"score": hit.score, "entry": shown[hit.entry.pk]} for hit in hits if hit.entry.pk in shown]
