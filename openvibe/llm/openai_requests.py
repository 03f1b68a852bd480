"""Messages as the chat-completions protocol writes them. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from openvibe.llm.fences import clean_text
from openvibe.llm.provider_fields import without_origin
from openvibe.llm.tool_calls import arguments_object, clean_identifier
from openvibe.llm.values import ChatMessage, ToolCallRequest


def encode_messages(messages: Sequence[ChatMessage]) -> list[dict[str, Any]]:
    """Neighbours of one role as one message: the templates of many open models want people and model by turns."""
    encoded: list[dict[str, Any]] = []
    for message in map(_encode_message, messages):
        before = encoded[-1] if encoded else {}
        is_answer = message["role"] == "tool" or "tool_calls" in before
        is_text = all(isinstance(each.get("content"), str) for each in (before, message))
        if is_answer or before.get("role") != message["role"] or not is_text:
            encoded.append(message)
        else:
            gap = "" if before["content"].endswith("\n") else "\n\n"
            encoded[-1] = before | message | {"content": f"{before['content']}{gap}{message['content']}"}
    return encoded


def _encode_message(message: ChatMessage) -> dict[str, Any]:
    """One message as the protocol writes it, without control characters or lone surrogates."""
    content: Any = clean_text(message.content)
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
