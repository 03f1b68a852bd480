"""Messages as the chat-completions protocol writes them. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from openvibe.llm.fences import clean_text
from openvibe.llm.image_parts import chat_content, join_contents
from openvibe.llm.tool_calls import arguments_object, clean_identifier
from openvibe.llm.values import ChatMessage


def encode_messages(messages: Sequence[ChatMessage]) -> list[dict[str, Any]]:
    """Neighbours of one role as one message: the templates of many open models want people and model by turns."""
    encoded: list[dict[str, Any]] = []
    for message in map(_encode_message, messages):
        before = encoded[-1] if encoded else {}
        is_answer = message["role"] == "tool" or "tool_calls" in before
        if is_answer or before.get("role") != message["role"]:
            encoded.append(message)
        else:
            encoded[-1] = before | message | {"content": join_contents(before["content"], message["content"])}
    return encoded


def _encode_message(message: ChatMessage) -> dict[str, Any]:
    """One message as the protocol writes it, without control characters or lone surrogates."""
    content = chat_content(clean_text(message.content), message.images)
    encoded_message: dict[str, Any] = {"role": message.role, "content": content}
    if message.tool_calls:
        encoded_message["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": clean_identifier(call.name), "arguments": _encode_arguments(call.arguments)},
            }
            for call in message.tool_calls
        ]
    if message.tool_call_id is not None:
        encoded_message["tool_call_id"] = message.tool_call_id
    return encoded_message


def _encode_arguments(arguments: str) -> str:
    """Word for word where they are an object: llama.cpp and vLLM read what they are given back."""
    text = clean_text(arguments)
    value = arguments_object(text)
    return text if "malformed" not in value else json.dumps(value, ensure_ascii=False)
