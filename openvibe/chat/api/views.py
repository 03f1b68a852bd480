"""Channels, threads and search."""

from collections.abc import Sequence

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from openvibe.api.idempotency import creates
from openvibe.api.views import ApiView
from openvibe.base.problems import Problem
from openvibe.chat.api.serializers import (
    ChannelIn,
    ChannelOut,
    FoundOut,
    SearchAsked,
    ThreadChange,
    ThreadIn,
    ThreadOut,
    ThreadsAsked,
)
from openvibe.chat.models import Channel, Message, Thread
from openvibe.chat.querysets import messages_for_pages, participants_known_to, search_messages
from openvibe.chat.services import create_channel, create_thread, edit_thread, set_thread_access
from openvibe.workspaces.access import Access
from openvibe.workspaces.api.auth import asker
from openvibe.workspaces.models import Participant


def channels_of(access: Access) -> QuerySet[Channel]:
    channels: QuerySet[Channel] = Channel.objects.visible_to(access)
    return channels


def threads_of(access: Access) -> QuerySet[Thread]:
    threads: QuerySet[Thread] = Thread.objects.visible_to(access)
    return threads.select_related("channel", "created_by").prefetch_related("allowed_agents", "following_agents")


def agents_called(handles: Sequence[str], access: Access) -> list[Participant]:
    """The agents of these handles that the asker knows. Raises Problem naming the first that is not one."""
    wanted = [handle.lstrip("@").lower() for handle in handles]
    known = participants_known_to(access).filter(kind=Participant.Kind.AGENT, handle__in=wanted)
    found = {agent.handle: agent for agent in known}
    for handle in wanted:
        if handle not in found:
            raise Problem("There is no agent of that handle here.", code="unknown_agent", field="allowed_agents")
    return list(found.values())


class Channels(ApiView):
    page_order = "id"

    @extend_schema(operation_id="channels_list", responses=ChannelOut(many=True))
    def get(self, request: Request) -> Response:
        """Channels the caller may read."""
        return self.page(channels_of(asker(request)), ChannelOut)

    @extend_schema(operation_id="channels_create", request=ChannelIn, responses={201: ChannelOut})
    @creates
    def post(self, request: Request) -> Response:
        """A new channel, with the caller in it. Not for guests and agents."""
        said = self.said(ChannelIn)
        channel = create_channel(
            by=asker(request), name=said["name"], description=said["description"], is_private=said["is_private"]
        )
        channel.refresh_from_db()
        return Response(ChannelOut(channel).data, status=201)


class OneChannel(ApiView):
    @extend_schema(operation_id="channels_get", responses=ChannelOut)
    def get(self, request: Request, pk: int) -> Response:
        """One channel."""
        return Response(ChannelOut(get_object_or_404(channels_of(asker(request)), pk=pk)).data)


class Threads(ApiView):
    @extend_schema(operation_id="threads_list", parameters=[ThreadsAsked], responses=ThreadOut(many=True))
    def get(self, request: Request) -> Response:
        """Threads the caller may read, newest first; without dives, unless those of one thread are asked for."""
        asked = self.asked(ThreadsAsked)
        threads = threads_of(asker(request)).filter(parent_id=asked.get("parent"))
        return self.page(threads.filter(channel_id=asked["channel"]) if "channel" in asked else threads, ThreadOut)

    @extend_schema(operation_id="threads_create", request=ThreadIn, responses={201: ThreadOut})
    @creates
    def post(self, request: Request) -> Response:
        """A new, empty thread in a channel the caller may read."""
        said, access = self.said(ThreadIn), asker(request)
        thread = create_thread(
            channel=get_object_or_404(channels_of(access), pk=said["channel"]),
            by=access,
            title=said["title"],
            access=said["access"],
            allowed_agents=agents_called(said["allowed_agents"], access),
        )
        return Response(ThreadOut(threads_of(access).get(pk=thread.pk)).data, status=201)


class OneThread(ApiView):
    @extend_schema(operation_id="threads_get", responses=ThreadOut)
    def get(self, request: Request, pk: int) -> Response:
        """One thread."""
        return Response(ThreadOut(get_object_or_404(threads_of(asker(request)), pk=pk)).data)

    @extend_schema(operation_id="threads_change", request=ThreadChange, responses=ThreadOut)
    def patch(self, request: Request, pk: int) -> Response:
        """Rename, archive, or say which agents may know of it: admins and the person who began it."""
        access = asker(request)
        thread, said = get_object_or_404(threads_of(access), pk=pk), self.said(ThreadChange)
        if "allowed_agents" in said and "access" not in said:
            said["access"] = thread.access
        agents = agents_called(said.get("allowed_agents", ()), access)
        if "title" in said or "archived" in said or "access" not in said:
            edit_thread(thread=thread, by=access, title=said.get("title"), archived=said.get("archived"))
        if "access" in said:
            set_thread_access(thread=thread, by=access, access=said["access"], allowed_agents=agents)
        return Response(ThreadOut(threads_of(access).get(pk=pk)).data)


class Search(ApiView):
    @extend_schema(operation_id="search", parameters=[SearchAsked], responses=FoundOut(many=True))
    def get(self, request: Request) -> Response:
        """Messages the caller may read that hold these words, newest first."""
        found: QuerySet[Message] = search_messages(asker(request), self.asked(SearchAsked)["q"])
        return self.page(messages_for_pages(found).select_related("thread", "author"), FoundOut)
