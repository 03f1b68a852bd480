"""Approvals: asked for by anybody who sees the thread, decided by people."""

from typing import Any

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from memory.api.work import seen_threads
from memory.models import Approval
from memory.services.approvals import decide_approval, request_approval
from openvibe.api.fields import IdField, TextField
from openvibe.api.idempotency import creates
from openvibe.api.views import ApiView
from openvibe.workspaces.access import Access
from openvibe.workspaces.api.auth import asker
from openvibe.workspaces.api.serializers import ParticipantOut


class ApprovalOut(serializers.ModelSerializer[Approval]):
    thread = serializers.IntegerField(source="thread_id", read_only=True)
    requested_by = ParticipantOut(read_only=True)
    decided_by = ParticipantOut(read_only=True, allow_null=True)

    class Meta:
        model = Approval
        fields = (
            "id", "thread", "what", "reason", "state", "requested_by", "decided_by", "decided_at", "note", "created_at",
        )  # fmt: skip
        read_only_fields = fields


class ApprovalIn(serializers.Serializer[Any]):
    thread = IdField()
    what = TextField(help_text="One line: what would be done. At most 300 characters.")
    reason = TextField(required=False, default="", help_text="At most 2,000 characters.")


class ApprovalsAsked(serializers.Serializer[Any]):
    thread = IdField(required=False)
    state = serializers.ChoiceField(choices=Approval.State.choices, required=False)


class DecisionIn(serializers.Serializer[Any]):
    granted = serializers.BooleanField()
    note = TextField(required=False, default="", help_text="At most 300 characters.")


def approvals_of(access: Access) -> QuerySet[Approval]:
    """Approvals in the threads the asker sees."""
    return Approval.objects.filter(thread__in=seen_threads(access)).select_related("requested_by", "decided_by")


class Approvals(ApiView):
    @extend_schema(operation_id="approvals_list", parameters=[ApprovalsAsked], responses=ApprovalOut(many=True))
    def get(self, request: Request) -> Response:
        """Approvals in the threads the caller sees, the newest first."""
        return self.page(approvals_of(asker(request)).filter(**self.asked(ApprovalsAsked)), ApprovalOut)

    @extend_schema(operation_id="approvals_create", request=ApprovalIn, responses={201: ApprovalOut})
    @creates
    def post(self, request: Request) -> Response:
        """Ask whether something may be done. Ask again later how it was decided; people see a card until then."""
        access, said = asker(request), self.said(ApprovalIn)
        thread = get_object_or_404(seen_threads(access), pk=said["thread"])
        approval = request_approval(thread=thread, by=access, what=said["what"], reason=said["reason"])
        return Response(ApprovalOut(approvals_of(access).get(pk=approval.pk)).data, status=201)


class Decide(ApiView):
    @extend_schema(operation_id="approvals_decide", request=DecisionIn, responses=ApprovalOut)
    def post(self, request: Request, pk: int) -> Response:
        """Grant or deny, once. People only, guests excepted; a decision is final."""
        access, said = asker(request), self.said(DecisionIn)
        approval = get_object_or_404(approvals_of(access), pk=pk)
        decide_approval(approval=approval, by=access, granted=said["granted"], note=said["note"])
        return Response(ApprovalOut(approvals_of(access).get(pk=pk)).data)
