"""`CallOptions` as the protocols write them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from openvibe.engines.llm.values import CallOptions

MIN_THINKING_TOKENS = 1_024
"""The least budget of a thought by the Messages protocol, where the thought has a budget. It is part of the output
limit."""
_THINKING_SHARES = {"low": (4, 4_096), "medium": (2, 16_384), "high": (1.25, 65_536)}
"""What the output limit is divided by, and the most, for the budget of a thought."""

MESSAGES_LACKS = {f"no_{name}": "" for name in ("seed", "presence_penalty", "frequency_penalty", "response_format")}
"""The adaptations that every call in the Messages protocol needs: it has no such fields."""

THINKING_LACKS = {"no_temperature": "", "no_top_p": ""}
"""The same for a call in which a model of that protocol is to think."""

RESPONSES_LACKS = {f"no_{name}": "" for name in ("seed", "stop", "presence_penalty", "frequency_penalty")}
"""The same for the Responses protocol."""


def chat_options(options: CallOptions, *, has_tools: bool, off_effort: str = "none") -> dict[str, Any]:
    """Fields of a chat-completions request. `off_effort`: what no effort is called."""
    request: dict[str, Any] = {
        name: value
        for name in ("temperature", "top_p", "seed", "presence_penalty", "frequency_penalty")
        if (value := getattr(options, name)) is not None
    }
    if options.stop:
        request["stop"] = list(options.stop)
    if options.parallel_tool_calls is not None and has_tools:
        request["parallel_tool_calls"] = options.parallel_tool_calls
    if options.tool_choice is not None and has_tools:
        request["tool_choice"] = {"type": "function", "function": {"name": options.tool_choice}}
    if options.response_format is not None:
        request["response_format"] = dict(options.response_format)
    if options.effort is not None:
        request["reasoning_effort"] = off_effort if options.effort == "off" else options.effort
    return request


def messages_options(
    options: CallOptions, *, has_tools: bool, max_output_tokens: int, is_adaptive: bool = True
) -> dict[str, Any]:
    """Fields of a request in the Messages protocol. `is_adaptive`: whether the model thinks by effort; older ones think
    by a budget of tokens."""
    request: dict[str, Any] = {
        name: value for name in ("temperature", "top_p") if (value := getattr(options, name)) is not None
    }
    if options.stop:
        request["stop_sequences"] = list(options.stop)
    choice: dict[str, Any] = {}
    if options.tool_choice is not None:
        choice = {"type": "tool", "name": options.tool_choice}
    if options.parallel_tool_calls is not None:
        choice = {"type": "auto", **choice, "disable_parallel_tool_use": not options.parallel_tool_calls}
    if choice and has_tools:
        request["tool_choice"] = choice
    return request | _messages_effort(options.effort, max_output_tokens, is_adaptive=is_adaptive)


def _messages_effort(effort: str | None, max_output_tokens: int, *, is_adaptive: bool) -> dict[str, Any]:
    if effort is None:
        return {}
    if effort == "off":
        return {"thinking": {"type": "disabled"}}
    if is_adaptive:
        return {"thinking": {"type": "adaptive", "display": "summarized"}, "output_config": {"effort": effort}}
    share, most = _THINKING_SHARES[effort]
    budget = min(max(int(max_output_tokens / share), MIN_THINKING_TOKENS), most)
    return {"thinking": {"type": "enabled", "budget_tokens": budget}} if budget < max_output_tokens else {}


def responses_options(
    options: CallOptions, *, has_tools: bool, asks_for_summary: bool, off_effort: str = "none"
) -> dict[str, Any]:
    """Fields of a request in the Responses protocol. `asks_for_summary`: of what the model thinks."""
    request: dict[str, Any] = {
        name: value for name in ("temperature", "top_p") if (value := getattr(options, name)) is not None
    }
    if options.parallel_tool_calls is not None and has_tools:
        request["parallel_tool_calls"] = options.parallel_tool_calls
    if options.tool_choice is not None and has_tools:
        request["tool_choice"] = {"type": "function", "name": options.tool_choice}
    if options.response_format is not None:
        request["text"] = {"format": _text_format(options.response_format)}
    reasoning: dict[str, str] = {}
    if options.effort is not None:
        reasoning["effort"] = off_effort if options.effort == "off" else options.effort
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
