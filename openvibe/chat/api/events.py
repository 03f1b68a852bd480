"""The endpoint of the event stream: the browser's, for programs. It is served on the ASGI side."""

from typing import Any, cast

from django.http import HttpResponseBase
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.request import Request

from openvibe.api.auth import caller_of
from openvibe.api.fields import ChoiceField, IdField, WholeNumberField
from openvibe.api.views import ApiView
from openvibe.base.params import MAX_ID
from openvibe.base.problems import Problem
from openvibe.chat.api.event_frames import ApiFrames
from openvibe.chat.live.stream import event_response, parse_position
from openvibe.chat.live.viewers import Viewer
from openvibe.engines.serving.streams import EVENT_STREAM_TYPE
from openvibe.workspaces.decorators import request_access
from openvibe.workspaces.models import User


class EventsParams(serializers.Serializer[Any]):
    after = WholeNumberField(
        required=False, min_value=0, max_value=MAX_ID, help_text="The last position seen; or send Last-Event-ID."
    )
    include = ChoiceField(choices=["data"], required=False, help_text="The message of each event, too.")
    kind = serializers.ListField(
        child=serializers.CharField(max_length=40),
        max_length=20,
        required=False,
        help_text="Only events of these kinds: `mention`, `message_posted`, `message_changed`, …; may be repeated.",
    )
    thread = serializers.ListField(
        child=IdField(), max_length=50, required=False, help_text="Only events of these threads; may be repeated."
    )


def viewer_of(request: Request) -> Viewer:
    """The viewer who listens: the token, or the browser's session, has to hold all the while."""
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
