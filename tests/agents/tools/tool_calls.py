"""Calls as models write them."""

import json

from openvibe.engines.llm.values import ToolCallRequest


def call(tool: str, /, **arguments: object) -> ToolCallRequest:
    return ToolCallRequest("c1", tool, json.dumps(arguments))


def written(tool: str, arguments: str) -> ToolCallRequest:
    """Arguments as text, which may be anything."""
    return ToolCallRequest("c1", tool, arguments)
