"""`CallOptions` as the protocols write them. Pure."""

from __future__ import annotations

from typing import Any

from openvibe.llm.values import CallOptions

_CHAT_EFFORTS = {"off": "none", "low": "low", "medium": "medium", "high": "high"}

MESSAGES_LACKS = {
    f"no_{name}": "" for name in ("seed", "presence_penalty", "frequency_penalty", "response_format", "effort")
}
"""The adaptations that every call in the Messages protocol needs: it has no such fields."""


def chat_options(options: CallOptions, *, has_tools: bool) -> dict[str, Any]:
    """Fields of a chat-completions request."""
    request: dict[str, Any] = {
        name: value
        for name in ("temperature", "top_p", "seed", "presence_penalty", "frequency_penalty")
        if (value := getattr(options, name)) is not None
    }
    if options.stop:
        request["stop"] = list(options.stop)
    if options.parallel_tool_calls is not None and has_tools:
        request["parallel_tool_calls"] = options.parallel_tool_calls
    if options.response_format is not None:
        request["response_format"] = dict(options.response_format)
    if options.effort is not None:
        request["reasoning_effort"] = _CHAT_EFFORTS[options.effort]
    return request


def messages_options(options: CallOptions, *, has_tools: bool) -> dict[str, Any]:
    """Fields of a request in the Messages protocol."""
    request: dict[str, Any] = {
        name: value for name in ("temperature", "top_p") if (value := getattr(options, name)) is not None
    }
    if options.stop:
        request["stop_sequences"] = list(options.stop)
    if options.parallel_tool_calls is not None and has_tools:
        request["tool_choice"] = {"type": "auto", "disable_parallel_tool_use": not options.parallel_tool_calls}
    return request
