"""Sessions: an outside agent's own conversations. What it says there is stored like any message and recalled by its
workspace's memory plugin; nobody is notified and no agent answers."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from memory.models import SessionInfo
from memory.providers.base import NewMessage
from memory.providers.opening import open_session
from memory.providers.shared import LONGEST_ID, MOST_AT_ONCE, said_before, sessions_of
from memory.services.sessions import begin_session, save_session_info, say_in_session
from memory.tasks import consider_compaction_after_commit
from openvibe.api.fields import IdField, PlaceField, TextField
from openvibe.api.idempotency import creates
from openvibe.api.views import ApiView
from openvibe.chat.models import Channel
from openvibe.workspaces.access import Access
from openvibe.workspaces.api.auth import asker

INFO = "A JSON object of at most 8,000 bytes: whatever you like to keep."


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
    info = serializers.DictField(required=False, default=dict, help_text=INFO)


class SessionChange(serializers.Serializer[Any]):
    info = serializers.DictField(help_text=INFO)


class SaidIn(serializers.Serializer[Any]):
    role = serializers.ChoiceField(choices=["user", "assistant", "tool_call", "tool_result"])
    text = TextField(help_text="1 to 100,000 characters.")
    external_id = TextField(
        required=False, default="", help_text=f"At most {LONGEST_ID} characters: the same id is the same message."
    )
    call_id = TextField(required=False, default="", help_text="Pairs a tool_call with its tool_result.")
    name = TextField(required=False, default="", help_text="Who the user is; an imported speaker of that name.")


class SessionMessagesIn(serializers.Serializer[Any]):
    messages = SaidIn(many=True, allow_empty=False, help_text=f"At most {MOST_AT_ONCE}, stored all or none.")


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
    created_at = serializers.CharField(source="at")


class SessionHistory(serializers.Serializer[Any]):
    messages = SaidOut(many=True)
    next = serializers.IntegerField(allow_null=True, help_text="`after` of what follows; null when this was all.")


class HistoryAsked(serializers.Serializer[Any]):
    after = PlaceField(required=False, default=0, help_text="Only messages after this number.")
    limit = serializers.IntegerField(required=False, default=100, min_value=1, max_value=200)


def own_sessions(access: Access) -> QuerySet[SessionInfo]:
    return sessions_of(access).select_related("thread")


class Sessions(ApiView):
    @extend_schema(operation_id="sessions_list", responses=SessionOut(many=True))
    def get(self, request: Request) -> Response:
        """The caller's own sessions, newest first."""
        return self.page(own_sessions(asker(request)), SessionOut)

    @extend_schema(operation_id="sessions_create", request=SessionIn, responses={200: SessionOut, 201: SessionOut})
    @creates
    def post(self, request: Request) -> Response:
        """Begin a conversation: a thread of the agent's own. 200 when there is one of this external id. Agents only."""
        said, access = self.said(SessionIn), asker(request)
        channel = get_object_or_404(Channel.objects.visible_to(access), pk=said.pop("channel"))
        session, is_new = begin_session(channel=channel, by=access, **said)
        session = own_sessions(access).get(pk=session.pk)
        return Response(SessionOut(session).data, status=201 if is_new else 200)


class OneSession(ApiView):
    @extend_schema(operation_id="sessions_get", responses=SessionOut)
    def get(self, request: Request, pk: int) -> Response:
        """One session, with what the agent keeps about it."""
        return Response(SessionOut(get_object_or_404(own_sessions(asker(request)), thread_id=pk)).data)

    @extend_schema(operation_id="sessions_change", request=SessionChange, responses=SessionOut)
    def patch(self, request: Request, pk: int) -> Response:
        """Replace the info."""
        access = asker(request)
        session = get_object_or_404(own_sessions(access), thread_id=pk)
        save_session_info(session=session, by=access, info=self.said(SessionChange)["info"])
        return Response(SessionOut(own_sessions(access).get(thread_id=pk)).data)


class SessionMessages(ApiView):
    @extend_schema(operation_id="sessions_history", parameters=[HistoryAsked], responses=SessionHistory)
    def get(self, request: Request, pk: int) -> Response:
        """What was said, oldest first, word for word."""
        access, asked = asker(request), self.asked(HistoryAsked)
        session = get_object_or_404(own_sessions(access), thread_id=pk)
        found = said_before(open_session(access, session.thread_id), after=asked["after"], limit=asked["limit"] + 1)
        shown = found[: asked["limit"]]
        following = shown[-1].ordinal if len(found) > len(shown) else None
        return Response(SessionHistory({"messages": shown, "next": following}).data)

    @extend_schema(operation_id="sessions_say", request=SessionMessagesIn, responses={201: SessionStored})
    @creates
    def post(self, request: Request, pk: int) -> Response:
        """Add what was said, all or nothing. A message whose external id is known is not stored again."""
        access = asker(request)
        session = get_object_or_404(own_sessions(access), thread_id=pk)
        messages = [NewMessage(**one) for one in self.said(SessionMessagesIn)["messages"]]
        seqs = say_in_session(session=session, by=access, messages=messages)
        consider_compaction_after_commit(session.thread_id)
        return Response({"seqs": seqs}, status=201)
