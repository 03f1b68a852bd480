"""API of sessions: an outside agent's own conversations."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from memory.plugins.base import NewMessage
from memory.plugins.models import SessionInfo
from memory.plugins.sessions import (
    MAX_ID_CHARACTERS,
    MAX_MESSAGES_PER_APPEND,
    access_session_info,
    append_to_session,
    create_session,
    message_history,
    open_session,
    update_session_info,
    visible_sessions,
)
from memory.plugins.tasks import enqueue_compaction_check_on_commit
from openvibe.api.fields import ChoiceField, IdField, IsoField, SeqField, TextField, WholeNumberField
from openvibe.api.idempotency import idempotent
from openvibe.api.views import ApiView
from openvibe.chat.queries import access_channel
from openvibe.workspaces.decorators import request_access

INFO_HELP = "A JSON object of at most 8,000 bytes: whatever you like to keep."


class SessionOut(serializers.ModelSerializer[SessionInfo]):
    """`id` is the thread's."""

    id = serializers.IntegerField(source="thread_id", read_only=True)
    channel = serializers.IntegerField(source="thread.channel_id", read_only=True)
    title = serializers.CharField(source="thread.title", read_only=True)
    last_seq = serializers.IntegerField(source="thread.last_seq", read_only=True)
    info = serializers.DictField(read_only=True)

    class Meta:
        model = SessionInfo
        fields = ("id", "channel", "title", "external_id", "info", "last_seq", "created_at", "updated_at")
        read_only_fields = fields


class SessionIn(serializers.Serializer[Any]):
    channel = IdField(help_text="Where the conversation stands.")
    title = TextField(help_text="Cut at 200 characters.")
    external_id = TextField(required=False, default="", help_text="Your own id: the same id is the same session.")
    info = serializers.DictField(required=False, default=dict, help_text=INFO_HELP)


class SessionChange(serializers.Serializer[Any]):
    info = serializers.DictField(help_text=INFO_HELP)


class SaidIn(serializers.Serializer[Any]):
    role = ChoiceField(choices=["user", "assistant", "tool_call", "tool_result"])
    body = TextField(source="text", help_text="1 to 100,000 characters.")
    external_id = TextField(
        required=False,
        default="",
        help_text=f"At most {MAX_ID_CHARACTERS} characters: the same id is the same message.",
    )
    call_id = TextField(required=False, default="", help_text="Pairs a tool_call with its tool_result.")
    name = TextField(required=False, default="", help_text="Who the user is; an imported speaker of that name.")


class SessionMessagesIn(serializers.Serializer[Any]):
    messages = SaidIn(many=True, allow_empty=False, help_text=f"At most {MAX_MESSAGES_PER_APPEND}, stored all or none.")


class SessionStored(serializers.Serializer[Any]):
    seqs = serializers.ListField(child=serializers.IntegerField(), help_text="The messages' numbers, in their order.")


class SaidOut(serializers.Serializer[Any]):
    id = serializers.IntegerField(source="message_id")
    seq = serializers.IntegerField(source="ordinal")
    kind = serializers.CharField()
    author = serializers.CharField(source="author_name")
    author_kind = serializers.CharField()
    body = serializers.CharField(source="text")
    call_id = serializers.CharField()
    created_at = IsoField(source="at")


class SessionHistory(serializers.Serializer[Any]):
    messages = SaidOut(many=True)
    next = serializers.IntegerField(allow_null=True, help_text="`after` of what follows; null when this was all.")


class HistoryQuery(serializers.Serializer[Any]):
    after = SeqField(required=False, default=0, help_text="Only messages after this number.")
    limit = WholeNumberField(required=False, default=100, min_value=1, max_value=200)


class Sessions(ApiView):
    @extend_schema(operation_id="sessions_list", responses=SessionOut(many=True))
    def get(self, request: Request) -> Response:
        """The caller's own sessions, newest first."""
        return self.paginated_response(visible_sessions(request_access(request)), SessionOut)

    @extend_schema(operation_id="sessions_create", request=SessionIn, responses={200: SessionOut, 201: SessionOut})
    @idempotent
    def post(self, request: Request) -> Response:
        """Begin a conversation: a thread of the agent's own. 200 when there is one of this external id. Agents only."""
        data, access = self.validated_body(SessionIn), request_access(request)
        channel = access_channel(access, data.pop("channel"))
        session, is_new = create_session(channel=channel, by=access, **data)
        session = visible_sessions(access).get(pk=session.pk)
        return Response(SessionOut(session).data, status=201 if is_new else 200)


class OneSession(ApiView):
    @extend_schema(operation_id="sessions_get", responses=SessionOut)
    def get(self, request: Request, pk: int) -> Response:
        """One session, with what the agent keeps about it."""
        return Response(SessionOut(access_session_info(request_access(request), pk)).data)

    @extend_schema(operation_id="sessions_update", request=SessionChange, responses=SessionOut)
    def patch(self, request: Request, pk: int) -> Response:
        """Replace the info."""
        access = request_access(request)
        session = access_session_info(access, pk)
        update_session_info(session=session, by=access, info=self.validated_body(SessionChange)["info"])
        return Response(SessionOut(access_session_info(access, pk)).data)


class SessionMessages(ApiView):
    @extend_schema(operation_id="sessions_get_history", parameters=[HistoryQuery], responses=SessionHistory)
    def get(self, request: Request, pk: int) -> Response:
        """What was said, oldest first, word for word."""
        access, params = request_access(request), self.validated_query(HistoryQuery)
        session = access_session_info(access, pk)
        entries = message_history(
            open_session(access, session.thread_id), after=params["after"], limit=params["limit"] + 1
        )
        page = entries[: params["limit"]]
        next_after = page[-1].ordinal if len(entries) > len(page) else None
        return Response(SessionHistory({"messages": page, "next": next_after}).data)

    @extend_schema(operation_id="sessions_append", request=SessionMessagesIn, responses={201: SessionStored})
    @idempotent
    def post(self, request: Request, pk: int) -> Response:
        """Add what was said, all or nothing. A message whose external id is known is not stored again."""
        access = request_access(request)
        session = access_session_info(access, pk)
        messages = [NewMessage(**message) for message in self.validated_body(SessionMessagesIn)["messages"]]
        seqs = append_to_session(session=session, by=access, messages=messages)
        enqueue_compaction_check_on_commit(session.thread_id)
        return Response({"seqs": seqs}, status=201)
