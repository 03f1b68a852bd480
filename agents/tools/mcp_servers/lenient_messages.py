"""What another program's server says, as far as it can be read.

The SDK refuses a list of tools whole for one tool, and an answer whole for one part of a kind it does not know. So
before it reads them, such tools are taken out and the parts of an answer become text.
"""

from __future__ import annotations

import json
import re
from types import TracebackType
from typing import TYPE_CHECKING, Any

import mcp_types
from mcp_types.methods import parse_server_result
from mcp_types.version import LATEST_MODERN_VERSION

from agents.tools.mcp_servers.readable_stream import is_keepable, without_unreadable
from openvibe.engines.llm.fences import clean_text

if TYPE_CHECKING:
    from mcp.shared._stream_protocols import ReadStream
    from mcp.shared.message import SessionMessage

MAX_RESULT_CHARS = 60_000
"""Characters of a result that are looked at; the toolbox cuts it to its tokens."""

_KIND = re.compile(r"[A-Za-z][A-Za-z0-9_./ -]{0,39}\Z")


class LenientMessages:
    """The messages of a connection. `refused_tools` takes in the names of tools that the SDK would refuse."""

    def __init__(self, messages: ReadStream[SessionMessage | Exception], refused_tools: list[str]) -> None:
        self._messages, self._refused_tools = messages, refused_tools
        self._version: str | None = None  # of a protocol with a handshake

    @property
    def last_context(self) -> Any:
        return getattr(self._messages, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        return self._with_readable_result(await self._messages.receive())

    async def aclose(self) -> None:
        await self._messages.aclose()

    def __aiter__(self) -> LenientMessages:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        return self._with_readable_result(await self._messages.__anext__())

    async def __aenter__(self) -> LenientMessages:
        await self._messages.__aenter__()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        return await self._messages.__aexit__(exc_type, error, traceback)

    def _with_readable_result(self, message: SessionMessage | Exception) -> SessionMessage | Exception:
        if isinstance(message, Exception):
            return message
        if (error := getattr(message.message, "error", None)) is not None:
            error.message = without_unreadable(error.message)
        result = getattr(message.message, "result", None)
        if not isinstance(result, dict):
            return message
        if isinstance(version := result.get("protocolVersion"), str):
            self._version = version
        elif isinstance(tools := result.get("tools"), list):
            result["tools"] = self._accepted(tools, result)
        elif {"content", "structuredContent", "inputRequests"} & {*result}:
            plain = plain_result(result)
            result.clear()
            result.update(plain)
        readable = without_unreadable(result)
        result.clear()
        result.update(readable)
        return message

    def _accepted(self, tools: list[Any], result: dict[str, Any]) -> list[Any]:
        if is_keepable(tools) and self._accepts(result):
            return tools
        accepted = []
        for tool in tools:
            if is_keepable(tool) and self._accepts(result | {"tools": [tool]}):
                accepted.append(tool)
            else:
                self._refused_tools.append(_tool_name(tool))
        return accepted

    def _accepts(self, result: dict[str, Any]) -> bool:
        try:
            parse_server_result("tools/list", self._version or LATEST_MODERN_VERSION, result)
        except (ValueError, LookupError, RecursionError):
            return False
        return True


def _tool_name(tool: Any) -> str:
    name = tool.get("name") if isinstance(tool, dict) else None
    return clean_text(without_unreadable(name))[:128] if isinstance(name, str) else "?"


def plain_result(result: dict[str, Any]) -> dict[str, Any]:
    """The result with its parts as texts; of structured content, where it has no parts, the JSON."""
    parts = result.get("content")
    parts = parts if isinstance(parts, list) else [] if parts is None else [parts]
    texts = [_part_text(part) for part in parts]
    if not texts and result.get("structuredContent") is not None:
        texts = [json.dumps(result["structuredContent"], ensure_ascii=False)]
    plain: dict[str, Any] = {"content": [{"type": "text", "text": text} for text in texts]}
    if isinstance(result.get("resultType"), str):
        plain["resultType"] = result["resultType"]
    return plain | {"isError": result.get("isError") is True}


def _part_text(part: Any) -> str:
    """The text of the part, or a sentence that names its kind."""
    if isinstance(part, str):
        return part
    kind = part.get("type") if isinstance(part, dict) else None
    resource = part.get("resource") if kind == "resource" else None
    holder = part if kind == "text" else resource
    text = holder.get("text") if isinstance(holder, dict) else None
    if isinstance(text, str):
        return text
    name = f'of the kind "{kind}"' if isinstance(kind, str) and _KIND.match(kind) else "of an unknown kind"
    return f"[A part {name} was left out: it is no text.]"


def result_text(result: mcp_types.CallToolResult) -> str:
    """The texts of the result, and what it says of itself."""
    text = "\n".join(str(part.text) for part in result.content if part.type == "text")
    if len(text) > MAX_RESULT_CHARS:
        text = f"{text[:MAX_RESULT_CHARS]}\n[… {len(text) - MAX_RESULT_CHARS:,} more characters were left out …]"
    if result.result_type != "complete":
        return "The tool did not answer: it asks for more input, which nobody can give it here."
    if not result.is_error:
        return text
    return f"The tool says that it failed:\n{text}" if text.strip() else "The tool says that it failed, and not why."
