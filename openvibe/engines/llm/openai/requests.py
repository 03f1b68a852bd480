"""Messages as the chat-completions protocol writes them. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from openvibe.engines.llm.adaptations.adaptations import CallPlan
from openvibe.engines.llm.adaptations.request_options import chat_options
from openvibe.engines.llm.answers.provider_fields import without_origin
from openvibe.engines.llm.answers.tool_calls import arguments_object, clean_identifier
from openvibe.engines.llm.fences import clean_text
from openvibe.engines.llm.images import chat_content, join_contents
from openvibe.engines.llm.values import ChatMessage, ToolCallRequest

NO_WORDS = "(It begins here.)"
NO_RESULT = "(empty)"
"""What is said in place of nothing: endpoints refuse a text without a character."""


def encode_request(model: str, plan: CallPlan) -> dict[str, Any]:
    """The body of a request."""
    request: dict[str, Any] = {"model": model, "messages": encode_messages(plan.messages), "stream": plan.streams}
    if plan.names_results:
        _name_results(request["messages"])
    if plan.tools:
        request["tools"] = [
            {
                "type": "function",
                "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters},
            }
            for tool in plan.tools
        ]
    if plan.max_output_tokens is not None and plan.limit_name:
        request[plan.limit_name] = plan.max_output_tokens
    request |= chat_options(plan.options, has_tools=bool(plan.tools), off_effort=plan.off_effort)
    if plan.streams and plan.asks_for_usage:
        request["stream_options"] = {"include_usage": True}
    return request


def encode_messages(messages: Sequence[ChatMessage]) -> list[dict[str, Any]]:
    """Each message of a user by itself, so that a small model sees which is the question; neighbours of another role as
    one. A message without a visible character is none; beside calls there is no text then, and a result of nothing says
    so."""
    encoded: list[dict[str, Any]] = []
    for message in map(_encode_message, filter(_says_something, messages)):
        before = encoded[-1] if encoded else {}
        stands_alone = message["role"] in ("tool", "user") or "tool_calls" in before
        is_text = all(isinstance(each.get("content"), str) for each in (before, message))
        is_kept = message["role"] == "assistant" and not is_text
        if stands_alone or before.get("role") != message["role"] or is_kept:
            encoded.append(message)
        else:
            encoded[-1] = (
                before | message | {"content": join_contents(before["content"] or "", message["content"] or "")}
            )
    return encoded or [{"role": "user", "content": NO_WORDS}]


def _name_results(messages: Sequence[dict[str, Any]]) -> None:
    """Each result of a tool by the tool's name, too."""
    names = {call["id"]: call["function"]["name"] for message in messages for call in message.get("tool_calls", ())}
    for message in messages:
        if message["role"] == "tool" and message.get("tool_call_id") in names:
            message["name"] = names[message["tool_call_id"]]


def _says_something(message: ChatMessage) -> bool:
    is_answer = message.role == "tool" or message.tool_calls or message.provider_fields or message.images
    return bool(is_answer) or bool(clean_text(message.content).strip())


def _encode_message(message: ChatMessage) -> dict[str, Any]:
    """One message as the protocol writes it, without control characters or lone surrogates."""
    text: str | None = clean_text(message.content)
    if text is not None and not text.strip():
        text = NO_RESULT if message.role == "tool" else None
    content: Any = chat_content(text or "", message.images) if message.images else text
    encoded_message: dict[str, Any] = {"role": message.role}
    if message.role == "assistant":
        fields = without_origin(message.provider_fields)
        content = _content_with_parts(fields.pop("content", None), content)
        encoded_message = fields | encoded_message
    encoded_message["content"] = content
    if message.tool_calls:
        encoded_message["tool_calls"] = [_encode_call(call) for call in message.tool_calls]
    if message.tool_call_id is not None:
        encoded_message["tool_call_id"] = message.tool_call_id
    return encoded_message


def _content_with_parts(kept: Any, text: str) -> Any:
    """The text, in the content as the endpoint gave it where that held more: other parts, or a thought in tags."""
    if isinstance(kept, list):
        parts = [{name: value for name, value in part.items() if name != "index"} for part in kept]
        return [*parts, *([{"type": "text", "text": text}] if text.strip() else ())]
    return kept if isinstance(kept, str) else text


def _encode_call(call: ToolCallRequest) -> dict[str, Any]:
    function = call.provider_fields.get("function")
    return {
        **call.provider_fields,
        "id": call.id,
        "type": "function",
        "function": {
            **(function if isinstance(function, dict) else {}),
            "name": clean_identifier(call.name),
            "arguments": _encode_arguments(call.arguments),
        },
    }


def _encode_arguments(arguments: str) -> str:
    """Word for word where they are an object: llama.cpp and vLLM read what they are given back."""
    text = clean_text(arguments)
    value = arguments_object(text)
    return text if "malformed" not in value else json.dumps(value, ensure_ascii=False)
