"""Work items, approvals and the progress log: serializers and endpoints."""

from collections.abc import Sequence
from typing import Any

from django.db import transaction
from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from memory.work.approvals import decide_approval, request_approval
from memory.work.models import Approval, ProgressEntry, WorkItem
from memory.work.queries import (
    access_approval,
    access_work_item,
    approval_calls,
    visible_approvals,
    visible_threads,
    visible_work_items,
)
from memory.work.services import (
    close_work_item,
    create_work_item,
    decide_constraint,
    log_progress,
    reopen_work_item,
    update_work_item,
)
from openvibe.api.etags import IF_MATCH_PARAMETER, check_if_match, set_etag
from openvibe.api.fields import ChoiceField, IdField, TextField
from openvibe.api.idempotency import idempotent
from openvibe.api.views import ApiView
from openvibe.chat.queries import access_message, access_thread
from openvibe.chat.services import check_agent_tool
from openvibe.workspaces.access import Access
from openvibe.workspaces.api.serializers import ParticipantOut
from openvibe.workspaces.decorators import request_access

DATA_HELP = (
    "goal: done_condition, budget; plan: stage (planning, approved, executing, verifying, integrating); artifact: ref."
    " All texts."
)


class WorkOut(serializers.ModelSerializer[WorkItem]):
    thread = serializers.IntegerField(source="thread_id", read_only=True)
    author = ParticipantOut(read_only=True)
    closed_by = ParticipantOut(read_only=True, allow_null=True)
    confirmed_by = ParticipantOut(
        read_only=True, allow_null=True, help_text="Of a constraint: who stands behind it. It binds nobody before."
    )
    data = serializers.DictField(  # type: ignore[assignment]  # a serializer has a property of this name
        child=serializers.CharField(), read_only=True, help_text=DATA_HELP
    )

    class Meta:
        model = WorkItem
        fields = (
            "id",
            "thread",
            "kind",
            "text",
            "tokens",
            "data",
            "state",
            "author",
            "message",
            "version",
            "created_at",
            "updated_at",
            "closed_by",
            "closed_at",
            "confirmed_by",
        )
        read_only_fields = fields


class WorkIn(serializers.Serializer[Any]):
    thread = IdField()
    kind = ChoiceField(choices=WorkItem.Kind.choices)
    text = TextField(help_text="At most 500 tokens for a constraint, objective or goal, 800 for a plan, else 300.")
    data = serializers.DictField(  # type: ignore[assignment]  # a serializer has a property of this name
        child=TextField(), required=False, default=dict, help_text=DATA_HELP
    )
    message = IdField(required=False, help_text="Where it was said.")


class WorkChange(serializers.Serializer[Any]):
    text = TextField(required=False)
    data = serializers.DictField(  # type: ignore[assignment]  # a serializer has a property of this name
        child=TextField(), required=False, help_text=f"Merged into what stands; an empty text takes away. {DATA_HELP}"
    )
    state = ChoiceField(choices=WorkItem.State.choices, required=False)


class WorkQuery(serializers.Serializer[Any]):
    thread = IdField(required=False)
    kind = ChoiceField(choices=WorkItem.Kind.choices, required=False)
    state = ChoiceField(choices=WorkItem.State.choices, required=False)


class Work(ApiView):
    @extend_schema(operation_id="work_list", parameters=[WorkQuery], responses=WorkOut(many=True))
    def get(self, request: Request) -> Response:
        """Rows of work in the threads the caller sees, the newest first. What is closed is among them: `state`."""
        items = visible_work_items(request_access(request))
        return self.paginated_response(items.filter(**self.validated_query(WorkQuery)), WorkOut)

    @extend_schema(operation_id="work_create", request=WorkIn, responses={201: WorkOut})
    @idempotent
    def post(self, request: Request) -> Response:
        """Write a row down. A new objective or plan drops the earlier one; the same open row is not written twice."""
        access, payload = request_access(request), self.validated_body(WorkIn)
        thread = access_thread(access, payload["thread"])
        check_agent_tool(access, "work_update", thread.pk)
        item = create_work_item(
            thread=thread,
            by=access,
            kind=payload["kind"],
            text=payload["text"],
            data=payload["data"],
            message=access_message(access, payload["message"]) if "message" in payload else None,
        )
        return _work_response(access, item.pk, status=201)


class OneWork(ApiView):
    @extend_schema(operation_id="work_get", responses=WorkOut)
    def get(self, request: Request, pk: int) -> Response:
        """One row, with its version as ETag."""
        return _work_response(request_access(request), pk)

    @extend_schema(operation_id="work_update", parameters=[IF_MATCH_PARAMETER], request=WorkChange, responses=WorkOut)
    def patch(self, request: Request, pk: int) -> Response:
        """Say it anew, close it (`state` done or dropped) or open it again. Agents and guests leave constraints that
        bind alone; a member who says a proposed one anew confirms it."""
        access, payload = request_access(request), self.validated_body(WorkChange)
        with transaction.atomic():
            item = access_work_item(access, pk)
            check_agent_tool(access, "work_update", item.thread_id)
            version = check_if_match(request, item.version)
            if payload.get("state") == WorkItem.State.OPEN:
                item = reopen_work_item(item=item, by=access, version=version)
            if "text" in payload or "data" in payload:
                item = update_work_item(
                    item=item, by=access, version=item.version, text=payload.get("text"), data=payload.get("data")
                )
            if payload.get("state", WorkItem.State.OPEN) != WorkItem.State.OPEN:
                close_work_item(item=item, by=access, state=payload["state"], version=item.version)
        return _work_response(access, pk)

    @extend_schema(operation_id="work_delete", parameters=[IF_MATCH_PARAMETER], responses={204: None})
    def delete(self, request: Request, pk: int) -> Response:
        """Drop it: it is kept as dropped, and leaves every prompt."""
        access = request_access(request)
        item = access_work_item(access, pk)
        check_agent_tool(access, "work_update", item.thread_id)
        close_work_item(
            item=item, by=access, state=WorkItem.State.DROPPED, version=check_if_match(request, item.version)
        )
        return Response(status=204)


class ConstraintDecisionIn(serializers.Serializer[Any]):
    confirmed = serializers.BooleanField(help_text="False declines it: it is dropped.")


class DecideConstraint(ApiView):
    @extend_schema(
        operation_id="work_decide", parameters=[IF_MATCH_PARAMETER], request=ConstraintDecisionIn, responses=WorkOut
    )
    def post(self, request: Request, pk: int) -> Response:
        """Confirm or decline a constraint that an agent or a guest proposed, or make a preference binding (it is a
        constraint from then on) or say that it is none. Members only, guests excepted."""
        access, payload = request_access(request), self.validated_body(ConstraintDecisionIn)
        item = access_work_item(access, pk)
        decide_constraint(
            item=item, by=access, is_confirmed=payload["confirmed"], version=check_if_match(request, item.version)
        )
        return _work_response(access, pk)


def _work_response(access: Access, pk: int, status: int = 200) -> Response:
    item = access_work_item(access, pk)
    return set_etag(Response(WorkOut(item).data, status=status), item.version)


class ApprovalPermissionOut(serializers.Serializer[Any]):
    run = serializers.IntegerField(source="run_id", help_text="In which it is asked.")
    kind = serializers.CharField()
    title = serializers.CharField()
    command = serializers.CharField()
    paths = serializers.ListField(child=serializers.CharField())
    arguments = serializers.CharField()
    diff = serializers.CharField()
    added = serializers.IntegerField()
    removed = serializers.IntegerField()
    unkept_lines = serializers.IntegerField()
    expires_at = serializers.DateTimeField(allow_null=True)


class ApprovalCallOut(serializers.Serializer[Any]):
    tool = serializers.CharField()
    arguments = serializers.CharField(help_text="JSON, as text, as far as the caller may read it.")
    hidden = serializers.CharField(help_text="Why there are no arguments; empty when there are.")
    permission = ApprovalPermissionOut(allow_null=True)


class ApprovalOut(serializers.ModelSerializer[Approval]):
    """Its context holds the `calls` of `approval_calls`."""

    requested_by = ParticipantOut(read_only=True)
    decided_by = ParticipantOut(read_only=True, allow_null=True)
    call = serializers.SerializerMethodField(help_text="What is done once it is granted; null where that is no call.")

    class Meta:
        model = Approval
        fields = (
            "id",
            "thread",
            "what",
            "reason",
            "state",
            "requested_by",
            "decided_by",
            "decided_at",
            "note",
            "created_at",
            "call",
        )
        read_only_fields = fields

    @extend_schema_field(ApprovalCallOut(allow_null=True))
    def get_call(self, approval: Approval) -> Any:
        call = self.context["calls"].get(approval.pk)
        return ApprovalCallOut(call).data if call else None


class ApprovalIn(serializers.Serializer[Any]):
    thread = IdField()
    what = TextField(help_text="One line: what would be done. At most 300 characters.")
    reason = TextField(required=False, default="", help_text="At most 2,000 characters.")


class ApprovalsQuery(serializers.Serializer[Any]):
    thread = IdField(required=False)
    state = ChoiceField(choices=Approval.State.choices, required=False)


class DecisionIn(serializers.Serializer[Any]):
    granted = serializers.BooleanField()
    note = TextField(required=False, default="", help_text="At most 300 characters.")


class Approvals(ApiView):
    @extend_schema(operation_id="approvals_list", parameters=[ApprovalsQuery], responses=ApprovalOut(many=True))
    def get(self, request: Request) -> Response:
        """Approvals in the threads the caller sees, the newest first."""
        access = request_access(request)
        approvals = visible_approvals(access).filter(**self.validated_query(ApprovalsQuery))
        return self.get_paginated_response(_approval_data(self.paginate_queryset(approvals) or [], access))

    @extend_schema(operation_id="approvals_create", request=ApprovalIn, responses={201: ApprovalOut})
    @idempotent
    def post(self, request: Request) -> Response:
        """Ask whether something may be done. Ask again later how it was decided; people see a card until then."""
        access, payload = request_access(request), self.validated_body(ApprovalIn)
        thread = access_thread(access, payload["thread"])
        check_agent_tool(access, "request_approval", thread.pk)
        approval = request_approval(thread=thread, by=access, what=payload["what"], reason=payload["reason"])
        return Response(_approval_data([access_approval(access, approval.pk)], access)[0], status=201)


class Decide(ApiView):
    @extend_schema(operation_id="approvals_decide", request=DecisionIn, responses=ApprovalOut)
    def post(self, request: Request, pk: int) -> Response:
        """Grant or deny, once. People only, guests excepted; a decision is final."""
        access, payload = request_access(request), self.validated_body(DecisionIn)
        approval = access_approval(access, pk)
        decide_approval(approval=approval, by=access, is_granted=payload["granted"], note=payload["note"])
        return Response(_approval_data([access_approval(access, pk)], access)[0])


def _approval_data(rows: Sequence[Approval], access: Access) -> Any:
    return ApprovalOut(rows, many=True, context={"calls": approval_calls(rows, access)}).data


PROGRESS_FIELDS = ("changed", "evidence", "open_issues", "next_action")


class ProgressOut(serializers.ModelSerializer[ProgressEntry]):
    author = ParticipantOut(read_only=True)

    class Meta:
        model = ProgressEntry
        fields = ("id", "thread", "checkpoint", *PROGRESS_FIELDS, "author", "created_at")
        read_only_fields = fields


class ProgressIn(serializers.Serializer[Any]):
    thread = IdField()
    checkpoint = TextField(help_text="One line, at most 200 characters.")
    changed = TextField(required=False, default="", help_text="What changed; at most 2,000 characters, as the others.")
    evidence = TextField(required=False, default="")
    open_issues = TextField(required=False, default="")
    next_action = TextField(required=False, default="")


class ProgressQuery(serializers.Serializer[Any]):
    thread = IdField(required=False)


class Progress(ApiView):
    @extend_schema(operation_id="progress_list", parameters=[ProgressQuery], responses=ProgressOut(many=True))
    def get(self, request: Request) -> Response:
        """The log's lines in the threads the caller sees, the newest first."""
        lines = ProgressEntry.objects.filter(thread__in=visible_threads(request_access(request)))
        rows = lines.filter(**self.validated_query(ProgressQuery)).select_related("author")
        return self.paginated_response(rows, ProgressOut)

    @extend_schema(operation_id="progress_create", request=ProgressIn, responses={201: ProgressOut})
    @idempotent
    def post(self, request: Request) -> Response:
        """Note where the work stands: a checkpoint, what changed, the evidence, what is open, what comes next."""
        access, payload = request_access(request), self.validated_body(ProgressIn)
        thread = access_thread(access, payload.pop("thread"))
        check_agent_tool(access, "log_progress", thread.pk)
        entry = log_progress(thread=thread, by=access, **payload)
        entry.refresh_from_db()
        return Response(ProgressOut(entry).data, status=201)
