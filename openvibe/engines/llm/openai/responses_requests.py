"""Messages as the Responses protocol writes them. Pure."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from openvibe.engines.llm.adaptations.adaptations import CallPlan
from openvibe.engines.llm.adaptations.request_options import responses_options
from openvibe.engines.llm.answers.tool_calls import arguments_object, clean_identifier
from openvibe.engines.llm.fences import clean_text
from openvibe.engines.llm.openai.requests import NO_RESULT, NO_WORDS
from openvibe.engines.llm.values import ChatMessage, ImagePart

MIN_OUTPUT_TOKENS = 16
"""The protocol refuses a lower limit."""

Item = dict[str, Any]


def encode_response_request(model: str, plan: CallPlan) -> Item:
    """The body of a request. What the system says first is its instructions; nothing is stored at the provider."""
    first = next((place for place, message in enumerate(plan.messages) if message.role != "system"), len(plan.messages))
    instructions = "\n\n".join(
        text for message in plan.messages[:first] if (text := clean_text(message.content)).strip()
    )
    request: Item = {
        "model": model,
        "input": encode_items(plan.messages[first:]),
        "store": False,
        "stream": plan.streams,
    }
    if instructions:
        request["instructions"] = instructions
    if plan.asks_for_sealed_thought:
        request["include"] = ["reasoning.encrypted_content"]
    if plan.tools:
        request["tools"] = [
            {
                "type": "function",
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.parameters,
                "strict": False,
            }
            for tool in plan.tools
        ]
    if plan.max_output_tokens is not None and plan.limit_name:
        request[plan.limit_name] = max(plan.max_output_tokens, MIN_OUTPUT_TOKENS)
    return request | responses_options(
        plan.options,
        has_tools=bool(plan.tools),
        asks_for_summary=plan.asks_for_thought_summary,
        off_effort=plan.off_effort,
    )


def encode_items(messages: Sequence[ChatMessage]) -> list[Item]:
    """Neighbours of one role as one message, calls and their results as items of their own. A message without a visible
    character is none, and a result of nothing says so."""
    encoded: list[Item] = []
    for message in messages:
        for item in _encode_message(message):
            before = encoded[-1] if encoded else {}
            if (
                before.get("role")
                and set(item) == set(before) == {"role", "content"}
                and before["role"] == item["role"]
            ):
                encoded[-1] = {"role": item["role"], "content": [*before["content"], *item["content"]]}
            else:
                encoded.append(item)
    return [_with_plain_text(item) for item in encoded] or [{"role": "user", "content": NO_WORDS}]


def _with_plain_text(item: Item) -> Item:
    """Text alone as text: not every server reads parts."""
    content = item.get("content")
    if set(item) != {"role", "content"} or not isinstance(content, list):
        return item
    if any(part["type"] != "input_text" for part in content):
        return item
    return {"role": item["role"], "content": "\n\n".join(part["text"].rstrip("\n") for part in content)}


def _encode_message(message: ChatMessage) -> Iterator[Item]:
    text = clean_text(message.content)
    if message.role == "tool":
        call_id, output = clean_identifier(message.tool_call_id or ""), text if text.strip() else NO_RESULT
        yield {"type": "function_call_output", "call_id": call_id, "output": output}
        return
    items = _own_items(message)
    yield from items
    if any(item["type"] == "message" for item in items):
        text = ""  # it stands in the items
    content = [{"type": "input_text", "text": text}] if text.strip() else []
    content += [_encode_image(image) for image in message.images if message.role == "user"]
    if content:
        yield {"role": message.role, "content": content}
    if not any(item["type"] == "function_call" for item in items):
        yield from (_encode_call(clean_identifier(call.id), call.name, call.arguments) for call in message.tool_calls)


def _encode_call(call_id: str, name: str, arguments: str) -> Item:
    text = clean_text(arguments)
    value = arguments_object(text)
    text = text if "malformed" not in value else json.dumps(value, ensure_ascii=False)
    return {"type": "function_call", "call_id": call_id, "name": clean_identifier(name), "arguments": text}


def _encode_image(image: ImagePart) -> Item:
    data = base64.b64encode(image.data).decode("ascii")
    return {"type": "input_image", "detail": "auto", "image_url": f"data:{image.media_type};base64,{data}"}


def _own_items(message: ChatMessage) -> list[Item]:
    """What the provider answered with, in its order, as it takes it back: a thought that it would have to look up in
    its store is none, and what it left empty is left out. Nothing where the calls are not those that the message has:
    a thought and the call that came of it belong together."""
    rows = message.provider_fields.get("items") if message.role == "assistant" else None
    items: list[Item] = []
    for row in rows if isinstance(rows, list | tuple) else ():
        item = {name: value for name, value in row.items() if value is not None} if isinstance(row, Mapping) else {}
        if item.get("type") == "reasoning":
            if not (item.get("encrypted_content") or item.get("content")):
                continue
            item.setdefault("summary", [])
        elif item.get("type") == "function_call":
            item["call_id"] = clean_identifier(str(item.get("call_id") or ""))
        if item.get("type"):
            items.append(item)
    call_ids = [item["call_id"] for item in items if item["type"] == "function_call"]
    return items if sorted(call_ids) == sorted(clean_identifier(call.id) for call in message.tool_calls) else []
