"""Endpoints of how a person arranged her sidebar, and of joining and leaving channels oneself."""

from typing import Any

from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from openvibe.api.fields import ChoiceField
from openvibe.api.views import ApiView
from openvibe.chat import queries, services
from openvibe.chat.models import Channel, SidebarOrder, SidebarSection, Thread
from openvibe.workspaces.access import Access
from openvibe.workspaces.decorators import request_access
from openvibe.workspaces.models import Participant


class SidebarOut(serializers.Serializer[Any]):
    order = ChoiceField(choices=SidebarOrder.choices, help_text="How channels are ordered.")
    folded = serializers.ListField(
        child=ChoiceField(choices=SidebarSection.choices), help_text="Sections that show only what is new in them."
    )
    favourite_channels = serializers.ListField(
        child=serializers.IntegerField(), help_text="Ids of channels, the first one made a favourite first."
    )
    favourite_direct_messages = serializers.ListField(
        child=serializers.IntegerField(), help_text="Ids of threads of direct messages, in the same order."
    )


class SidebarIn(serializers.Serializer[Any]):
    order = ChoiceField(choices=SidebarOrder.choices, required=False, help_text="How channels are ordered from now on.")
    folded = serializers.ListField(
        child=ChoiceField(choices=SidebarSection.choices),
        required=False,
        max_length=len(SidebarSection),
        help_text="All that are folded from now on.",
    )


def _sidebar_of(access: Access) -> Response:
    choices = queries.read_sidebar_choices(access)
    return Response(SidebarOut(choices).data)


class SidebarArrangement(ApiView):
    @extend_schema(operation_id="sidebar_get", responses=SidebarOut)
    def get(self, request: Request) -> Response:
        """How the caller's sidebar is arranged. People only."""
        access = request_access(request)
        services.check_has_sidebar(access)
        return _sidebar_of(access)

    @extend_schema(operation_id="sidebar_update", request=SidebarIn, responses=SidebarOut)
    def patch(self, request: Request) -> Response:
        """Another order of channels, or other folded sections."""
        access = request_access(request)
        services.update_sidebar(by=access, **self.validated_body(SidebarIn))
        return _sidebar_of(access)


class ChannelFavourite(ApiView):
    @extend_schema(operation_id="channel_favourites_add", request=None, responses={204: None})
    def put(self, request: Request, pk: int) -> Response:
        """Make a channel a favourite: it stands on top of the caller's sidebar. Nobody else is told."""
        access = request_access(request)
        services.add_favourite(channel=queries.access_channel(access, pk), by=access)
        return Response(status=204)

    @extend_schema(operation_id="channel_favourites_remove", responses={204: None})
    def delete(self, request: Request, pk: int) -> Response:
        """Make it no favourite any more; one that is none stays none."""
        access = request_access(request)
        services.remove_favourite(channel=queries.access_channel(access, pk), by=access)
        return Response(status=204)


def _access_direct(access: Access, pk: int) -> Channel:
    threads = Thread.objects.visible_to(access).filter(parent=None).exclude(channel__first_participant=None)
    thread: Thread = get_object_or_404(threads.select_related("channel"), pk=pk)
    return thread.channel


class DirectFavourite(ApiView):
    @extend_schema(operation_id="direct_favourites_add", request=None, responses={204: None})
    def put(self, request: Request, pk: int) -> Response:
        """Make direct messages a favourite, by the id of their thread."""
        access = request_access(request)
        services.add_favourite(channel=_access_direct(access, pk), by=access)
        return Response(status=204)

    @extend_schema(operation_id="direct_favourites_remove", responses={204: None})
    def delete(self, request: Request, pk: int) -> Response:
        """Make them no favourite any more."""
        access = request_access(request)
        services.remove_favourite(channel=_access_direct(access, pk), by=access)
        return Response(status=204)


class OwnMembership(ApiView):
    @extend_schema(operation_id="membership_join", request=None, responses={204: None})
    def put(self, request: Request, pk: int) -> Response:
        """Join a channel that the caller reads; twice is once. Not for guests and agents, who are added by others."""
        access = request_access(request)
        channel, caller = queries.access_channel(access, pk), Participant.objects.get(pk=access.participant_id)
        services.add_to_channel(channel=channel, participant=caller, by=access)
        return Response(status=204)

    @extend_schema(operation_id="membership_leave", responses={204: None})
    def delete(self, request: Request, pk: int) -> Response:
        """Leave a channel. A private one is seen again only by whom somebody adds."""
        access = request_access(request)
        channel, caller = queries.access_channel(access, pk), Participant.objects.get(pk=access.participant_id)
        services.remove_from_channel(channel=channel, participant=caller, by=access)
        return Response(status=204)
