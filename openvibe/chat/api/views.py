"""Endpoints of channels, threads, messages, dives, search and the event stream.

The event stream is the browser's, for programs; it is served on the ASGI side."""

from collections.abc import Sequence
from typing import Any

from django.db import connection
from django.db.models import QuerySet
from django.http import StreamingHttpResponse
from django.shortcuts import get_object_or_404
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from openvibe.api.auth import Caller, caller_of
from openvibe.api.idempotency import idempotent
from openvibe.api.models import Token
from openvibe.api.views import ApiView
from openvibe.base.params import MAX_ID
from openvibe.base.problems import Problem
from openvibe.chat.api.serializers import (
    BearingAsked,
    BearingOut,
    ChannelIn,
    ChannelOut,
    DiveIn,
    DiveOut,
    DivesAsked,
    DraftOut,
    FoundOut,
    MessageEdit,
    MessageIn,
    MessageOut,
    MessagesAsked,
    ResultIn,
    SearchAsked,
    ThreadChange,
    ThreadIn,
    ThreadOut,
    ThreadsAsked,
)
from openvibe.chat.event_stream import CurrentAccess, event_stream
from openvibe.chat.models import Channel, Dive, Message, Thread
from openvibe.chat.queries import newest_agent_draft, participants_known_to, search_messages, with_authors_and_mentions
from openvibe.chat.search import find_messages
from openvibe.chat.services import (
    create_channel,
    create_thread,
    delete_message,
    discard_dive,
    post_message,
    publish_dive,
    request_draft,
    set_thread_access,
    start_dive,
    update_message,
    update_thread,
)
from openvibe.llm.drafts import ResultDraft
from openvibe.workspaces.access import Access
from openvibe.workspaces.decorators import request_access
from openvibe.workspaces.models import Participant
from openvibe.workspaces.queries import participant_access


def visible_channels(access: Access) -> QuerySet[Channel]:
    channels: QuerySet[Channel] = Channel.objects.visible_to(access)
    return channels


def visible_threads(access: Access) -> QuerySet[Thread]:
    threads: QuerySet[Thread] = Thread.objects.visible_to(access)
    return threads.select_related("channel", "created_by").prefetch_related("allowed_agents", "following_agents")


def agents_by_handle(handles: Sequence[str], access: Access) -> list[Participant]:
    """The agents of these handles that the asker knows. Raises Problem naming the first that is not one."""
    cleaned_handles = [handle.lstrip("@").lower() for handle in handles]
    agents = participants_known_to(access).filter(kind=Participant.Kind.AGENT, handle__in=cleaned_handles)
    by_handle = {agent.handle: agent for agent in agents}
    for handle in cleaned_handles:
        if handle not in by_handle:
            raise Problem("There is no agent of that handle here.", code="unknown_agent", field="allowed_agents")
    return list(by_handle.values())


class Channels(ApiView):
    page_order = "id"

    @extend_schema(operation_id="channels_list", responses=ChannelOut(many=True))
    def get(self, request: Request) -> Response:
        """Channels the caller may read."""
        return self.paginated_response(visible_channels(request_access(request)), ChannelOut)

    @extend_schema(operation_id="channels_create", request=ChannelIn, responses={201: ChannelOut})
    @idempotent
    def post(self, request: Request) -> Response:
        """A new channel, with the caller in it. Not for guests and agents."""
        data = self.validated_body(ChannelIn)
        channel = create_channel(
            by=request_access(request),
            name=data["name"],
            description=data["description"],
            is_private=data["is_private"],
        )
        channel.refresh_from_db()
        return Response(ChannelOut(channel).data, status=201)


class OneChannel(ApiView):
    @extend_schema(operation_id="channels_get", responses=ChannelOut)
    def get(self, request: Request, pk: int) -> Response:
        """One channel."""
        return Response(ChannelOut(get_object_or_404(visible_channels(request_access(request)), pk=pk)).data)


class Threads(ApiView):
    @extend_schema(operation_id="threads_list", parameters=[ThreadsAsked], responses=ThreadOut(many=True))
    def get(self, request: Request) -> Response:
        """Threads the caller may read, newest first; without dives, unless those of one thread are asked for."""
        params = self.validated_query(ThreadsAsked)
        threads = visible_threads(request_access(request)).filter(parent_id=params.get("parent"))
        return self.paginated_response(
            threads.filter(channel_id=params["channel"]) if "channel" in params else threads, ThreadOut
        )

    @extend_schema(operation_id="threads_create", request=ThreadIn, responses={201: ThreadOut})
    @idempotent
    def post(self, request: Request) -> Response:
        """A new, empty thread in a channel the caller may read."""
        data, access = self.validated_body(ThreadIn), request_access(request)
        thread = create_thread(
            channel=get_object_or_404(visible_channels(access), pk=data["channel"]),
            by=access,
            title=data["title"],
            access=data["access"],
            allowed_agents=agents_by_handle(data["allowed_agents"], access),
        )
        return Response(ThreadOut(visible_threads(access).get(pk=thread.pk)).data, status=201)


class OneThread(ApiView):
    @extend_schema(operation_id="threads_get", responses=ThreadOut)
    def get(self, request: Request, pk: int) -> Response:
        """One thread."""
        return Response(ThreadOut(get_object_or_404(visible_threads(request_access(request)), pk=pk)).data)

    @extend_schema(operation_id="threads_change", request=ThreadChange, responses=ThreadOut)
    def patch(self, request: Request, pk: int) -> Response:
        """Rename, archive, or say which agents may know of it: admins and the person who began it."""
        access = request_access(request)
        thread, data = get_object_or_404(visible_threads(access), pk=pk), self.validated_body(ThreadChange)
        if "allowed_agents" in data and "access" not in data:
            data["access"] = thread.access
        agents = agents_by_handle(data.get("allowed_agents", ()), access)
        if "title" in data or "archived" in data or "access" not in data:
            update_thread(thread=thread, by=access, title=data.get("title"), archived=data.get("archived"))
        if "access" in data:
            set_thread_access(thread=thread, by=access, access=data["access"], allowed_agents=agents)
        return Response(ThreadOut(visible_threads(access).get(pk=pk)).data)


class Search(ApiView):
    @extend_schema(operation_id="search", parameters=[SearchAsked], responses=FoundOut(many=True))
    def get(self, request: Request) -> Response:
        """Messages the caller may read that hold these words, newest first."""
        messages: QuerySet[Message] = search_messages(request_access(request), self.validated_query(SearchAsked)["q"])
        return self.paginated_response(with_authors_and_mentions(messages).select_related("thread", "author"), FoundOut)


def visible_messages(access: Access) -> QuerySet[Message]:
    messages: QuerySet[Message] = Message.objects.visible_to(access)
    return with_authors_and_mentions(messages)


class Messages(ApiView):
    page_order = "seq"

    @extend_schema(operation_id="messages_list", parameters=[MessagesAsked], responses=MessageOut(many=True))
    def get(self, request: Request, pk: int) -> Response:
        """A thread's messages in the order they were said; with `before_seq` alone, the nearest ones first."""
        access, params = request_access(request), self.validated_query(MessagesAsked)
        messages = visible_messages(access).filter(thread=get_object_or_404(visible_threads(access), pk=pk))
        if "after_seq" in params:
            messages = messages.filter(seq__gt=params["after_seq"])
        if "before_seq" in params:
            messages = messages.filter(seq__lt=params["before_seq"])
            self.page_order = "seq" if "after_seq" in params else "-seq"
        return self.paginated_response(messages, MessageOut)

    @extend_schema(operation_id="messages_create", request=MessageIn, responses={201: MessageOut})
    @idempotent
    def post(self, request: Request, pk: int) -> Response:
        """Say something. A person's `@handle` of an agent makes it answer; an agent's message starts nothing."""
        access = request_access(request)
        thread, data = get_object_or_404(visible_threads(access), pk=pk), self.validated_body(MessageIn)
        message = post_message(
            thread=thread,
            by=access,
            body=data["body"],
            client_id=data["client_id"],
            kind=data["kind"],
            call_id=data["call_id"],
        )
        return Response(MessageOut(visible_messages(access).get(pk=message.pk)).data, status=201)


class OneMessage(ApiView):
    @extend_schema(operation_id="messages_get", responses=MessageOut)
    def get(self, request: Request, pk: int) -> Response:
        """One message."""
        return Response(MessageOut(get_object_or_404(visible_messages(request_access(request)), pk=pk)).data)

    @extend_schema(operation_id="messages_edit", request=MessageEdit, responses=MessageOut)
    def patch(self, request: Request, pk: int) -> Response:
        """Replace the text of one's own message. Starts nothing."""
        access = request_access(request)
        message, data = get_object_or_404(visible_messages(access), pk=pk), self.validated_body(MessageEdit)
        update_message(message=message, by=access, body=data["body"], based_on=data["based_on"])
        return Response(MessageOut(visible_messages(access).get(pk=pk)).data)

    @extend_schema(operation_id="messages_delete", responses={204: None})
    def delete(self, request: Request, pk: int) -> Response:
        """Wipe the text, its history and mentions; a tombstone keeps the place. Authors and admins."""
        access = request_access(request)
        delete_message(message=get_object_or_404(visible_messages(access), pk=pk), by=access)
        return Response(status=204)


class MessagesBearing(ApiView):
    @extend_schema(operation_id="messages_search", parameters=[BearingAsked], responses=BearingOut)
    def get(self, request: Request, pk: int) -> Response:
        """The thread's messages that bear on a question, by words and by meaning, within a budget of tokens."""
        access, params = request_access(request), self.validated_query(BearingAsked)
        thread = get_object_or_404(visible_threads(access), pk=pk)
        result = find_messages(
            access, params["q"], thread_id=thread.pk, budget=params["budget"], before=params.get("before_seq")
        )
        return Response(BearingOut(result).data)


def visible_dives(access: Access) -> QuerySet[Dive]:
    dives: QuerySet[Dive] = Dive.objects.visible_to(access)
    return dives.select_related("agent", "started_by", "ended_by", "result__dive_result__published_by")


def dive_data(pk: int, access: Access) -> dict[str, object]:
    return dict(DiveOut(visible_dives(access).get(pk=pk)).data)


class Dives(ApiView):
    @extend_schema(operation_id="dives_list", parameters=[DivesAsked], responses=DiveOut(many=True))
    def get(self, request: Request) -> Response:
        """Dives from the threads the caller sees, newest first. Agents below L2 see none."""
        params = self.validated_query(DivesAsked)
        dives = visible_dives(request_access(request))
        if "thread" in params:
            dives = dives.filter(parent_id=params["thread"])
        return self.paginated_response(dives.filter(state=params["state"]) if "state" in params else dives, DiveOut)

    @extend_schema(operation_id="dives_start", request=DiveIn, responses={201: DiveOut})
    @idempotent
    def post(self, request: Request) -> Response:
        """Start a dive from a message, with an agent. People only; at most 7 active ones in a thread."""
        access, data = request_access(request), self.validated_body(DiveIn)
        source = get_object_or_404(visible_messages(access), pk=data["message"])
        handle = data["agent"].lstrip("@").lower()
        agent = participants_known_to(access).filter(kind=Participant.Kind.AGENT, handle=handle).first()
        if agent is None:
            raise Problem("There is no agent of that handle here.", code="unknown_agent", field="agent")
        dive = start_dive(source=source, by=access, agent=agent, body=data["body"], client_id=data["client_id"])
        return Response(dive_data(dive.pk, access), status=201)


class OneDive(ApiView):
    @extend_schema(operation_id="dives_get", responses=DiveOut)
    def get(self, request: Request, pk: int) -> Response:
        """One dive, with its result once it is published."""
        return Response(DiveOut(get_object_or_404(visible_dives(request_access(request)), pk=pk)).data)


class Draft(ApiView):
    @extend_schema(operation_id="dives_draft", responses=DraftOut)
    def get(self, request: Request, pk: int) -> Response:
        """What the agent drafted, in its parts; `draft` is null while nobody asked or the agent has not answered."""
        return Response(
            DraftOut(newest_agent_draft(get_object_or_404(visible_dives(request_access(request)), pk=pk))).data
        )

    @extend_schema(operation_id="dives_ask_for_draft", request=None, responses={202: MessageOut})
    @idempotent
    def post(self, request: Request, pk: int) -> Response:
        """Have the dive's agent draft the result; its next reply in the dive is the draft. The starter and admins."""
        access = request_access(request)
        message = request_draft(dive=get_object_or_404(visible_dives(access), pk=pk), by=access)
        return Response(MessageOut(visible_messages(access).get(pk=message.pk)).data, status=202)


class Publish(ApiView):
    @extend_schema(operation_id="dives_publish", request=ResultIn, responses={201: DiveOut})
    @idempotent
    def post(self, request: Request, pk: int) -> Response:
        """Post the result in the thread the dive started in, and end the dive. The starter and admins."""
        access, data = request_access(request), self.validated_body(ResultIn)
        result = ResultDraft(
            headline=data["headline"],
            bullets=tuple(data["bullets"]),
            full=data["full"],
            deferred=tuple(data["deferred"]),
            questions=tuple(data["questions"]),
        )
        publish_dive(dive=get_object_or_404(visible_dives(access), pk=pk), by=access, result=result)
        return Response(dive_data(pk, access), status=201)


class Discard(ApiView):
    @extend_schema(operation_id="dives_discard", request=None, responses=DiveOut)
    def post(self, request: Request, pk: int) -> Response:
        """End the dive without a result. The starter and admins; twice is once."""
        access = request_access(request)
        discard_dive(dive=get_object_or_404(visible_dives(access), pk=pk), by=access)
        return Response(dive_data(pk, access))


EVENT_STREAM_TYPE = "text/event-stream"


class EventsAsked(serializers.Serializer[Any]):
    after = serializers.IntegerField(
        required=False, min_value=0, max_value=MAX_ID, help_text="The last position seen; or send Last-Event-ID."
    )


def caller_current_access(caller: Caller) -> CurrentAccess:
    """Asks anew whether the caller may still listen: the token, and whoever it belongs to."""

    def access_now() -> Access | None:
        if caller.token is not None:
            token = Token.objects.filter(pk=caller.token.pk).first()
            if token is None or not token.is_valid:
                return None
        participant = Participant.objects.filter(pk=caller.participant.pk).first()
        return participant_access(participant) if participant else None

    return access_now


class Events(ApiView):
    @extend_schema(
        operation_id="events",
        parameters=[EventsAsked],
        responses={
            (200, EVENT_STREAM_TYPE): OpenApiResponse(OpenApiTypes.STR, "Server-sent events until the caller leaves.")
        },
    )
    def get(self, request: Request) -> StreamingHttpResponse:
        """What changes for the caller, as it changes: ids only. `id` is the position to go on from."""
        after = self.validated_query(EventsAsked).get("after")
        last_event_id = request.headers.get("Last-Event-ID", "")
        if last_event_id.isascii() and last_event_id.isdigit() and len(last_event_id) < 19:
            after = int(last_event_id)
        stream = event_stream(caller_current_access(caller_of(request)), after)
        if not connection.in_atomic_block:
            connection.close()  # a stream lasts, and would hold it all the while
        return StreamingHttpResponse(stream, content_type=EVENT_STREAM_TYPE, headers={"X-Accel-Buffering": "no"})
