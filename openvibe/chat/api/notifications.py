"""Endpoints of what a person is notified of."""

from datetime import datetime
from typing import Any

from django.db import transaction
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from openvibe.api.fields import ChoiceField, ClockTimeField, TextField
from openvibe.api.views import ApiView
from openvibe.chat import queries, services
from openvibe.chat.models import Channel, Thread
from openvibe.engines.database.time_zones import is_time_zone
from openvibe.workspaces.access import Access
from openvibe.workspaces.decorators import request_access
from openvibe.workspaces.models import NotificationLevel, User
from openvibe.workspaces.services import pause_notifications, set_quiet_hours


class NotificationsOut(serializers.Serializer[Any]):
    level = ChoiceField(choices=NotificationLevel.choices, help_text="What holds.")
    chosen = ChoiceField(
        choices=NotificationLevel.choices,
        allow_null=True,
        help_text="The caller's own choice for it; null where what is around it holds (channel, then default).",
    )


class NotificationsIn(serializers.Serializer[Any]):
    level = TextField(allow_null=True, help_text="all, mentions or nothing (mute); null for what is around it.")


class DefaultNotificationsOut(serializers.Serializer[Any]):
    level = ChoiceField(
        choices=NotificationLevel.choices, help_text="What holds where no channel or thread says otherwise."
    )


class DefaultNotificationsIn(serializers.Serializer[Any]):
    level = TextField(help_text="all, mentions or nothing.")


class DoNotDisturbOut(serializers.Serializer[Any]):
    until = serializers.DateTimeField(source="dnd_until", allow_null=True, help_text="No notifications until then.")
    start = ClockTimeField(source="dnd_start", allow_null=True, help_text="Daily from then.")
    end = ClockTimeField(source="dnd_end", allow_null=True, help_text="Daily until then.")
    time_zone = serializers.CharField(help_text="Of the daily hours, as in Europe/Berlin; empty where none is known.")
    ends_at = serializers.SerializerMethodField(help_text="When notifications come again; null where they come now.")

    def get_ends_at(self, user: User) -> datetime | None:
        return user.do_not_disturb.ends_at(timezone.now())


class DoNotDisturbIn(serializers.Serializer[Any]):
    until = serializers.DateTimeField(required=False, allow_null=True, help_text="Null ends a pause.")
    start = ClockTimeField(
        source="dnd_start", required=False, allow_null=True, help_text="As in 22:00, with `end`; null: no hours."
    )
    end = ClockTimeField(
        source="dnd_end", required=False, allow_null=True, help_text="As in 07:00, the next day where it is earlier."
    )
    time_zone = TextField(required=False, help_text="Of the hours, for who chose none in the profile.")

    def validate_time_zone(self, name: str) -> str:
        if name and not is_time_zone(name):
            raise serializers.ValidationError("Give a time zone as in Europe/Berlin.")
        return name


class Notifications(ApiView):
    @extend_schema(operation_id="notifications_get", responses=DefaultNotificationsOut)
    def get(self, request: Request) -> Response:
        """What the caller is notified of where no channel or thread says otherwise. People only."""
        access = request_access(request)
        services.check_is_person(access)
        return Response({"level": queries.notification_level(access)})

    @extend_schema(
        operation_id="notifications_update", request=DefaultNotificationsIn, responses=DefaultNotificationsOut
    )
    def patch(self, request: Request) -> Response:
        """Another default."""
        level = self.validated_body(DefaultNotificationsIn)["level"]
        return Response({"level": services.set_default_notification_level(by=request_access(request), level=level)})


class DoNotDisturbSettings(ApiView):
    @extend_schema(operation_id="do_not_disturb_get", responses=DoNotDisturbOut)
    def get(self, request: Request) -> Response:
        """When the caller wants no notifications, in all workspaces. People only."""
        return Response(DoNotDisturbOut(_person(request)).data)

    @extend_schema(operation_id="do_not_disturb_update", request=DoNotDisturbIn, responses=DoNotDisturbOut)
    @transaction.atomic
    def patch(self, request: Request) -> Response:
        """A pause, daily hours, or both. What is not sent stays."""
        data, user = self.validated_body(DoNotDisturbIn), _person(request)
        if "until" in data:
            pause_notifications(user=user, until=data["until"])
        if data.keys() & {"dnd_start", "dnd_end", "time_zone"}:
            start, end = data.get("dnd_start", user.dnd_start), data.get("dnd_end", user.dnd_end)
            set_quiet_hours(user=user, start=start, end=end, zone=data.get("time_zone", ""))
        return Response(DoNotDisturbOut(user).data)


def _person(request: Request) -> User:
    """The caller's account. Raises Refused for an agent."""
    access = request_access(request)
    services.check_is_person(access)
    return User.objects.get(memberships__participant=access.participant_id)


class ChannelNotifications(ApiView):
    @extend_schema(operation_id="channels_get_notifications", responses=NotificationsOut)
    def get(self, request: Request, pk: int) -> Response:
        """What the caller is notified of in a channel. People only."""
        access = request_access(request)
        return _answer(access, queries.access_channel(access, pk))

    @extend_schema(operation_id="channels_notify", request=NotificationsIn, responses=NotificationsOut)
    def put(self, request: Request, pk: int) -> Response:
        """Choose it. `nothing` mutes: what is new there is not marked as new."""
        access = request_access(request)
        return _choose(access, queries.access_channel(access, pk), self.validated_body(NotificationsIn)["level"])


class ThreadNotifications(ApiView):
    @extend_schema(operation_id="threads_get_notifications", responses=NotificationsOut)
    def get(self, request: Request, pk: int) -> Response:
        """What the caller is notified of in a thread. People only."""
        access = request_access(request)
        return _answer(access, queries.access_thread(access, pk))

    @extend_schema(operation_id="threads_notify", request=NotificationsIn, responses=NotificationsOut)
    def put(self, request: Request, pk: int) -> Response:
        """Choose it; it wins over the channel's. `nothing` mutes: what is new there is not marked as new."""
        access = request_access(request)
        thread = queries.access_thread(access, pk)
        return _choose(access, thread, self.validated_body(NotificationsIn)["level"])


def _choose(access: Access, scope: Channel | Thread, level: str | None) -> Response:
    services.set_notification_level(scope=scope, by=access, level=level or "")
    return _answer(access, scope)


def _answer(access: Access, scope: Channel | Thread) -> Response:
    services.check_is_person(access)
    chosen_level = queries.chosen_notification_level(access, scope)
    return Response({"level": queries.notification_level(access, scope), "chosen": chosen_level or None})
