"""The agents of a workspace, and their SOULs."""

from typing import Any

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from agents.api.serializers import AgentOut, SoulIn, SoulOut
from agents.models import Agent
from agents.services import save_soul
from agents.soul import SoulError
from openvibe.api.matching import StaleMatch, required_match
from openvibe.api.views import ApiView
from openvibe.base.problems import Problem, Refused
from openvibe.chat.querysets import participants_known_to
from openvibe.workspaces.access import Access
from openvibe.workspaces.api.auth import asker

IF_MATCH = OpenApiParameter(
    "If-Match", str, OpenApiParameter.HEADER, required=True,
    description="The ETag the SOUL was read with; `0` (quoted) for the first version.",
)  # fmt: skip


def agents_known_to(access: Access) -> QuerySet[Agent]:
    """Active agents the asker knows; admins also know deactivated ones."""
    agents = Agent.objects.filter(workspace_id=access.workspace_id).select_related("participant", "workspace", "soul")
    if access.administers:
        return agents
    return agents.filter(participant__in=participants_known_to(access).order_by().values("pk"))


class Agents(ApiView):
    page_order = "id"

    @extend_schema(operation_id="agents_list", responses=AgentOut(many=True))
    def get(self, request: Request) -> Response:
        """The workspace's agents."""
        return self.page(agents_known_to(asker(request)), AgentOut)


class OneAgent(ApiView):
    @extend_schema(operation_id="agents_get", responses=AgentOut)
    def get(self, request: Request, handle: str) -> Response:
        """One agent."""
        return Response(AgentOut(_agent(handle, asker(request))).data)


class OneSoul(ApiView):
    scopes = {"PUT": "admin"}

    @extend_schema(operation_id="soul_get", responses=SoulOut)
    def get(self, request: Request, handle: str) -> Response:
        """The SOUL and its versions: admins, and the agent its own."""
        access = asker(request)
        return _answer(_readable(_agent(handle, access), access))

    @extend_schema(operation_id="soul_save", parameters=[IF_MATCH], request=SoulIn, responses=SoulOut)
    def put(self, request: Request, handle: str) -> Response:
        """Save the next version, made on the one that If-Match names. Admins."""
        access = asker(request)
        agent, said = _readable(_agent(handle, access), access), self.said(SoulIn)
        based_on, newest = _matched(request), agent.soul.number if agent.soul else 0
        if access.administers and based_on != newest:
            raise StaleMatch(f"The newest version is {newest}. Read it, compare, then save again.")
        try:
            save_soul(agent=agent, by=access, text=said["source"], note=said["note"], based_on=based_on)
        except SoulError as error:
            raise Problem(str(error), code="bad_soul", field="source") from None
        return _answer(_agent(handle, access))


def _agent(handle: str, access: Access) -> Agent:
    return get_object_or_404(agents_known_to(access), participant__handle=handle)


def _readable(agent: Agent, access: Access) -> Agent:
    if not access.administers and access.participant_id != agent.participant_id:
        raise Refused("Only owners, admins and the agent itself may read a SOUL.")
    return agent


def _matched(request: Request) -> int:
    number = required_match(request)
    if not (number.isascii() and number.isdigit() and len(number) < 10):
        raise StaleMatch('If-Match is the ETag of the SOUL, such as "3".', field="If-Match")
    return int(number)


def _answer(agent: Agent) -> Response:
    soul = agent.soul
    shown: dict[str, Any] = {
        "number": soul.number if soul else 0,
        "source": soul.source if soul else "",
        "content": soul.content if soul else {},
        "versions": agent.soul_versions.select_related("author")[:100],
    }
    return Response(SoulOut(shown).data, headers={"ETag": f'"{shown["number"]}"'})
