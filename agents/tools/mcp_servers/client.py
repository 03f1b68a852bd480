"""One call to another program's MCP server: connect, list its tools, perhaps call one, leave; all within its limits.

Addresses are guarded (`openvibe.engines.network.ssrf_guard`), redirects are not followed, and what comes is read up to
a size and a time, however it drips. Loaded at the first call: the SDK takes a second of a processor and 17 MB."""

from __future__ import annotations

import asyncio
import hashlib
import json
import queue
import re
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

import httpx2
import mcp_types
from django.conf import settings
from jsonschema import Draft202012Validator, SchemaError  # type: ignore[import-untyped]  # it has no types
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CONNECTION_CLOSED, INVALID_REQUEST, PARSE_ERROR

from agents.agent.models import McpServer
from agents.tools.mcp_servers.lenient_messages import LenientMessages, result_text
from agents.tools.mcp_servers.readable_stream import ReadableStream
from agents.tools.mcp_servers.values import MAX_TOOLS, McpError, ToolChanged, ToolDefinition, ToolList
from openvibe.engines.llm.fences import clean_text
from openvibe.engines.network.ssrf_guard import AddressRefused, GuardedAsyncTransport
from openvibe.engines.text.cleaning import pluralize

if TYPE_CHECKING:
    from mcp.client._transport import Transport, TransportStreams

MAX_PAGES = 20
"""Pages of one list of tools."""

GRACE_SECONDS = 2.0
"""How long after its time-out a call may take to end; then it is left alone."""

_TOOL_NAME = re.compile(r"[!-~]{1,128}\Z")
T = TypeVar("T")


@dataclass
class _Progress:
    """How far a call got, for saying what went wrong."""

    was_sent: bool = False
    trouble: str = ""
    refused_tools: list[str] = field(default_factory=list)  # names of tools that cannot be read


def fetch_tools(server: McpServer) -> ToolList:
    """The tools the server has now, at most MAX_TOOLS. Raises McpError."""

    async def fetch(client: Client, progress: _Progress) -> ToolList:
        tool_list = await _list_tools(client)
        return replace(tool_list, unusable=[*tool_list.unusable, *progress.refused_tools])

    tool_list = _within_limits(server, fetch)
    tools = [tool for tool in tool_list.tools if _is_schema(tool.input_schema)]
    unusable = [tool.name for tool in tool_list.tools if tool not in tools]
    return replace(tool_list, tools=tools, unusable=[*tool_list.unusable, *unusable])


def call_tool(server: McpServer, name: str, arguments: Mapping[str, Any], *, fingerprint: str) -> str:
    """What the tool answers, as text. Raises McpError; ToolChanged unless it is the tool of this fingerprint still."""

    async def call(client: Client, progress: _Progress) -> str:
        tools = {tool.name: tool for tool in (await _list_tools(client)).tools}
        if name not in tools or tools[name].fingerprint != fingerprint:
            raise ToolChanged(
                f"{server.name} changed {name} since it was approved: it was not called. An admin must fetch the "
                "tools again."
            )
        progress.was_sent = True
        return result_text(await _call(client, name, arguments))

    return _within_limits(server, call)


async def _call(client: Client, name: str, arguments: Mapping[str, Any]) -> mcp_types.CallToolResult:
    """What it answers, also that it refuses the arguments.

    Not `client.call_tool`, which holds the answer against the server's own schema: its patterns are a stranger's
    regular expressions, and one can keep a whole process busy.
    """
    params = mcp_types.CallToolRequestParams(name=name, arguments=dict(arguments))
    try:
        return await client.session.send_request(mcp_types.CallToolRequest(params=params), mcp_types.CallToolResult)
    except MCPError as error:
        if error.code != mcp_types.INVALID_PARAMS:
            raise
        return mcp_types.CallToolResult(content=[mcp_types.TextContent(text=error.message)], is_error=True)


async def _list_tools(client: Client) -> ToolList:
    tools: list[ToolDefinition] = []
    unusable: list[str] = []
    cursor = None
    for _ in range(MAX_PAGES):
        page = await client.list_tools(cursor=cursor)
        tools += [_definition(tool) for tool in page.tools if _is_callable(tool)]
        unusable += [clean_text(tool.name)[:128] for tool in page.tools if not _is_callable(tool)]
        cursor = page.next_cursor
        if cursor is None or len(tools) >= MAX_TOOLS:
            break
    return ToolList(tools[:MAX_TOOLS], unusable, has_more=cursor is not None or len(tools) > MAX_TOOLS)


def _is_callable(tool: mcp_types.Tool) -> bool:
    """Whether it can be kept, and given to models: else a provider refuses every prompt that holds it."""
    properties, required = tool.input_schema.get("properties", {}), tool.input_schema.get("required", [])
    is_object = isinstance(properties, dict) and all(isinstance(schema, dict | bool) for schema in properties.values())
    is_list = isinstance(required, list) and all(isinstance(name, str) for name in required)
    try:
        json.dumps(tool.input_schema, allow_nan=False)
    except ValueError:
        return False
    return is_object and is_list and _TOOL_NAME.match(tool.name) is not None


def _is_schema(schema: dict[str, Any]) -> bool:
    """Whether it is JSON Schema, which providers check."""
    try:
        Draft202012Validator.check_schema(schema)
    except (SchemaError, RecursionError):
        return False
    return True


def _definition(tool: mcp_types.Tool) -> ToolDefinition:
    """Everything the server says of it is in the fingerprint."""
    whole = json.dumps(tool.model_dump(mode="json", by_alias=True, exclude_none=True), sort_keys=True)
    fingerprint = hashlib.sha256(whole.encode("utf-8", "surrogatepass")).hexdigest()
    return ToolDefinition(tool.name, clean_text(tool.description or ""), _clean_value(tool.input_schema), fingerprint)


def _clean_value(value: Any) -> Any:
    """The value without characters that cannot be kept or are not seen, however deep."""
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, dict):
        return {clean_text(key): _clean_value(inner) for key, inner in value.items()}
    return [_clean_value(inner) for inner in value] if isinstance(value, list) else value


def _within_limits(server: McpServer, operation: Callable[[Client, _Progress], Awaitable[T]]) -> T:
    """What the operation returns. It runs in a thread, which is left alone if it does not end in time."""
    results: queue.SimpleQueue[T | McpError] = queue.SimpleQueue()
    progress = _Progress()

    def run() -> None:
        try:
            results.put(asyncio.run(_run_connected(server, operation, progress)))
        except McpError as error:
            results.put(error)
        except BaseException as error:  # a sentence, whatever it is
            results.put(_as_mcp_error(server, error, progress))

    threading.Thread(target=run, name=f"mcp-{server.name}", daemon=True).start()
    try:
        result = results.get(timeout=server.timeout_seconds + GRACE_SECONDS)
    except queue.Empty:
        result = _timeout_error(server, progress)
    if isinstance(result, McpError):
        raise result
    return result


async def _run_connected(
    server: McpServer, operation: Callable[[Client, _Progress], Awaitable[T]], progress: _Progress
) -> T:
    transport = _ServerTransport(server, progress)
    headers = _headers(server)
    timeout = httpx2.Timeout(server.timeout_seconds)
    results: list[T] = []
    try:
        async with (
            asyncio.timeout(server.timeout_seconds),
            httpx2.AsyncClient(transport=transport, headers=headers, timeout=timeout, trust_env=False) as http,
            Client(
                _lenient_transport(streamable_http_client(server.url, http_client=http), progress), cache=None
            ) as client,
        ):
            results.append(await operation(client, progress))
    except Exception as error:  # when only leaving failed, there is a result
        if not results:
            if transport.was_too_large:
                progress.trouble = f"It answered more than {server.max_bytes:,} bytes, which were not read."
            raise (_timeout_error(server, progress) if isinstance(error, TimeoutError) else error) from None
    return results[0]


@asynccontextmanager
async def _lenient_transport(transport: Transport, progress: _Progress) -> AsyncIterator[TransportStreams]:
    async with transport as (messages, requests):
        yield LenientMessages(messages, progress.refused_tools), requests


def _headers(server: McpServer) -> dict[str, str]:
    plain = {"Accept-Encoding": "identity"}
    if not server.token:
        return plain
    is_bearer = server.header.lower() == "authorization"
    return {**plain, server.header: f"Bearer {server.token}" if is_bearer else server.token}


class _ServerTransport(GuardedAsyncTransport):
    """The guarded transport, which follows no redirect and remembers what went wrong in words of ours."""

    def __init__(self, server: McpServer, progress: _Progress) -> None:
        self._progress = progress
        super().__init__(
            allow_private=settings.ALLOW_PRIVATE_ENDPOINTS,
            total_seconds=server.timeout_seconds,
            max_bytes=server.max_bytes,
        )

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        try:
            response = await super().handle_async_request(request)
        except AddressRefused as error:
            self._progress.trouble = str(error)
            raise httpx2.ConnectError(str(error)) from None
        except httpx2.TransportError:
            self._progress.trouble = "It cannot be reached."
            raise
        if response.is_redirect:
            await self._refuse(response, "It sends calls on to another address, which is not followed.")
        if response.headers.get("content-encoding", "identity") != "identity":
            await self._refuse(response, "It compresses its answers, which was not asked for.")
        self._progress.trouble = _status_trouble(response.status_code)
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        response.stream = ReadableStream(response.stream)
        return response

    async def _refuse(self, response: httpx2.Response, trouble: str) -> None:
        await response.aclose()
        self._progress.trouble = trouble
        raise httpx2.RemoteProtocolError(trouble)


def _status_trouble(status: int) -> str:
    if status in (401, 403):
        return f"It refuses the token (status {status})."
    return f"It answers with status {status}. Is the address that of its MCP endpoint?" if status >= 400 else ""


def _timeout_error(server: McpServer, progress: _Progress) -> McpError:
    message = f"{server.name} did not answer within {pluralize(server.timeout_seconds, 'second')}."
    return McpError(message, was_sent=progress.was_sent)


def _as_mcp_error(server: McpServer, error: BaseException, progress: _Progress) -> McpError:
    """The error as an McpError, never in the server's own words, which nobody has fenced."""
    reported = ""
    for inner in _leaves(error):
        if isinstance(inner, McpError):
            return inner
        if isinstance(inner, MCPError):
            reported = _reported_trouble(inner.code)
    trouble = progress.trouble or reported or "It does not speak the Model Context Protocol as expected."
    return McpError(f"{server.name} gave no answer. {trouble}", was_sent=progress.was_sent)


def _reported_trouble(code: int) -> str:
    """What an error of the protocol means; nothing of the codes that the SDK gives to answers it cannot read."""
    if code == CONNECTION_CLOSED:
        return "It broke off its answer, or reports an error of its own."
    return "" if code in (INVALID_REQUEST, PARSE_ERROR) else f"It reports an error (code {code})."


def _leaves(error: BaseException) -> list[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        return [leaf for inner in error.exceptions for leaf in _leaves(inner)]
    return [error]
