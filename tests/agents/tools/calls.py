"""Calls as models write them."""

import json

from openvibe.llm.values import ToolCall


def call(tool: str, /, **arguments: object) -> ToolCall:
    return ToolCall("c1", tool, json.dumps(arguments))


def written(tool: str, arguments: str) -> ToolCall:
    """Arguments as text, which may be anything."""
    return ToolCall("c1", tool, arguments)
