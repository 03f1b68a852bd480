"""Schedules of agents: serializers and endpoints."""

from datetime import datetime
from typing import Any

from django.db.models import QuerySet
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from agents.agent.models import Schedule
from agents.api.views import access_agent_by_handle
from agents.schedules.recurrence import next_times
from agents.schedules.services import ScheduleDraft, create_schedule, delete_schedule, stop_schedules, update_schedule
from openvibe.api.fields import IdField, TextField
from openvibe.api.idempotency import idempotent
from openvibe.api.views import ApiView
from openvibe.base.problems import Problem
from openvibe.chat.models import Channel, Thread
from openvibe.chat.queries import access_by, access_channel
from openvibe.workspaces.access import Access
from openvibe.workspaces.api.serializers import ParticipantOut
from openvibe.workspaces.decorators import request_access

CRON_HELP = "Minute, hour, day of month, month, day of week, as in `0 9 * * mon-fri`. A day must match both its fields."
PLACE_HELP = "It posts in this thread, or without one in a new thread of `channel` each time."


class ScheduleOut(serializers.ModelSerializer[Schedule]):
    agent = serializers.CharField(source="agent.handle", read_only=True)
    channel = serializers.IntegerField(source="channel_id", read_only=True)
    thread = serializers.IntegerField(source="thread_id", read_only=True, allow_null=True, help_text=PLACE_HELP)
    author = ParticipantOut(read_only=True)
    note = serializers.CharField(read_only=True, help_text="Why it did not run, or was stopped; or empty.")
    next_times = serializers.SerializerMethodField(help_text="The next three; none while it is stopped.")

    class Meta:
        model = Schedule
        fields = (
            *("id", "agent", "name", "cron", "time_zone", "prompt", "channel", "thread", "is_active", "note"),
            *("author", "next_times", "last_due_at", "created_at", "updated_at"),
        )
        read_only_fields = fields

    def get_next_times(self, schedule: Schedule) -> list[datetime]:
        return next_times(schedule.cron, schedule.time_zone, timezone.now(), 3) if schedule.is_active else []


class ScheduleChange(serializers.Serializer[Any]):
    name = TextField(required=False, help_text="At most 80 characters.")
    cron = TextField(required=False, help_text=CRON_HELP)
    time_zone = TextField(required=False, help_text="As in Europe/Berlin.")
    prompt = TextField(required=False, help_text="What it is to do then. At most 4,000 characters.")
    channel = IdField(required=False, help_text="A new thread there each time.")
    thread = IdField(required=False, help_text=PLACE_HELP)
    is_active = serializers.BooleanField(required=False)


class ScheduleIn(ScheduleChange):
    agent = serializers.CharField(max_length=40, help_text="A handle.")
    name = TextField(help_text="At most 80 characters.")
    cron = TextField(help_text=CRON_HELP)
    time_zone = TextField(required=False, default="UTC", help_text="As in Europe/Berlin.")
    prompt = TextField(help_text="What it is to do then. At most 4,000 characters.")
    is_active = serializers.BooleanField(required=False, default=True)


class SchedulesQuery(serializers.Serializer[Any]):
    agent = serializers.CharField(
        required=False, max_length=40, help_text="A handle.", source="agent__participant__handle"
    )


class Schedules(ApiView):
    scopes = {"POST": "admin"}

    @extend_schema(operation_id="schedules_list", parameters=[SchedulesQuery], responses=ScheduleOut(many=True))
    def get(self, request: Request) -> Response:
        """What agents post unasked, where the caller reads."""
        rows = _visible_schedules(request_access(request)).filter(**self.validated_query(SchedulesQuery))
        return self.paginated_response(rows, ScheduleOut)

    @extend_schema(operation_id="schedules_create", request=ScheduleIn, responses={201: ScheduleOut})
    @idempotent
    def post(self, request: Request) -> Response:
        """Let an agent of L3 or L4 post on schedule: at most 20 times a day, its cooldown apart. Admins."""
        access, body = request_access(request), self.validated_body(ScheduleIn)
        channel, thread = _place(access, body)
        agent = access_agent_by_handle(access, body["agent"])
        names = ("name", "cron", "time_zone", "prompt", "is_active")
        draft = ScheduleDraft(**{name: body[name] for name in names}, channel=channel, thread=thread)
        schedule = create_schedule(agent=agent, by=access, draft=draft)
        return Response(ScheduleOut(_access_schedule(access, schedule.pk)).data, status=201)


class OneSchedule(ApiView):
    scopes = {"PATCH": "admin", "DELETE": "admin"}

    @extend_schema(operation_id="schedules_get", responses=ScheduleOut)
    def get(self, request: Request, pk: int) -> Response:
        """One of them."""
        return Response(ScheduleOut(_access_schedule(request_access(request), pk)).data)

    @extend_schema(operation_id="schedules_update", request=ScheduleChange, responses=ScheduleOut)
    def patch(self, request: Request, pk: int) -> Response:
        """Say it anew, stop it or start it again (`is_active`). Admins."""
        access, body = request_access(request), self.validated_body(ScheduleChange)
        schedule = _access_schedule(access, pk)
        channel, thread = schedule.channel, schedule.thread
        if "channel" in body or "thread" in body:
            channel, thread = _place(access, body)
        names = ("name", "cron", "time_zone", "prompt", "is_active")
        fields = {name: body.get(name, getattr(schedule, name)) for name in names}
        update_schedule(schedule=schedule, by=access, draft=ScheduleDraft(**fields, channel=channel, thread=thread))
        return Response(ScheduleOut(_access_schedule(access, pk)).data)

    @extend_schema(operation_id="schedules_delete", responses={204: None})
    def delete(self, request: Request, pk: int) -> Response:
        """It posts no more; what it posted stays. Admins."""
        access = request_access(request)
        delete_schedule(schedule=_access_schedule(access, pk), by=access)
        return Response(status=204)


class StopSchedule(ApiView):
    @extend_schema(operation_id="schedules_stop", request=None, responses=ScheduleOut)
    def post(self, request: Request, pk: int) -> Response:
        """Stop it: any member who sees where it posts may, guests excepted."""
        access = request_access(request)
        stop_schedules(schedules=[_access_schedule(access, pk)], by=access)
        return Response(ScheduleOut(_access_schedule(access, pk)).data)


def _visible_schedules(access: Access) -> QuerySet[Schedule]:
    rows: QuerySet[Schedule] = Schedule.objects.visible_to(access)
    return rows.select_related("agent__participant", "author", "channel", "thread")


_access_schedule = access_by("pk", _visible_schedules)


def _place(access: Access, body: dict[str, Any]) -> tuple[Channel, Thread | None]:
    """Raises Missing for what the caller does not see, Problem where both or neither is named."""
    if ("channel" in body) == ("thread" in body):
        raise Problem("Name either a channel or a thread.", code="bad_place", field="channel")
    if "channel" in body:
        return access_channel(access, body["channel"]), None
    thread: Thread = _access_thread(access, body["thread"])
    return thread.channel, thread


_access_thread = access_by(
    "pk", lambda access: Thread.objects.visible_to(access).exclude_dives().select_related("channel")
)
