"""Endpoints of channels, direct messages, threads and people."""

from collections.abc import Sequence
from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpResponseBase, StreamingHttpResponse
from django.shortcuts import get_object_or_404
from django.utils.http import content_disposition_header
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from openvibe.api.idempotency import idempotent
from openvibe.api.views import ApiView
from openvibe.base.problems import Problem, Refused
from openvibe.chat import queries, services
from openvibe.chat.api.serializers import (
    ChannelChange,
    ChannelIn,
    ChannelOut,
    DirectMessagesIn,
    DirectMessagesOut,
    PersonOut,
    ReadIn,
    ReadOut,
    ThreadChange,
    ThreadExportParams,
    ThreadIn,
    ThreadOut,
    ThreadsParams,
)
from openvibe.chat.models import Channel, Thread, access_by, reread_visibility
from openvibe.workspaces.access import Access
from openvibe.workspaces.decorators import request_access
from openvibe.workspaces.models import Participant
from openvibe.workspaces.queries import is_here


def visible_threads(access: Access) -> QuerySet[Thread]:
    """Threads with their channel, people and agents, and as `last_read_seq` how far the asker has read."""
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
        """Say what holds for agents in this channel, in every thread of it: what they are told, which of them answer,
        what they may use, and how many tokens a day. Nothing here gives an agent more than its level and its own
        settings do. Owners and admins; which agents answer also whoever made the channel."""
        access = request_access(request)
        channel, data = queries.access_channel(access, pk), self.validated_body(ChannelChange)
        limits: dict[str, Any] = {
            name: data[name] for name in ("added_agents_only", "daily_token_budget") if name in data
        }
        if "agent_tools" in data:
            limits["tools"] = data["agent_tools"]
        if not limits and "instructions" not in data:
            names = "instructions, added_agents_only, agent_tools, daily_token_budget"
            raise Problem(f"Send at least one of {names}.", code="required", field="instructions")
        with transaction.atomic():
            if limits:
                services.set_agent_limits(channel=channel, by=access, **limits)
            if "instructions" in data:
                text, version = data["instructions"], data.get("instructions_version")
                services.set_instructions(scope=channel, by=access, text=text, version=version)
        return Response(ChannelOut(channel).data)


def visible_direct_messages(access: Access) -> QuerySet[Thread]:
    """Threads of the asker's direct messages, with the two and `last_read_seq`."""
    threads: QuerySet[Thread] = queries.with_last_read_seq(Thread.objects.visible_to(access), access)
    threads = threads.filter(parent=None).exclude(channel__first_participant=None)
    return threads.select_related("channel__first_participant", "channel__second_participant")


_access_recipient = access_by("handle", queries.participants_known_to)


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
        recipient = _access_recipient(access, handle)
        thread, _ = services.open_direct_messages(by=access, recipient=recipient)
        row = visible_direct_messages(reread_visibility(access)).get(pk=thread.pk)
        return Response(DirectMessagesOut(row).data, status=201)


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
        thread, data = queries.access_thread(access, pk), self.validated_body(ThreadChange)
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
        thread = queries.access_thread(access, pk)
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
