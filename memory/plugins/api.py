"""API of a thread's memory: tool, stats, summaries, compaction."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final

from django.db.models import QuerySet
from drf_spectacular.utils import PolymorphicProxySerializer, extend_schema
from inflection import camelize
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from memory.plugins.answers import answer_from_memory
from memory.plugins.base import Explorer, Session, capabilities_of, read_stats
from memory.plugins.compaction import request_compaction, resume_compaction
from memory.plugins.models import COMPACTIONS, Compaction
from memory.plugins.registry import active_plugin_name, provider_for
from memory.plugins.services import correct_summary
from memory.plugins.sessions import check_profile_update, context_budget, open_session
from memory.plugins.tasks import ask_compaction, enqueue_compaction_on_commit
from memory.plugins.thread_modes import MemoryMode, memory_mode_of
from memory.plugins.tool import ToolAction, build_tool, offered_actions
from memory.plugins.tool_results import read_tool_result
from openvibe.api.fields import ChoiceField, IdField, IsoField, TextField, WholeNumberField
from openvibe.api.idempotency import idempotent
from openvibe.api.views import ApiView
from openvibe.base.params import MAX_ID
from openvibe.base.problems import Conflict, Missing, Problem, Refused
from openvibe.chat.models import Message, Thread
from openvibe.chat.queries import access_by
from openvibe.chat.services import check_agent_tool
from openvibe.workspaces.access import Access
from openvibe.workspaces.decorators import request_access
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


def _action_serializer(action: ToolAction) -> type[MemoryToolIn]:
    """The body that calls this action, for the schema: the tool itself checks its arguments."""
    fields: dict[str, Any] = {"__doc__": action.description, "action": ChoiceField(choices=[action.name])}
    for argument in action.arguments:
        options: dict[str, Any] = {"required": argument.required, "help_text": argument.description}
        if argument.type == "integer":
            options |= {"min_value": argument.minimum, "max_value": argument.maximum}
            fields[argument.name] = WholeNumberField(**options)
        else:
            options |= {"min_length": argument.minimum, "max_length": argument.maximum}
            fields[argument.name] = serializers.CharField(**options, allow_blank=argument.minimum == 0)
    return type(f"Memory{camelize(action.name)}In", (MemoryToolIn,), fields)


AGENT_ACTIONS: Final[dict[str, Any]] = {
    "ask_compaction": ask_compaction,
    "answer_question": answer_from_memory,
    "read_result": read_tool_result,
}
"""What agents alone may ask of the tool."""

TOOL_CALL = PolymorphicProxySerializer(
    "MemoryToolCall",
    {action.name: _action_serializer(action) for action in offered_actions(**AGENT_ACTIONS)},
    resource_type_field_name="action",
)


class ToolAnswer(serializers.Serializer[Any]):
    result = serializers.CharField(help_text="Text to read, at most 4,000 tokens.")


class ThreadQuery(serializers.Serializer[Any]):
    thread = IdField()


class OptionalThreadQuery(serializers.Serializer[Any]):
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
    focus = TextField(
        required=False, default="", help_text="What new summaries keep in most detail, at most 200 characters."
    )


class CompactionOut(serializers.ModelSerializer[Compaction]):
    """Sizes in tokens of the whole context."""

    thread = serializers.IntegerField(source="thread_id", read_only=True)
    requested_by = serializers.IntegerField(source="requested_by_id", read_only=True, allow_null=True)
    summary_ids = serializers.ListField(child=serializers.IntegerField(), read_only=True)

    class Meta:
        model = Compaction
        fields = (
            "id",
            "thread",
            "plugin",
            "trigger",
            "full",
            "focus",
            "requested_by",
            "state",
            "tokens_before",
            "tokens_after",
            "created_count",
            "summary_ids",
            "at_seq",
            "done_messages",
            "of_messages",
            "error",
            "note",
            "queued_at",
            "started_at",
            "finished_at",
        )
        read_only_fields = fields


def visible_compactions(access: Access) -> QuerySet[Compaction]:
    """Those of threads the asker sees."""
    return Compaction.objects.filter(thread__in=Thread.objects.visible_to(access))


access_compaction = access_by("pk", visible_compactions)


def access_session(access: Access, thread_id: int) -> Session:
    """The asker's session. An agent's notes are about the person who spoke last in the thread.

    Raises Missing for what the asker does not see, and for threads that are for people only.
    """
    session = open_session(access, thread_id)
    if not access.is_agent:
        return session
    messages = Message.objects.filter(thread_id=thread_id, author__kind=Participant.Kind.MEMBER)
    person_id = messages.order_by("-seq").values_list("author_id", flat=True).first()
    return open_session(access, thread_id, person_id=person_id)


def _check_not_ignored(access: Access, thread_id: int, arguments: Mapping[str, Any]) -> None:
    """Raises Refused for agents in threads that memory ignores, and for notes from those that are read-only for it."""
    mode = memory_mode_of(thread_id)
    if mode is MemoryMode.IGNORED:
        raise Refused("Memory ignores this thread: read its newest messages.", code="ignored")
    if mode is MemoryMode.READ_ONLY and arguments.get("action") == "profile_update":
        raise Refused(
            "This conversation is read-only for memory: nothing of it goes into your notes.", code="read_only"
        )


class MemoryTool(ApiView):
    scopes = {"GET": "memory", "POST": "memory"}

    @extend_schema(operation_id="memory_get_tool", responses=MemoryToolOut)
    def get(self, request: Request) -> Response:
        """The memory tool, made from what the workspace's plugin can do: give it to a model as it is."""
        access = request_access(request)
        tool = build_tool(provider_for(access.workspace_id), for_agent=access.is_agent, **AGENT_ACTIONS)
        return Response(MemoryToolOut(tool.spec).data)

    @extend_schema(operation_id="memory_call_tool", request=TOOL_CALL, responses=ToolAnswer)
    def post(self, request: Request) -> Response:
        """Carry out one action of the tool. Its arguments stand beside `thread` and `action`.

        What the model can mend is a problem here: 400 `unknown_action` or `bad_argument`, 404 for an id out of scope.
        """
        data, access = self.validated_body(MemoryToolIn, may_hold_more=True), request_access(request)
        session = access_session(access, data["thread"])
        check_agent_tool(access, "memory", session.thread_id)
        tool = build_tool(provider_for(access.workspace_id), for_agent=access.is_agent, **AGENT_ACTIONS)
        if not isinstance(request.data, Mapping):
            raise Problem("Send a JSON object.", code="bad_request")
        arguments = {str(name): value for name, value in request.data.items() if name != "thread"}
        if access.is_agent:
            _check_not_ignored(access, session.thread_id, arguments)
            check_profile_update(session, arguments)
        return Response(ToolAnswer({"result": tool.perform(session, arguments)}).data)


class Stats(ApiView):
    scopes = {"GET": "memory"}

    @extend_schema(operation_id="memory_get_stats", parameters=[ThreadQuery], responses=MemoryStatsOut)
    def get(self, request: Request) -> Response:
        """How much was said in a thread, and how much of it is remembered in which form."""
        access = request_access(request)
        session = access_session(access, self.validated_query(ThreadQuery)["thread"])
        provider = provider_for(access.workspace_id)
        row = {
            **asdict(read_stats(provider, session)),
            "thread": session.thread_id,
            "plugin": active_plugin_name(access.workspace_id),
            "capabilities": list(capabilities_of(provider)),
            "budget": context_budget(Thread.objects.select_related("workspace").get(pk=session.thread_id)),
        }
        return Response(MemoryStatsOut(row).data)


class Compact(ApiView):
    scopes = {"POST": "memory"}

    @extend_schema(operation_id="memory_compact", request=CompactIn, responses={202: CompactionOut})
    @idempotent
    def post(self, request: Request) -> Response:
        """Start compacting a thread. Where one is waiting or running already, that one is answered.

        409 `nothing_new` where nothing was said since the last one that went as far.
        """
        data, access = self.validated_body(CompactIn), request_access(request)
        thread = Thread.objects.select_related("channel").get(pk=open_session(access, data.pop("thread")).thread_id)
        compaction = request_compaction(thread=thread, trigger=Compaction.Trigger.HAND, by=access, **data)
        if compaction is not None:
            enqueue_compaction_on_commit(compaction.pk)
        unfinished = Compaction.objects.filter(thread=thread, state__in=COMPACTIONS.unfinished)
        compaction = compaction or unfinished.first()
        if compaction is None:
            raise Conflict("A compaction of this thread ended just now. Ask again.", code="just_ended")
        return Response(CompactionOut(visible_compactions(access).get(pk=compaction.pk)).data, status=202)


class SummaryRevisionOut(serializers.Serializer[Any]):
    """Both texts are empty when a message in the summary was edited or deleted later."""

    author = serializers.CharField()
    at = IsoField()
    previous = serializers.CharField()
    content = serializers.CharField()


class MemorySummaryOut(serializers.Serializer[Any]):
    """Sizes in tokens (o200k_base)."""

    id = serializers.IntegerField()
    kind = serializers.CharField()
    depth = serializers.IntegerField()
    content = serializers.CharField()
    tokens = serializers.IntegerField()
    first = serializers.IntegerField(help_text="The first message it stands for.")
    last = serializers.IntegerField()
    level = serializers.CharField(help_text="normal, aggressive, fallback or corrected.")
    model = serializers.CharField()
    is_stale = serializers.BooleanField(help_text="It is being written anew.")
    version = serializers.IntegerField()
    corrections = SummaryRevisionOut(many=True)


class SummaryCorrectionIn(serializers.Serializer[Any]):
    thread = IdField()
    version = WholeNumberField(min_value=1, max_value=2_147_483_647, help_text="The one you read.")
    content = TextField(help_text="At most 1,200 tokens.")


class OneSummary(ApiView):
    scopes = {"GET": "memory", "PATCH": "memory"}

    @extend_schema(operation_id="memory_get_summary", parameters=[ThreadQuery], responses=MemorySummaryOut)
    def get(self, request: Request, pk: int) -> Response:
        """One summary of a thread's memory, with its version and its corrections, the newest first."""
        access = request_access(request)
        session = access_session(access, self.validated_query(ThreadQuery)["thread"])
        provider = provider_for(access.workspace_id)
        if not isinstance(provider, Explorer):
            raise Missing
        return Response(MemorySummaryOut(provider.describe(session, min(pk, MAX_ID))).data)

    @extend_schema(operation_id="memory_correct_summary", request=SummaryCorrectionIn, responses=MemorySummaryOut)
    def patch(self, request: Request, pk: int) -> Response:
        """Correct what a summary says. Members only; 409 `changed_meanwhile` for a version that is not current."""
        data, access = self.validated_body(SummaryCorrectionIn), request_access(request)
        thread = Thread.objects.select_related("channel").get(pk=open_session(access, data.pop("thread")).thread_id)
        summary, rebuild = correct_summary(thread=thread, by=access, summary_id=min(pk, MAX_ID), **data)
        if rebuild is not None:
            enqueue_compaction_on_commit(rebuild.pk)
        return Response(MemorySummaryOut(summary).data)


class ResumeOut(serializers.Serializer[Any]):
    compactions = serializers.ListField(
        child=serializers.IntegerField(), help_text="Those that had failed and are tried again now."
    )


class ResumeCompaction(ApiView):
    scopes = {"POST": "memory"}

    @extend_schema(operation_id="memory_resume", request=None, responses={202: ResumeOut})
    @idempotent
    def post(self, request: Request) -> Response:
        """End the pause that compaction takes after its endpoint failed again and again. Admins only.

        409 `not_paused` where nothing rests.
        """
        access = request_access(request)
        compactions = resume_compaction(workspace_id=access.workspace_id, by=access)
        for compaction in compactions:
            enqueue_compaction_on_commit(compaction.pk)
        return Response({"compactions": [compaction.pk for compaction in compactions]}, status=202)


class Compactions(ApiView):
    scopes = {"GET": "memory"}

    @extend_schema(
        operation_id="memory_list_compactions", parameters=[OptionalThreadQuery], responses=CompactionOut(many=True)
    )
    def get(self, request: Request) -> Response:
        """Compactions of threads the caller may read, newest first."""
        params = self.validated_query(OptionalThreadQuery)
        filters = {"thread_id": params["thread"]} if "thread" in params else {}
        return self.paginated_response(visible_compactions(request_access(request)).filter(**filters), CompactionOut)


class OneCompaction(ApiView):
    scopes = {"GET": "memory"}

    @extend_schema(operation_id="memory_get_compaction", responses=CompactionOut)
    def get(self, request: Request, pk: int) -> Response:
        """State, progress and what came of it."""
        return Response(CompactionOut(access_compaction(request_access(request), pk)).data)
