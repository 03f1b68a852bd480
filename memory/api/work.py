"""What threads are working on: objective, constraints, plan, goals, to-dos and the rest, as rows."""

from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from memory.models import WorkItem
from memory.services.work import add_work, change_work, close_work, reopen_work
from openvibe.api.fields import IdField, TextField
from openvibe.api.idempotency import creates
from openvibe.api.matching import IF_MATCH, matched, with_etag
from openvibe.api.views import ApiView
from openvibe.chat.models import Message, Thread
from openvibe.workspaces.access import Access
from openvibe.workspaces.api.auth import asker
from openvibe.workspaces.api.serializers import ParticipantOut

DATA = "goal: done_condition, budget; plan: stage (planning, approved, executing); artifact: ref. All texts."


class WorkOut(serializers.ModelSerializer[WorkItem]):
    thread = serializers.IntegerField(source="thread_id", read_only=True)
    message = serializers.IntegerField(source="message_id", read_only=True, allow_null=True)
    author = ParticipantOut(read_only=True)
    closed_by = ParticipantOut(read_only=True, allow_null=True)
    data = serializers.DictField(  # type: ignore[assignment]  # a serializer has a property of this name
        child=serializers.CharField(), read_only=True, help_text=DATA
    )

    class Meta:
        model = WorkItem
        fields = (
            "id", "thread", "kind", "text", "tokens", "data", "state", "author", "message", "version", "created_at",
            "updated_at", "closed_by", "closed_at",
        )  # fmt: skip
        read_only_fields = fields


class WorkIn(serializers.Serializer[Any]):
    thread = IdField()
    kind = serializers.ChoiceField(choices=WorkItem.Kind.choices)
    text = TextField(help_text="At most 500 tokens for a constraint, objective or goal, 800 for a plan, else 300.")
    data = serializers.DictField(  # type: ignore[assignment]  # a serializer has a property of this name
        child=TextField(), required=False, default=dict, help_text=DATA
    )
    message = IdField(required=False, help_text="Where it was said.")


class WorkChange(serializers.Serializer[Any]):
    text = TextField(required=False)
    data = serializers.DictField(  # type: ignore[assignment]  # a serializer has a property of this name
        child=TextField(), required=False, help_text=f"Merged into what stands; an empty text takes away. {DATA}"
    )
    state = serializers.ChoiceField(choices=WorkItem.State.choices, required=False)


class WorkAsked(serializers.Serializer[Any]):
    thread = IdField(required=False)
    kind = serializers.ChoiceField(choices=WorkItem.Kind.choices, required=False)
    state = serializers.ChoiceField(choices=WorkItem.State.choices, required=False)


def seen_threads(access: Access) -> QuerySet[Thread]:
    threads: QuerySet[Thread] = Thread.objects.visible_to(access)
    return threads


def work_of(access: Access) -> QuerySet[WorkItem]:
    """Rows of the threads the asker sees."""
    rows = WorkItem.objects.filter(thread__in=seen_threads(access))
    return rows.select_related("author", "closed_by")


class Work(ApiView):
    @extend_schema(operation_id="work_list", parameters=[WorkAsked], responses=WorkOut(many=True))
    def get(self, request: Request) -> Response:
        """Rows of work in the threads the caller sees, the newest first. What is closed is among them: `state`."""
        return self.page(work_of(asker(request)).filter(**self.asked(WorkAsked)), WorkOut)

    @extend_schema(operation_id="work_create", request=WorkIn, responses={201: WorkOut})
    @creates
    def post(self, request: Request) -> Response:
        """Write a row down. A new objective or plan drops the earlier one; the same open row is not written twice."""
        access, said = asker(request), self.said(WorkIn)
        messages: QuerySet[Message] = Message.objects.visible_to(access)
        item = add_work(
            thread=get_object_or_404(seen_threads(access), pk=said["thread"]),
            by=access,
            kind=said["kind"],
            text=said["text"],
            data=said["data"],
            message=get_object_or_404(messages, pk=said["message"]) if "message" in said else None,
        )
        return _answer(access, item.pk, status=201)


class OneWork(ApiView):
    @extend_schema(operation_id="work_get", responses=WorkOut)
    def get(self, request: Request, pk: int) -> Response:
        """One row, with its version as ETag."""
        return _answer(asker(request), pk)

    @extend_schema(operation_id="work_change", parameters=[IF_MATCH], request=WorkChange, responses=WorkOut)
    def patch(self, request: Request, pk: int) -> Response:
        """Say it anew, close it (`state` done or dropped) or open it again. Agents leave people's constraints alone."""
        access, said = asker(request), self.said(WorkChange)
        with transaction.atomic():
            item = get_object_or_404(work_of(access), pk=pk)
            version = matched(request, item.version)
            if said.get("state") == WorkItem.State.OPEN:
                item = reopen_work(item=item, by=access, version=version)
            if "text" in said or "data" in said:
                item = change_work(
                    item=item, by=access, version=item.version, text=said.get("text"), data=said.get("data")
                )
            if said.get("state", WorkItem.State.OPEN) != WorkItem.State.OPEN:
                close_work(item=item, by=access, state=said["state"], version=item.version)
        return _answer(access, pk)

    @extend_schema(operation_id="work_drop", parameters=[IF_MATCH], responses={204: None})
    def delete(self, request: Request, pk: int) -> Response:
        """Drop it: it is kept as dropped, and leaves every prompt."""
        access = asker(request)
        item = get_object_or_404(work_of(access), pk=pk)
        close_work(item=item, by=access, state=WorkItem.State.DROPPED, version=matched(request, item.version))
        return Response(status=204)


def _answer(access: Access, pk: int, status: int = 200) -> Response:
    item = get_object_or_404(work_of(access), pk=pk)
    return with_etag(Response(WorkOut(item).data, status=status), item.version)
