"""The event stream of the browser, for programs. Served on the ASGI side (openvibe/serving.py)."""

from typing import Any

from django.db import connection
from django.http import StreamingHttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.request import Request

from openvibe.api.callers import Caller, caller_of
from openvibe.api.models import Token
from openvibe.api.pagination import LARGEST
from openvibe.api.views import ApiView
from openvibe.chat.streaming import AccessNow, event_stream
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Participant
from openvibe.workspaces.services import access_of_participant

STREAM = "text/event-stream"


class EventsAsked(serializers.Serializer[Any]):
    after = serializers.IntegerField(
        required=False, min_value=0, max_value=LARGEST, help_text="The last position seen; or send Last-Event-ID."
    )


def access_now_of(caller: Caller) -> AccessNow:
    """Asks anew whether the caller may still listen: the token, and whoever it belongs to."""

    def access_now() -> Access | None:
        if caller.token is not None:
            token = Token.objects.filter(pk=caller.token.pk).first()
            if token is None or not token.is_valid:
                return None
        participant = Participant.objects.filter(pk=caller.participant.pk).first()
        return access_of_participant(participant) if participant else None

    return access_now


class Events(ApiView):
    @extend_schema(
        operation_id="events",
        parameters=[EventsAsked],
        responses={(200, STREAM): OpenApiResponse(OpenApiTypes.STR, "Server-sent events until the caller leaves.")},
    )
    def get(self, request: Request) -> StreamingHttpResponse:
        """What changes for the caller, as it changes: ids only. `id` is the position to go on from."""
        after = self.asked(EventsAsked).get("after")
        seen = request.headers.get("Last-Event-ID", "")
        if seen.isascii() and seen.isdigit() and len(seen) < 19:
            after = int(seen)
        stream = event_stream(access_now_of(caller_of(request)), after)
        if not connection.in_atomic_block:
            connection.close()  # a stream lasts, and would hold it all the while
        return StreamingHttpResponse(stream, content_type=STREAM, headers={"X-Accel-Buffering": "no"})
