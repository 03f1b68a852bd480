"""What other programs' MCP servers offer, and what may go wrong with them; without the SDK, which loads slowly."""

from dataclasses import dataclass
from typing import Any

MAX_TOOLS = 200
"""Tools of one server that are kept; further ones are not."""


class McpError(Exception):
    """What went wrong, as a sentence of ours for people and models. `was_sent`: the tool may have been called."""

    def __init__(self, message: str, *, was_sent: bool = False) -> None:
        super().__init__(message)
        self.was_sent = was_sent


class ToolChanged(McpError):
    """The server says something else about the tool than it did when it was fetched."""


@dataclass(frozen=True)
class ToolDefinition:
    """A tool as its server describes it now."""

    name: str
    description: str
    input_schema: dict[str, Any]
    fingerprint: str


@dataclass(frozen=True)
class ToolList:
    """What a server offers: `tools` that can be kept, the names of those that cannot, and whether there are further
    ones past MAX_TOOLS."""

    tools: list[ToolDefinition]
    unusable: list[str]
    has_more: bool
