"""The blocks an agent carries: read, written, appended to; their tool and their text."""

from typing import Any

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import BaseSerializer

from memory.api.block_serializers import (
    AgentAsked,
    AppendIn,
    BlockChange,
    BlockIn,
    BlockOut,
    BlocksOut,
    BlocksText,
    ToolsOut,
)
from memory.blocks import ContextBlock, ContextBlocks
from memory.blocks.rules import missing
from memory.services.blocks import agent_known_to, blocks_read_by, blocks_written_by
from openvibe.api.idempotency import creates
from openvibe.api.matching import StaleMatch, if_match, required_match
from openvibe.api.views import ApiView
from openvibe.base.problems import Conflict, Problem
from openvibe.workspaces.access import Access
from openvibe.workspaces.api.auth import asker
from openvibe.workspaces.models import Participant

MEMORY = "memory"


def if_match_header(required: bool) -> OpenApiParameter:
    return OpenApiParameter(
        "If-Match", str, OpenApiParameter.HEADER, required=required,
        description="The ETag the block was read with; another one by now is refused with 412.",
    )  # fmt: skip


def agent_asked(access: Access, asked: dict[str, Any]) -> Participant:
    """The agent that `?agent=` names; an agent that names none is itself. Raises Missing, Problem."""
    if "agent" in asked:
        return agent_known_to(access, asked["agent"].lstrip("@"))
    if access.is_agent:
        return Participant.objects.get(pk=access.participant_id)
    raise Problem("Say which agent: ?agent=handle.", code="choose_agent", field="agent")


class BlockView(ApiView):
    """A view on the blocks of one agent."""

    scopes = dict.fromkeys(("GET", "POST", "PUT", "DELETE"), MEMORY)

    def readable(self) -> ContextBlocks:
        access = asker(self.request)
        return blocks_read_by(agent_asked(access, self.asked(AgentAsked)), access)

    def writable(self) -> ContextBlocks:
        access = asker(self.request)
        return blocks_written_by(agent_asked(access, self.asked(AgentAsked)), access, "api")


class Blocks(BlockView):
    @extend_schema(operation_id="blocks_list", parameters=[AgentAsked], responses=BlocksOut)
    def get(self, request: Request) -> Response:
        """All blocks of an agent, sorted by label, predefined ones included. At most 20, so there are no pages."""
        return Response(BlocksOut({"results": self.readable().list()}).data)

    @extend_schema(operation_id="blocks_create", parameters=[AgentAsked], request=BlockIn, responses={201: BlockOut})
    @creates
    def post(self, request: Request) -> Response:
        """A new block. The agent itself, or an admin; only admins set limit and flag."""
        blocks, said = self.writable(), self.said(BlockIn)
        return answer(blocks.create(said.pop("label"), said.pop("content"), **said), status=201)


class OneBlock(BlockView):
    @extend_schema(operation_id="blocks_get", parameters=[AgentAsked], responses=BlockOut)
    def get(self, request: Request, label: str) -> Response:
        """One block; its ETag goes into If-Match."""
        block = self.readable().get(label)
        if block is None:
            raise missing(label)
        return answer(block)

    @extend_schema(
        operation_id="blocks_save", parameters=[AgentAsked, if_match_header(True)], request=BlockChange,
        responses=BlockOut,
    )  # fmt: skip
    def put(self, request: Request, label: str) -> Response:
        """The next version of a block, made on the one that If-Match names."""
        blocks, said = self.writable(), self.said(BlockChange)
        if blocks.get(label) is None:
            raise missing(label)
        seen = required_match(request)
        try:
            return answer(blocks.set(label, said.pop("content"), seen=seen, **said))
        except Conflict as problem:
            raise as_stale(problem) from None

    @extend_schema(
        operation_id="blocks_delete", parameters=[AgentAsked, if_match_header(False)], request=None,
        responses={204: None},
    )  # fmt: skip
    def delete(self, request: Request, label: str) -> Response:
        """Delete a block with its versions. A predefined one is empty again."""
        try:
            self.writable().delete(label, seen=if_match(request))
        except Conflict as problem:
            raise as_stale(problem) from None
        return Response(status=204)


class Appended(BlockView):
    @extend_schema(
        operation_id="blocks_append", parameters=[AgentAsked, if_match_header(False)], request=AppendIn,
        responses=BlockOut,
    )  # fmt: skip
    def post(self, request: Request, label: str) -> Response:
        """Add to the end of a block, after a newline. Nothing another writer added meanwhile is lost."""
        blocks, said = self.writable(), self.said(AppendIn)
        try:
            return answer(blocks.append(label, said["content"], seen=if_match(request)))
        except Conflict as problem:
            raise as_stale(problem) from None


class Tools(BlockView):
    @extend_schema(operation_id="blocks_tools", parameters=[AgentAsked], responses=ToolsOut)
    def get(self, request: Request) -> Response:
        """The tool to write these blocks with, for a model; an empty list when nothing may be written."""
        tool = self.readable().tool()
        return Response(ToolsOut({"tools": [tool] if tool else []}).data)


class Text(BlockView):
    @extend_schema(operation_id="blocks_text", parameters=[AgentAsked], responses=BlocksText)
    def get(self, request: Request) -> Response:
        """The blocks as a prompt shows them."""
        return Response(BlocksText({"text": self.readable().text()}).data)


def answer(block: ContextBlock, status: int = 200) -> Response:
    shown: BaseSerializer[Any] = BlockOut(block)
    return Response(shown.data, status=status, headers={"ETag": f'"{block.stamp}"'})


def as_stale(problem: Conflict) -> Problem:
    """What the header named is not the newest version: 412, as for SOULs."""
    return StaleMatch(problem.message)
