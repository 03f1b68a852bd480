"""Codes by which an agent's program joins, and their exchange for a token."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response

from agents.api.views import access_agent_by_handle
from agents.connect.join_codes import create_join_code, join_lines, use_join_code
from openvibe.api.fields import TextField
from openvibe.api.throttles import AddressThrottle
from openvibe.api.views import ApiView
from openvibe.workspaces.decorators import request_access


class JoinCodeIn(serializers.Serializer[Any]):
    command = TextField(
        required=False, default="claude", help_text="What is run as the agent, as it is typed in a terminal."
    )


class JoinCodeOut(serializers.Serializer[Any]):
    code = serializers.CharField(help_text="Shown this once; it lets one program in.")
    line = serializers.CharField(help_text="To be pasted where the agent is to run, on a machine with uv.")
    pip_line = serializers.CharField(help_text="The same, for a machine that has pip alone.")
    expires_at = serializers.DateTimeField(help_text="Ten minutes after it was made.")


class JoinIn(serializers.Serializer[Any]):
    code = serializers.CharField(max_length=40, help_text="In capital or small letters, with or without dashes.")
    host = serializers.CharField(
        required=False, allow_blank=True, default="", max_length=200, help_text="The name of the machine."
    )
    command = serializers.CharField(
        required=False, allow_blank=True, default="", max_length=400, help_text="The program that answers."
    )
    client = serializers.CharField(
        required=False,
        allow_blank=True,
        default="",
        max_length=100,
        help_text="The client that calls, and its version.",
    )


class JoinedOut(serializers.Serializer[Any]):
    url = serializers.CharField(help_text="The address of this server, without a slash at its end.")
    token = serializers.CharField(help_text="Of the agent, with the scopes that agents need. Shown this once.")
    handle = serializers.CharField()
    name = serializers.CharField(help_text="The agent's name, as people read it.")
    workspace = serializers.CharField(help_text="The workspace's slug.")
    permission_minutes = serializers.IntegerField(
        help_text="How long a question for permission waits for an answer; then it is denied."
    )
    run_minutes = serializers.IntegerField(help_text="How long a run may take.")


class JoinCodes(ApiView):
    scopes = {"POST": "admin"}

    @extend_schema(operation_id="agents_create_join_code", request=JoinCodeIn, responses={201: JoinCodeOut})
    def post(self, request: Request, handle: str) -> Response:
        """Make a code by which one program joins as the agent, within ten minutes. Codes of the agent that were not
        used hold no longer. Owners and admins who read all that the agent reads; 409 `answered_here` for one that
        OpenVibe answers for, `agent_inactive` for one that is deactivated."""
        access, data = request_access(request), self.validated_body(JoinCodeIn)
        agent = access_agent_by_handle(access, handle)
        code = create_join_code(agent=agent, by=access, command=data["command"])
        lines = join_lines(code, request.build_absolute_uri("/"))
        payload = {"code": code.code, "line": lines.uv, "pip_line": lines.pip, "expires_at": code.expires_at}
        return Response(JoinCodeOut(payload).data, status=201)


class Join(ApiView):
    authentication_classes = ()
    permission_classes = (AllowAny,)
    throttle_classes = (AddressThrottle,)

    @extend_schema(operation_id="join_create", request=JoinIn, responses={201: JoinedOut}, auth=[])
    def post(self, request: Request) -> Response:
        """Exchange a code for a token of its agent: once, and within ten minutes of its making. 400 `bad_code` for one
        that is wrong, used or late; of two that send one code at once, one gets the token. Twenty calls a minute from
        one address."""
        joined = use_join_code(**self.validated_body(JoinIn))
        agent = joined.agent
        payload = {
            "url": request.build_absolute_uri("/").rstrip("/"),
            "token": joined.secret,
            "handle": agent.handle,
            "name": agent.participant.name,
            "workspace": agent.workspace.slug,
            "permission_minutes": agent.permission_minutes,
            "run_minutes": agent.run_minutes,
        }
        return Response(JoinedOut(payload).data, status=201)
