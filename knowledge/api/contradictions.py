"""Pairs of entries that seem to contradict each other, and what people decided about them."""

from __future__ import annotations

from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from knowledge.api.entries import KNOWLEDGE
from knowledge.api.rows import contradictions_of, entries_of
from knowledge.api.serializers import ContradictionOut, ContradictionsAsked, SettleIn
from knowledge.services import settle_contradiction
from openvibe.api.views import ApiView
from openvibe.workspaces.api.auth import asker


class Contradictions(ApiView):
    @extend_schema(
        operation_id="contradictions_list", parameters=[ContradictionsAsked], responses=ContradictionOut(many=True)
    )
    def get(self, request: Request) -> Response:
        """Open pairs of which the caller may read both, the newest first. Agents get none."""
        settled = self.asked(ContradictionsAsked)["settled"]
        return self.page(contradictions_of(asker(request)).exclude(settled_at__isnull=bool(settled)), ContradictionOut)


class Settle(ApiView):
    scopes = {"POST": KNOWLEDGE}

    @extend_schema(operation_id="contradictions_settle", request=SettleIn, responses=ContradictionOut)
    def post(self, request: Request, pk: int) -> Response:
        """Both hold, or one of them is superseded or archived. Members only; settled twice is settled once."""
        access, said = asker(request), self.said(SettleIn)
        pair = get_object_or_404(contradictions_of(access), pk=pk)
        keep = get_object_or_404(entries_of(access), pk=said["keep"]) if "keep" in said else None
        settled = settle_contradiction(
            contradiction=pair, by=access, how=said["how"], keep=keep, note=said["note"], door="api"
        )
        return Response(ContradictionOut(settled).data)
