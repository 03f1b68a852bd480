"""`CallOptions` as the protocols write them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from openvibe.llm.values import CallOptions

_CHAT_EFFORTS = {"off": "none", "low": "low", "medium": "medium", "high": "high"}

MESSAGES_LACKS = {
    f"no_{name}": "" for name in ("seed", "presence_penalty", "frequency_penalty", "response_format", "effort")
}
"""The adaptations that every call in the Messages protocol needs: it has no such fields."""


RESPONSES_LACKS = {f"no_{name}": "" for name in ("seed", "stop", "presence_penalty", "frequency_penalty")}
"""The same for the Responses protocol."""


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


def responses_options(options: CallOptions, *, has_tools: bool, asks_for_summary: bool) -> dict[str, Any]:
    """Fields of a request in the Responses protocol. `asks_for_summary`: of what the model thinks."""
    request: dict[str, Any] = {
        name: value for name in ("temperature", "top_p") if (value := getattr(options, name)) is not None
    }
    if options.parallel_tool_calls is not None and has_tools:
        request["parallel_tool_calls"] = options.parallel_tool_calls
    if options.response_format is not None:
        request["text"] = {"format": _text_format(options.response_format)}
    reasoning = {"effort": _CHAT_EFFORTS[options.effort]} if options.effort is not None else {}
    if asks_for_summary and options.effort != "off":
        reasoning["summary"] = "auto"
    if reasoning:
        request["reasoning"] = reasoning
    return request


def _text_format(response_format: Mapping[str, Any]) -> dict[str, Any]:
    """A format of answers without the object that the chat-completions protocol puts its fields into."""
    schema = response_format.get("json_schema")
    if response_format.get("type") != "json_schema" or not isinstance(schema, Mapping):
        return {"type": response_format.get("type", "text")}
    return {"type": "json_schema", "name": "answer", **schema}
