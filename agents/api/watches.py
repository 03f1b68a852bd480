"""Channels that agents watch: serializers and endpoints."""

from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from agents.agent.models import Watch
from agents.api.views import access_agent_by_handle
from agents.watching.services import DEFAULT_REST_MINUTES, create_watch, stop_watches, update_watch
from agents.watching.thresholds import Threshold, read_thresholds
from openvibe.api.fields import IdField, WholeNumberField
from openvibe.api.idempotency import idempotent
from openvibe.api.views import ApiView
from openvibe.chat.queries import access_by, access_channel
from openvibe.workspaces.access import Access
from openvibe.workspaces.api.serializers import ParticipantOut
from openvibe.workspaces.decorators import request_access

REST_HELP = "Minutes that people have said nothing in a thread before it looks, 1 to 240."


class ThresholdOut(serializers.Serializer[Threshold]):
    rest_minutes = serializers.SerializerMethodField(help_text="So many minutes it waits by now.")
    percent = serializers.IntegerField(help_text="So sure it has to be by now.")
    not_helpful = serializers.IntegerField(help_text="Verdicts of the last 30 days that raised both.")

    def get_rest_minutes(self, threshold: Threshold) -> int:
        return int(threshold.rest.total_seconds() // 60)


class WatchOut(serializers.ModelSerializer[Watch]):
    agent = serializers.CharField(source="agent.handle", read_only=True)
    channel = serializers.IntegerField(source="channel_id", read_only=True)
    author = ParticipantOut(read_only=True)
    note = serializers.CharField(
        read_only=True, help_text="Why it did not look the last time, or who stopped it; or empty."
    )
    threshold = ThresholdOut(read_only=True)

    class Meta:
        model = Watch
        fields = (
            *("id", "agent", "channel", "is_active", "rest_minutes", "threshold", "note", "silence_count"),
            *("post_count", "author", "created_at", "updated_at"),
        )
        read_only_fields = fields


class WatchChange(serializers.Serializer[Any]):
    rest_minutes = WholeNumberField(required=False, min_value=1, max_value=240, help_text=REST_HELP)
    is_active = serializers.BooleanField(required=False)
    resets_threshold = serializers.BooleanField(
        required=False, default=False, help_text="What people said until now of what it posted there counts no more."
    )


class WatchIn(serializers.Serializer[Any]):
    agent = serializers.CharField(max_length=40, help_text="A handle.")
    channel = IdField(help_text="A channel that the agent is in.")
    rest_minutes = WholeNumberField(
        required=False, default=DEFAULT_REST_MINUTES, min_value=1, max_value=240, help_text=REST_HELP
    )
    is_active = serializers.BooleanField(required=False, default=True)


class WatchesQuery(serializers.Serializer[Any]):
    agent = serializers.CharField(
        required=False, max_length=40, help_text="A handle.", source="agent__participant__handle"
    )


class Watches(ApiView):
    scopes = {"POST": "admin"}

    @extend_schema(operation_id="watches_list", parameters=[WatchesQuery], responses=WatchOut(many=True))
    def get(self, request: Request) -> Response:
        """The channels that agents watch, where the caller reads."""
        rows = _visible_watches(request_access(request)).filter(**self.validated_query(WatchesQuery))
        page = _add_thresholds(self.paginate_queryset(rows) or [])
        return self.get_paginated_response(WatchOut(page, many=True).data)

    @extend_schema(operation_id="watches_create", request=WatchIn, responses={201: WatchOut})
    @idempotent
    def post(self, request: Request) -> Response:
        """Let an agent of L3 or L4 look, once the talk in a channel rests, whether to speak up. Admins."""
        access, body = request_access(request), self.validated_body(WatchIn)
        channel = access_channel(access, body["channel"])
        agent = access_agent_by_handle(access, body["agent"])
        values = {name: body[name] for name in ("rest_minutes", "is_active")}
        watch = create_watch(agent=agent, by=access, channel=channel, **values)
        return Response(_watch_data(access, watch.pk), status=201)


class OneWatch(ApiView):
    scopes = {"PATCH": "admin"}

    @extend_schema(operation_id="watches_get", responses=WatchOut)
    def get(self, request: Request, pk: int) -> Response:
        """One of them."""
        return Response(_watch_data(request_access(request), pk))

    @extend_schema(operation_id="watches_update", request=WatchChange, responses=WatchOut)
    def patch(self, request: Request, pk: int) -> Response:
        """Change how long it waits, stop it or start it again (`is_active`), or forget the verdicts. Admins."""
        access, body = request_access(request), self.validated_body(WatchChange)
        watch = _access_watch(access, pk)
        update_watch(watch=watch, by=access, **body)
        return Response(_watch_data(access, pk))


class StopWatch(ApiView):
    @extend_schema(operation_id="watches_stop", request=None, responses=WatchOut)
    def post(self, request: Request, pk: int) -> Response:
        """Stop it: any member who sees the channel may, guests excepted."""
        access = request_access(request)
        stop_watches(watches=[_access_watch(access, pk)], by=access)
        return Response(_watch_data(access, pk))


def _visible_watches(access: Access) -> QuerySet[Watch]:
    rows: QuerySet[Watch] = Watch.objects.visible_to(access)
    return rows.select_related("agent__participant", "agent__workspace", "author", "channel")


_access_watch = access_by("pk", _visible_watches)


def _add_thresholds(watches: list[Watch]) -> list[Watch]:
    """The watches, each with its `threshold`. One query."""
    thresholds = read_thresholds(watches)
    for watch in watches:
        watch.threshold = thresholds[watch.pk]  # type: ignore[attr-defined]  # for the serializer alone
    return watches


def _watch_data(access: Access, pk: int) -> dict[str, Any]:
    (watch,) = _add_thresholds([_access_watch(access, pk)])
    return dict(WatchOut(watch).data)
