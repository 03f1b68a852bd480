"""Context blocks and profile notes: serializers and endpoints."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import BaseSerializer

from memory.blocks.context_blocks import ContextBlocks
from memory.blocks.queries import access_agent, access_blocks, access_last_speaker, access_notes, access_person
from memory.blocks.services import access_blocks_for_update, update_notes
from memory.blocks.values import BLOCK_TOKEN_LIMIT, ContextBlock
from openvibe.api.etags import PreconditionFailed, read_if_match, require_if_match
from openvibe.api.fields import IdField, TextField, WholeNumberField
from openvibe.api.idempotency import idempotent
from openvibe.api.views import ApiView
from openvibe.base.problems import Conflict, Problem
from openvibe.chat.services import check_agent_tool
from openvibe.workspaces.access import Access
from openvibe.workspaces.decorators import request_access
from openvibe.workspaces.models import Participant


class AgentQuery(serializers.Serializer[Any]):
    agent = serializers.CharField(
        required=False, max_length=40, help_text="Whose blocks: a handle. People say it; an agent means itself."
    )


class BlockOut(serializers.Serializer[Any]):
    label = serializers.CharField()  # type: ignore[assignment]  # a field has an attribute of this name
    description = serializers.CharField()
    content = serializers.CharField()
    tokens = serializers.IntegerField(help_text="Tokens of the content (o200k_base).")
    max_tokens = serializers.IntegerField(help_text="The most the content may have.")
    readonly = serializers.BooleanField()
    version = serializers.IntegerField(help_text="0: predefined, and not written yet.")
    etag = serializers.CharField(source="stamp", help_text="For If-Match, in quotes.")


class BlocksOut(serializers.Serializer[Any]):
    results = BlockOut(many=True)


class BlockChange(serializers.Serializer[Any]):
    """What is left out of a change stays as it is."""

    content = TextField(help_text="At most `max_tokens` tokens.")
    description = TextField(required=False, help_text="At most 300 characters.")
    max_tokens = WholeNumberField(
        required=False, min_value=1, max_value=BLOCK_TOKEN_LIMIT, help_text="Only admins set it."
    )
    readonly = serializers.BooleanField(
        required=False, allow_null=True, default=None, help_text="Only admins set it. Left out: as it is."
    )


class BlockIn(BlockChange):
    label = serializers.CharField(  # type: ignore[assignment]  # a field has an attribute of this name
        max_length=40, help_text="a–z, 0–9, _ and -, beginning with a letter."
    )
    content = TextField(required=False, default="", help_text="At most `max_tokens` tokens.")


class AppendIn(serializers.Serializer[Any]):
    content = TextField(help_text="Added at the end, after a newline.")


class BlockToolOut(serializers.Serializer[Any]):
    name = serializers.CharField()
    description = serializers.CharField()
    parameters = serializers.DictField(help_text="JSON schema of the arguments.")


class ToolsOut(serializers.Serializer[Any]):
    tools = BlockToolOut(many=True, help_text="Empty when no block may be written.")


class BlocksText(serializers.Serializer[Any]):
    text = serializers.CharField(help_text="Empty when no block says anything.")


class NotesQuery(AgentQuery):
    person = serializers.CharField(required=False, max_length=40, help_text="About whom: a member's handle.")
    thread = IdField(required=False, help_text="Instead: whoever spoke last in this thread.")


class NotesOut(serializers.Serializer[Any]):
    agent = serializers.CharField(source="agent.handle")
    person = serializers.CharField(source="person.handle")
    content = serializers.CharField()
    tokens = serializers.IntegerField(help_text="Tokens of the content (o200k_base).")
    max_tokens = serializers.IntegerField()
    version = serializers.IntegerField(help_text="0: nothing noted yet.")


class NotesIn(serializers.Serializer[Any]):
    content = TextField(source="text", help_text="The notes, whole; empty clears them.")


def _if_match_header(description: str, *, required: bool = True) -> OpenApiParameter:
    return OpenApiParameter("If-Match", str, OpenApiParameter.HEADER, required=required, description=description)


_BLOCK_ETAG_HELP = "The ETag the block was read with; another one by now is refused with 412."
IF_MATCH = _if_match_header(_BLOCK_ETAG_HELP)
MAY_MATCH = _if_match_header(_BLOCK_ETAG_HELP, required=False)
NOTES_IF_MATCH = _if_match_header("The ETag the notes were read with; `0` (quoted) for the first ones.")


@contextmanager
def _stale_as_precondition() -> Iterator[None]:
    """What the header named is not the newest version: 412, as for SOULs."""
    try:
        yield
    except Conflict as problem:
        raise PreconditionFailed(problem.message) from None


def access_requested_agent(access: Access, params: dict[str, Any]) -> Participant:
    """The agent that `?agent=` names; an agent that names none is itself. Raises Missing, Problem."""
    if "agent" in params:
        return access_agent(access, params["agent"].lstrip("@"))
    if access.is_agent:
        return Participant.objects.get(pk=access.participant_id)
    raise Problem("Say which agent: ?agent=handle.", code="choose_agent", field="agent")


class BlockView(ApiView):
    """A view on the blocks of one agent."""

    scopes = dict.fromkeys(("GET", "POST", "PUT", "DELETE"), "memory")

    def readable(self) -> ContextBlocks:
        access = request_access(self.request)
        return access_blocks(access_requested_agent(access, self.validated_query(AgentQuery)), access)

    def writable(self) -> ContextBlocks:
        access = request_access(self.request)
        check_agent_tool(access, "update_context_block")
        return access_blocks_for_update(access_requested_agent(access, self.validated_query(AgentQuery)), access, "api")


class Blocks(BlockView):
    @extend_schema(operation_id="blocks_list", parameters=[AgentQuery], responses=BlocksOut)
    def get(self, request: Request) -> Response:
        """All blocks of an agent, sorted by label, predefined ones included. At most 20, so there are no pages."""
        return Response(BlocksOut({"results": self.readable().list()}).data)

    @extend_schema(operation_id="blocks_create", parameters=[AgentQuery], request=BlockIn, responses={201: BlockOut})
    @idempotent
    def post(self, request: Request) -> Response:
        """A new block. The agent itself, or an admin; only admins set limit and flag."""
        blocks, payload = self.writable(), self.validated_body(BlockIn)
        return _block_response(blocks.create(payload.pop("label"), payload.pop("content"), **payload), status=201)


class OneBlock(BlockView):
    @extend_schema(operation_id="blocks_get", parameters=[AgentQuery], responses=BlockOut)
    def get(self, request: Request, label: str) -> Response:
        """One block; its ETag goes into If-Match."""
        return _block_response(self.readable().access(label))

    @extend_schema(
        operation_id="blocks_update", parameters=[AgentQuery, IF_MATCH], request=BlockChange, responses=BlockOut
    )
    def put(self, request: Request, label: str) -> Response:
        """The next version of a block, made on the one that If-Match names."""
        blocks, payload = self.writable(), self.validated_body(BlockChange)
        blocks.access(label)
        based_on = require_if_match(request)
        with _stale_as_precondition():
            return _block_response(blocks.set(label, payload.pop("content"), based_on=based_on, **payload))

    @extend_schema(
        operation_id="blocks_delete", parameters=[AgentQuery, MAY_MATCH], request=None, responses={204: None}
    )
    def delete(self, request: Request, label: str) -> Response:
        """Delete a block with its versions. A predefined one is empty again."""
        with _stale_as_precondition():
            self.writable().delete(label, based_on=read_if_match(request))
        return Response(status=204)


class AppendToBlock(BlockView):
    @extend_schema(
        operation_id="blocks_append", parameters=[AgentQuery, MAY_MATCH], request=AppendIn, responses=BlockOut
    )
    def post(self, request: Request, label: str) -> Response:
        """Add to the end of a block, after a newline. Nothing another writer added meanwhile is lost."""
        blocks, payload = self.writable(), self.validated_body(AppendIn)
        with _stale_as_precondition():
            return _block_response(blocks.append(label, payload["content"], based_on=read_if_match(request)))


class Tools(BlockView):
    @extend_schema(operation_id="blocks_get_tools", parameters=[AgentQuery], responses=ToolsOut)
    def get(self, request: Request) -> Response:
        """The tool to write these blocks with, for a model; an empty list when nothing may be written."""
        tool = self.readable().tool()
        return Response(ToolsOut({"tools": [tool] if tool else []}).data)


class Text(BlockView):
    @extend_schema(operation_id="blocks_get_text", parameters=[AgentQuery], responses=BlocksText)
    def get(self, request: Request) -> Response:
        """The blocks as a prompt shows them."""
        return Response(BlocksText({"text": self.readable().text()}).data)


def _block_response(block: ContextBlock, status: int = 200) -> Response:
    return _etag_response(BlockOut(block), block.stamp, status)


def _etag_response(serializer: BaseSerializer[Any], stamp: str | int, status: int = 200) -> Response:
    return Response(serializer.data, status=status, headers={"ETag": f'"{stamp}"'})


class Profile(ApiView):
    scopes = dict.fromkeys(("GET", "PUT"), "memory")

    @extend_schema(operation_id="profile_get", parameters=[NotesQuery], responses=NotesOut)
    def get(self, request: Request) -> Response:
        """An agent's notes about a person: its own for an agent, all for admins, those about herself for a member."""
        agent, person, access = self._access_requested(request)
        notes = access_notes(agent=agent, person=person, by=access)
        return _etag_response(NotesOut(notes), notes.version)

    @extend_schema(
        operation_id="profile_update", parameters=[NotesQuery, NOTES_IF_MATCH], request=NotesIn, responses=NotesOut
    )
    def put(self, request: Request) -> Response:
        """Replace the notes, at most 500 tokens; empty clears them. A member may only clear those about herself.

        An agent that names the thread it learned it in may do so only where that is open to everybody.
        """
        agent, person, access = self._access_requested(request)
        thread_id = self.validated_query(NotesQuery).get("thread")
        check_agent_tool(access, "memory", thread_id)
        access_notes(agent=agent, person=person, by=access)
        payload, version = self.validated_body(NotesIn), _required_version(request)
        with _stale_as_precondition():
            notes = update_notes(
                agent=agent,
                person=person,
                by=access,
                text=payload["text"],
                how="api",
                version=version,
                thread_id=thread_id,
            )
        return _etag_response(NotesOut(notes), notes.version)

    def _access_requested(self, request: Request) -> tuple[Participant, Participant, Access]:
        access, params = request_access(request), self.validated_query(NotesQuery)
        agent = access_requested_agent(access, params)
        if "person" in params:
            person = access_person(access, params["person"].lstrip("@"))
        elif "thread" in params:
            person = access_last_speaker(access, params["thread"])
        elif not access.is_agent:
            person = Participant.objects.get(pk=access.participant_id)
        else:
            raise Problem("Say about whom: ?person=handle or ?thread=id.", code="choose_person", field="person")
        return agent, person, access


def _required_version(request: Request) -> int:
    value = require_if_match(request)
    if not (value.isascii() and value.isdigit() and len(value) < 10):
        raise PreconditionFailed('If-Match is the ETag of the notes, such as "3".', field="If-Match")
    return int(value)
