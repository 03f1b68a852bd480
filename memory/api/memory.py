"""A thread's memory, asked from outside: the memory tool, figures, and compaction."""

from collections.abc import Mapping
from typing import Any

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from memory.audience import refuse_private_notes
from memory.models import Compaction
from memory.providers.base import Session, capabilities_of
from memory.providers.budgets import context_budget
from memory.providers.opening import open_session
from memory.providers.registry import enabled_name, provider_for
from memory.services.compaction import request_compaction, waiting_compaction
from memory.tasks import send_compaction_after_commit
from memory.tool import build_tool
from openvibe.api.fields import IdField
from openvibe.api.idempotency import creates
from openvibe.api.views import ApiView
from openvibe.base.problems import Conflict, Problem
from openvibe.chat.models import Message, Thread
from openvibe.workspaces.access import Access
from openvibe.workspaces.api.auth import asker
from openvibe.workspaces.models import Participant


class MemoryToolOut(serializers.Serializer[Any]):
    """The tool as a model is offered it."""

    name = serializers.CharField()
    description = serializers.CharField()
    parameters = serializers.DictField(help_text="A JSON schema of type object.")


class MemoryToolIn(serializers.Serializer[Any]):
    """The thread, the action, and the action's arguments beside them."""

    thread = IdField()
    action = serializers.CharField(max_length=80, help_text="One of those the schema lists.")


class ToolAnswer(serializers.Serializer[Any]):
    result = serializers.CharField(help_text="Text to read, at most 4,000 tokens.")


class ThreadAsked(serializers.Serializer[Any]):
    thread = IdField()


class ThreadAskedMaybe(serializers.Serializer[Any]):
    thread = IdField(required=False, help_text="Only those of this thread.")


class MemoryStatsOut(serializers.Serializer[Any]):
    """Sizes in tokens (o200k_base)."""

    thread = serializers.IntegerField()
    plugin = serializers.CharField()
    capabilities = serializers.ListField(child=serializers.CharField())
    messages = serializers.IntegerField(help_text="All that was said.")
    entries = serializers.IntegerField(help_text="Messages and summaries that stand for them.")
    tokens = serializers.IntegerField(help_text="What the entries need in a prompt.")
    summaries = serializers.IntegerField()
    deepest = serializers.IntegerField(help_text="The greatest depth of a summary.")
    budget = serializers.IntegerField(help_text="Tokens a prompt has for the conversation.")
    note = serializers.CharField(help_text="Anything the plugin has to say.")


class CompactIn(serializers.Serializer[Any]):
    thread = IdField()
    full = serializers.BooleanField(required=False, default=False, help_text="All that can be, not just one step.")


class CompactionOut(serializers.ModelSerializer[Compaction]):
    """Sizes in tokens of the whole context."""

    thread = serializers.IntegerField(source="thread_id", read_only=True)
    summary_ids = serializers.ListField(child=serializers.IntegerField(), read_only=True)

    class Meta:
        model = Compaction
        fields = (
            "id", "thread", "plugin", "trigger", "full", "state", "tokens_before", "tokens_after", "created_count",
            "summary_ids", "at_seq", "done_messages", "of_messages", "error", "note", "queued_at",
            "started_at", "finished_at",
        )  # fmt: skip
        read_only_fields = fields


def compactions_of(access: Access) -> QuerySet[Compaction]:
    """Those of threads the asker sees."""
    return Compaction.objects.filter(thread__in=Thread.objects.visible_to(access))


def session_of(access: Access, thread_id: int) -> Session:
    """The asker's session. An agent's notes are about the person who spoke last in the thread.

    Raises Missing for what the asker does not see, and for threads that are for people only.
    """
    session = open_session(access, thread_id)
    if not access.is_agent:
        return session
    said = Message.objects.filter(thread_id=thread_id, author__kind=Participant.Kind.MEMBER)
    person_id = said.order_by("-seq").values_list("author_id", flat=True).first()
    return open_session(access, thread_id, person_id=person_id)


class MemoryTool(ApiView):
    scopes = {"GET": "memory", "POST": "memory"}

    @extend_schema(operation_id="memory_tool_schema", responses=MemoryToolOut)
    def get(self, request: Request) -> Response:
        """The memory tool, made from what the workspace's plugin can do: give it to a model as it is."""
        access = asker(request)
        spec = build_tool(provider_for(access.workspace_id), for_agent=access.is_agent).spec
        return Response(
            MemoryToolOut({"name": spec.name, "description": spec.description, "parameters": spec.parameters}).data
        )

    @extend_schema(operation_id="memory_tool_call", request=MemoryToolIn, responses=ToolAnswer)
    def post(self, request: Request) -> Response:
        """Carry out one action of the tool. Its arguments stand beside `thread` and `action`.

        What the model can mend is a problem here: 400 `unknown_action` or `bad_argument`, 404 for an id out of scope.
        """
        said, access = self.said(MemoryToolIn), asker(request)
        session = session_of(access, said["thread"])
        tool = build_tool(provider_for(access.workspace_id), for_agent=access.is_agent)
        arguments = _arguments(request.data)
        if access.is_agent:
            refuse_private_notes(session, arguments)
        return Response(ToolAnswer({"result": tool.perform(session, arguments)}).data)


def _arguments(data: object) -> Mapping[str, Any]:
    """What was sent beside the thread."""
    if not isinstance(data, Mapping):
        raise Problem("Send a JSON object.", code="bad_request")
    return {str(name): value for name, value in data.items() if name != "thread"}


class Stats(ApiView):
    scopes = {"GET": "memory"}

    @extend_schema(operation_id="memory_stats", parameters=[ThreadAsked], responses=MemoryStatsOut)
    def get(self, request: Request) -> Response:
        """How much was said in a thread, and how much of it is remembered in which form."""
        access = asker(request)
        session = session_of(access, self.asked(ThreadAsked)["thread"])
        provider = provider_for(access.workspace_id)
        stats = provider.stats(session)
        row = {
            "thread": session.thread_id,
            "plugin": enabled_name(access.workspace_id),
            "capabilities": list(capabilities_of(provider)),
            "messages": stats.messages,
            "entries": stats.entries,
            "tokens": stats.tokens,
            "summaries": stats.summaries,
            "deepest": stats.deepest,
            "budget": context_budget(Thread.objects.select_related("workspace").get(pk=session.thread_id)),
            "note": stats.note,
        }
        return Response(MemoryStatsOut(row).data)


class Compact(ApiView):
    scopes = {"POST": "memory"}

    @extend_schema(operation_id="memory_compact", request=CompactIn, responses={202: CompactionOut})
    @creates
    def post(self, request: Request) -> Response:
        """Start compacting a thread. Where one is waiting or running already, that one is answered.

        409 `nothing_new` where nothing was said since the last one that went as far.
        """
        said, access = self.said(CompactIn), asker(request)
        thread = Thread.objects.select_related("channel").get(pk=open_session(access, said["thread"]).thread_id)
        compaction = request_compaction(thread=thread, trigger=Compaction.Trigger.HAND, full=said["full"], by=access)
        if compaction is not None:
            send_compaction_after_commit(compaction.pk)
        compaction = compaction or waiting_compaction(thread)
        if compaction is None:
            raise Conflict("A compaction of this thread ended just now. Ask again.", code="just_ended")
        return Response(CompactionOut(compactions_of(access).get(pk=compaction.pk)).data, status=202)


class Compactions(ApiView):
    scopes = {"GET": "memory"}

    @extend_schema(operation_id="memory_compactions_list", parameters=[ThreadAskedMaybe],
                   responses=CompactionOut(many=True))  # fmt: skip
    def get(self, request: Request) -> Response:
        """Compactions of threads the caller may read, newest first."""
        asked = self.asked(ThreadAskedMaybe)
        filters = {"thread_id": asked["thread"]} if "thread" in asked else {}
        return self.page(compactions_of(asker(request)).filter(**filters), CompactionOut)


class OneCompaction(ApiView):
    scopes = {"GET": "memory"}

    @extend_schema(operation_id="memory_compactions_get", responses=CompactionOut)
    def get(self, request: Request, pk: int) -> Response:
        """State, progress and what came of it."""
        return Response(CompactionOut(get_object_or_404(compactions_of(asker(request)), pk=pk)).data)
