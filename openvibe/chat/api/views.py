"""Endpoints of channels, threads, messages, search and the event stream.

The event stream is the browser's, for programs; it is served on the ASGI side."""

from collections.abc import Sequence
from typing import cast

from django.db.models import QuerySet
from django.forms.models import model_to_dict
from django.http import HttpResponseBase, QueryDict, StreamingHttpResponse
from django.shortcuts import get_object_or_404
from django.utils.http import content_disposition_header
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework.parsers import MultiPartParser
from rest_framework.request import Request
from rest_framework.response import Response

from openvibe.api.auth import caller_of
from openvibe.api.idempotency import IDEMPOTENCY_PARAMETER, idempotent
from openvibe.api.pagination import KeysetPagination
from openvibe.api.parsers import BoundedJSONParser
from openvibe.api.views import ApiView
from openvibe.base.params import MAX_ID
from openvibe.base.problems import Missing, Problem, Refused
from openvibe.base.streams import EVENT_STREAM_TYPE
from openvibe.chat import queries, services
from openvibe.chat.api.event_frames import ApiFrames
from openvibe.chat.api.serializers import (
    BearingOut,
    BearingParams,
    ChannelChange,
    ChannelIn,
    ChannelOut,
    DirectMessagesIn,
    DirectMessagesOut,
    EventsParams,
    FoundOut,
    MessageEdit,
    MessageIn,
    MessageOut,
    MessagesParams,
    MessageUpload,
    PersonOut,
    PieceOut,
    PieceParams,
    QuotesOut,
    ReadIn,
    ReadOut,
    SearchParams,
    ThreadChange,
    ThreadExportParams,
    ThreadIn,
    ThreadOut,
    ThreadsParams,
)
from openvibe.chat.attachments import NewAttachment, read_uploads
from openvibe.chat.live.stream import event_response, parse_position
from openvibe.chat.live.viewers import Viewer
from openvibe.chat.models import Channel, Thread, fresh
from openvibe.chat.search.thread import find_messages
from openvibe.workspaces.access import Access
from openvibe.workspaces.decorators import request_access
from openvibe.workspaces.models import Participant, User
from openvibe.workspaces.queries import is_here


def visible_threads(access: Access) -> QuerySet[Thread]:
    """With their channel, people and agents, and as `last_read_seq` how far the asker has read."""
    threads: QuerySet[Thread] = queries.with_last_read_seq(Thread.objects.visible_to(access), access)
    return threads.select_related("channel", "created_by").prefetch_related("allowed_agents", "following_agents")


def agents_by_handle(handles: Sequence[str], access: Access, field: str = "allowed_agents") -> list[Participant]:
    """The agents of these handles that the asker knows. Raises Problem with `field` when one is not known."""
    cleaned_handles = [handle.lstrip("@").lower() for handle in handles]
    agents = queries.participants_known_to(access).filter(kind=Participant.Kind.AGENT, handle__in=cleaned_handles)
    by_handle = {agent.handle: agent for agent in agents}
    if not by_handle.keys() >= set(cleaned_handles):
        raise Problem("There is no agent of that handle here.", code="unknown_agent", field=field)
    return list(by_handle.values())


class Channels(ApiView):
    page_order = "id"

    @extend_schema(operation_id="channels_list", responses=ChannelOut(many=True))
    def get(self, request: Request) -> Response:
        """Channels the caller may read."""
        return self.paginated_response(Channel.objects.visible_to(request_access(request)), ChannelOut)

    @extend_schema(operation_id="channels_create", request=ChannelIn, responses={201: ChannelOut})
    @idempotent
    def post(self, request: Request) -> Response:
        """A new channel, with the caller in it. Not for guests and agents."""
        channel = services.create_channel(by=request_access(request), **self.validated_body(ChannelIn))
        channel.refresh_from_db()
        return Response(ChannelOut(channel).data, status=201)


class OneChannel(ApiView):
    @extend_schema(operation_id="channels_get", responses=ChannelOut)
    def get(self, request: Request, pk: int) -> Response:
        """One channel."""
        return Response(ChannelOut(queries.access_channel(request_access(request), pk)).data)

    @extend_schema(operation_id="channels_update", request=ChannelChange, responses=ChannelOut)
    def patch(self, request: Request, pk: int) -> Response:
        """Say what agents are told in this channel, in every thread of it: owners and admins."""
        access = request_access(request)
        channel, data = queries.access_channel(access, pk), self.validated_body(ChannelChange)
        text, version = data["instructions"], data.get("instructions_version")
        services.set_instructions(scope=channel, by=access, text=text, version=version)
        return Response(ChannelOut(channel).data)


def visible_direct_messages(access: Access) -> QuerySet[Thread]:
    """Threads of the asker's direct messages, with the two and `last_read_seq`."""
    threads: QuerySet[Thread] = queries.with_last_read_seq(Thread.objects.visible_to(access), access)
    threads = threads.filter(parent=None).exclude(channel__first_participant=None)
    return threads.select_related("channel__first_participant", "channel__second_participant")


class DirectMessages(ApiView):
    @extend_schema(operation_id="direct_messages_list", responses=DirectMessagesOut(many=True))
    def get(self, request: Request) -> Response:
        """The caller's direct messages, newest first. Nobody else's: they are between two."""
        return self.paginated_response(visible_direct_messages(request_access(request)), DirectMessagesOut)

    @extend_schema(operation_id="direct_messages_open", request=DirectMessagesIn, responses={201: DirectMessagesOut})
    @idempotent
    def post(self, request: Request) -> Response:
        """The direct messages with somebody, begun if there are none: the same two always have the same thread. Not for
        agents, which answer there each message without being named."""
        access = request_access(request)
        handle = self.validated_body(DirectMessagesIn)["to"].strip().lstrip("@").lower()
        recipient = get_object_or_404(queries.participants_known_to(access), handle=handle)
        thread, _ = services.open_direct_messages(by=access, recipient=recipient)
        shown = visible_direct_messages(fresh(access)).get(pk=thread.pk)
        return Response(DirectMessagesOut(shown).data, status=201)


class Threads(ApiView):
    @extend_schema(operation_id="threads_list", parameters=[ThreadsParams], responses=ThreadOut(many=True))
    def get(self, request: Request) -> Response:
        """Threads the caller may read, newest first; without dives, unless those of one thread are asked for."""
        params = self.validated_query(ThreadsParams)
        access = request_access(request)
        threads = visible_threads(access).filter(parent_id=params.get("parent"))
        if params["unread"]:
            threads = queries.filter_unread(threads, access)
        return self.paginated_response(
            threads.filter(channel_id=params["channel"]) if "channel" in params else threads, ThreadOut
        )

    @extend_schema(operation_id="threads_create", request=ThreadIn, responses={201: ThreadOut})
    @idempotent
    def post(self, request: Request) -> Response:
        """A new, empty thread in a channel the caller may read."""
        data, access = self.validated_body(ThreadIn), request_access(request)
        channel = queries.access_channel(access, data.pop("channel"))
        allowed_agents = agents_by_handle(data.pop("allowed_agents"), access)
        thread = services.create_thread(channel=channel, by=access, allowed_agents=allowed_agents, **data)
        return Response(ThreadOut(visible_threads(access).get(pk=thread.pk)).data, status=201)


class OneThread(ApiView):
    @extend_schema(operation_id="threads_get", responses=ThreadOut)
    def get(self, request: Request, pk: int) -> Response:
        """One thread."""
        return Response(ThreadOut(get_object_or_404(visible_threads(request_access(request)), pk=pk)).data)

    @extend_schema(operation_id="threads_update", request=ThreadChange, responses=ThreadOut)
    def patch(self, request: Request, pk: int) -> Response:
        """Rename, archive, pin, or say which agents may know of it: admins and the person who began it. Instructions
        for agents: admins."""
        access = request_access(request)
        thread, data = get_object_or_404(visible_threads(access), pk=pk), self.validated_body(ThreadChange)
        if "allowed_agents" in data and "access" not in data:
            data["access"] = thread.access
        agents = agents_by_handle(data.get("allowed_agents", ()), access)
        if "instructions" in data:
            text, version = data["instructions"], data.get("instructions_version")
            services.set_instructions(scope=thread, by=access, text=text, version=version)
        if "is_pinned" in data:
            services.pin_thread(thread=thread, by=access, pinned=data["is_pinned"])
        if "title" in data or "archived" in data or not {"access", "instructions", "is_pinned"} & set(data):
            services.update_thread(thread=thread, by=access, title=data.get("title"), archived=data.get("archived"))
        if "access" in data:
            services.set_thread_access(thread=thread, by=access, access=data["access"], allowed_agents=agents)
        return Response(ThreadOut(visible_threads(access).get(pk=pk)).data)


class ThreadRead(ApiView):
    @extend_schema(operation_id="threads_mark_read", request=ReadIn, responses=ReadOut)
    def post(self, request: Request, pk: int) -> Response:
        """Say how far the caller has read, as an open page does."""
        access, data = request_access(request), self.validated_body(ReadIn)
        thread = get_object_or_404(Thread.objects.visible_to(access), pk=pk)
        if len(data) != 1:
            raise Problem("Send either seq or unread_from.", code="required", field="seq")
        mark = services.mark_read if "seq" in data else services.mark_unread_from
        return Response({"last_read_seq": mark(thread=thread, by=access, seq=next(iter(data.values())))})


class People(ApiView):
    page_order = "id"

    @extend_schema(operation_id="people_list", responses=PersonOut(many=True))
    def get(self, request: Request) -> Response:
        """Members of the workspace that the caller may know of; a guest knows those of the channels she is in."""
        people = queries.participants_known_to(request_access(request)).filter(kind=Participant.Kind.MEMBER)
        return self.paginated_response(people.annotate(is_here=is_here("pk")), PersonOut)


class Search(ApiView):
    @extend_schema(operation_id="messages_search", parameters=[SearchParams], responses=FoundOut(many=True))
    def get(self, request: Request) -> Response:
        """Messages the caller may read that hold these words, newest first."""
        messages = queries.search_messages(request_access(request), self.validated_query(SearchParams)["q"])
        return self.paginated_response(queries.with_authors_and_mentions(messages), FoundOut)


class ThreadExport(ApiView):
    @extend_schema(
        operation_id="threads_export",
        parameters=[ThreadExportParams],
        responses={
            (200, "application/x-ndjson"): OpenApiResponse(OpenApiTypes.STR),
            (200, "text/markdown"): OpenApiResponse(OpenApiTypes.STR),
        },
    )
    def get(self, request: Request, pk: int) -> HttpResponseBase:
        """The thread as a file: who said what and when, deleted messages as deleted, files by name. People only."""
        access, form = request_access(request), self.validated_query(ThreadExportParams)["form"]
        thread = queries.access_thread(access, pk)
        if access.is_agent:
            raise Refused("Only people take a thread out as a file. Read its messages instead.", code="people_only")
        services.audit_thread_export(thread, access, form)
        lines = queries.export_thread(access, thread, form)
        response = StreamingHttpResponse(lines, content_type=queries.EXPORT_TYPES[form])
        name = queries.export_filename(thread, form)
        response.headers["Content-Disposition"] = content_disposition_header(True, name) or ""
        return response


class Messages(ApiView):
    page_order = "seq"
    parser_classes = (BoundedJSONParser, MultiPartParser)

    @extend_schema(operation_id="messages_list", parameters=[MessagesParams], responses=MessageOut(many=True))
    def get(self, request: Request, pk: int) -> Response:
        """A thread's messages in the order they were said; with `before_seq` alone, the nearest ones first."""
        access, params = request_access(request), self.validated_query(MessagesParams)
        after, before = params.get("after_seq", 0), params.get("before_seq", MAX_ID)
        order = "-seq" if "before_seq" in params and "after_seq" not in params else "seq"
        pages = KeysetPagination()
        limit, position = pages.page_bounds(request, order)
        if position is not None:
            after, before = (after, min(before, position)) if order == "-seq" else (max(after, position), before)
        rows = queries.list_messages(
            access, pk, after_seq=after, before_seq=before, limit=limit + 1, newest_first=order == "-seq"
        )
        if not rows:
            get_object_or_404(Thread.objects.visible_to(access), pk=pk)
        return pages.get_paginated_response(MessageOut(pages.cut_page(rows, limit, order), many=True).data)

    @extend_schema(
        operation_id="messages_create",
        request={"application/json": MessageIn, "multipart/form-data": MessageUpload},
        parameters=[IDEMPOTENCY_PARAMETER],
        responses={201: MessageOut},
    )
    def post(self, request: Request, pk: int) -> Response:
        """Say something, with files as `multipart/form-data`. A person's `@handle` of an agent makes it answer; an
        agent's message starts nothing."""
        _check_parts(request)
        files = read_uploads(request.FILES.getlist("files"))  # counted before any transaction
        return self._post_once(request, pk, files)

    @idempotent
    def _post_once(self, request: Request, pk: int, files: Sequence[NewAttachment]) -> Response:
        access = request_access(request)
        thread = get_object_or_404(visible_threads(access), pk=pk)
        data = self.validated_body(MessageUpload if files else MessageIn)
        message = services.post_message(thread=thread, by=access, **{**data, "files": files})
        return Response(MessageOut(queries.access_message(access, message.pk)).data, status=201)


def _check_parts(request: Request) -> None:
    """Raise Problem for a file that would be left out: under another name, or sent as a field."""
    if not isinstance(request.data, QueryDict):
        return
    stray = [name for name in request.FILES if name != "files"]
    if not stray and len(request.data.getlist("files")) == len(request.FILES.getlist("files")):
        return
    what = f"“{stray[0][:80]}” is no field for files" if stray else "A part named “files” has no filename"
    raise Problem(
        f"{what}. Nothing was sent: send each file in a part named “files”, with a filename.",
        code="bad_files",
        field="files",
    )


class OneAttachment(ApiView):
    @extend_schema(operation_id="attachments_get", parameters=[PieceParams], responses=PieceOut)
    def get(self, request: Request, pk: int) -> Response:
        """A file of a message the caller sees, in pieces: go on at `next_offset` until it is null."""
        params = self.validated_query(PieceParams)
        file = queries.access_attachment(request_access(request), pk)
        piece = queries.read_attachment(file, offset=params["offset"], limit=params["limit"], words=params["find"])
        return Response(PieceOut({**model_to_dict(file), "piece": piece}).data)


class OneMessage(ApiView):
    @extend_schema(operation_id="messages_get", responses=MessageOut)
    def get(self, request: Request, pk: int) -> Response:
        """One message."""
        return Response(MessageOut(queries.access_message(request_access(request), pk)).data)

    @extend_schema(operation_id="messages_update", request=MessageEdit, responses=MessageOut)
    def patch(self, request: Request, pk: int) -> Response:
        """Replace the text of one's own message. Starts nothing."""
        access = request_access(request)
        message = queries.access_message(access, pk)
        services.update_message(message=message, by=access, **self.validated_body(MessageEdit))
        return Response(MessageOut(queries.access_message(access, pk)).data)

    @extend_schema(operation_id="messages_delete", responses={204: None})
    def delete(self, request: Request, pk: int) -> Response:
        """Wipe the text, its history and mentions; a tombstone keeps the place. Authors and admins."""
        access = request_access(request)
        services.delete_message(message=queries.access_message(access, pk), by=access)
        return Response(status=204)


class MessageQuotes(ApiView):
    @extend_schema(operation_id="messages_list_quotes", responses=QuotesOut)
    def get(self, request: Request, pk: int) -> Response:
        """Where the words of a message stand, deleted or not: texts of people and agents that repeat it.

        For who may delete the message; for others their own texts that repeat a deleted one.
        """
        found = queries.access_quotes(request_access(request), pk)
        return Response(QuotesOut(found).data)


class OneQuote(ApiView):
    @extend_schema(operation_id="messages_delete_quote", responses={204: None})
    def delete(self, request: Request, pk: int, kind: str, ref: int) -> Response:
        """Delete it there too, where you may."""
        access = request_access(request)
        views = queries.access_quotes(access, pk).quotes
        view = next((view for view in views if (view.quote.kind, view.quote.ref) == (kind, ref)), None)
        if view is None:
            raise Missing
        services.erase_quote(quote=view.quote, by=access)
        return Response(status=204)


class MessagesBearing(ApiView):
    @extend_schema(operation_id="threads_search", parameters=[BearingParams], responses=BearingOut)
    def get(self, request: Request, pk: int) -> Response:
        """The thread's messages that bear on a question, by words and by meaning, within a budget of tokens."""
        access, params = request_access(request), self.validated_query(BearingParams)
        thread = get_object_or_404(visible_threads(access), pk=pk)
        result = find_messages(
            access, params["q"], thread_id=thread.pk, budget=params["budget"], before=params.get("before_seq")
        )
        return Response(BearingOut(result).data)


def viewer_of(request: Request) -> Viewer:
    """Who listens: the token, or the browser's session, has to hold all the while."""
    caller, access = caller_of(request), request_access(request)
    if caller.token:
        return Viewer(access.workspace_id, access.participant_id, token_id=caller.token.pk)
    key, password = request._request.session.session_key, cast(User, request.auth).password
    return Viewer(access.workspace_id, access.participant_id, session_key=key, password=password)


class NoStreams(Problem):
    status = 503
    code = "no_streams"


class Events(ApiView):
    @extend_schema(
        operation_id="events_stream",
        parameters=[EventsParams],
        responses={
            (200, EVENT_STREAM_TYPE): OpenApiResponse(OpenApiTypes.STR, "Server-sent events until the caller leaves.")
        },
    )
    def get(self, request: Request) -> HttpResponseBase:
        """What changes for the caller, as it changes. `id` is the position to go on from; `data` is
        `{"kind", "channel", "thread", "message"}`, ids or null.

        With any of `include`, `kind` and `thread`, frames have their kind as `event:` too, and the message that names
        the caller comes as `mention`. With `include=data`, `data.data` is the message as `messages/{id}/` gives it;
        of changes that follow one another quickly the last is told.
        """
        params = self.validated_query(EventsParams)
        last_seen = parse_position(request.headers.get("Last-Event-ID", ""))
        frames = ApiFrames(
            kinds=frozenset(params.get("kind", ())),
            thread_ids=frozenset(params.get("thread", ())),
            with_data="include" in params,
        )
        after = params.get("after") if last_seen is None else last_seen
        response = event_response(request._request, viewer_of(request), frames, after)
        if response.status_code == 503:
            raise NoStreams("This server sends no event streams. Ask the one that `make run` starts.")
        return response
