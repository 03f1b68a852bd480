"""Prompts and tools in the shapes that some models want: changes of `ChatMessage`s and `ToolSpec`s. Pure.

Fences stay as they are: what is told in another role is told in the same words.
"""

from __future__ import annotations

import hashlib
import re
import string
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from openvibe.engines.llm.answers.provider_fields import rename_ids
from openvibe.engines.llm.fences import fence
from openvibe.engines.llm.values import ChatMessage, ImagePart, ToolSpec

Messages = tuple[ChatMessage, ...]

OPENING = "(It begins here.)"
CONTINUATION = "Go on."
ACKNOWLEDGEMENT = "I have read it."
CALLING = "I call a tool."
"""What is put in where a model wants a turn that nobody took, or words where there were none."""

_SHORT_ID = re.compile(r"[a-zA-Z0-9]{9}")
_ID_LETTERS = string.ascii_letters + string.digits

_PLAIN_KEYWORDS = frozenset({"type", "properties", "required", "description", "enum", "items"})
"""The keywords of JSON schema that every endpoint reads which takes tools at all."""

_MAX_SCHEMA_DEPTH = 32


def with_system_first(messages: Messages) -> Messages:
    """The messages with all of the system's texts as one before all others."""
    texts = [message for message in messages if message.role == "system"]
    if not texts or (messages[0].role == "system" and len(texts) == 1):
        return messages
    return (_joined(texts), *(message for message in messages if message.role != "system"))


def without_system(messages: Messages) -> Messages:
    """The system's texts at the beginning of the first message of the user."""
    texts = [message for message in messages if message.role == "system"]
    if not texts:
        return messages
    others = [message for message in messages if message.role != "system"]
    first = next((place for place, message in enumerate(others) if message.role == "user"), None)
    before = replace(_joined(texts), role="user")
    if first is None:
        return (before, *others)
    others[first] = replace(_joined([before, others[first]]), ends_stable_part=others[first].ends_stable_part)
    return tuple(others)


def with_calls_as_text(messages: Messages) -> Messages:
    """Calls and their results told in words, for models that know no role for them. Results keep their fences, and are
    one message with what is said after them: such models often want people and model by turns, too."""
    changed: list[ChatMessage] = []
    is_after_result = False
    for message in messages:
        is_result = message.role == "tool"
        if is_result:
            message = replace(message, role="user", tool_call_id=None)
        elif message.tool_calls:
            calls = "\n".join(f"[I called {call.name} with {call.arguments}]" for call in message.tool_calls)
            text = f"{message.content}\n\n{calls}" if message.content.strip() else calls
            message = replace(message, content=text, tool_calls=(), provider_fields={})
        if is_after_result and message.role == "user":
            changed[-1] = _joined([changed[-1], message])
        else:
            changed.append(message)
        is_after_result = is_result
    return tuple(changed) if changed != list(messages) else messages


def with_single_calls(messages: Messages) -> Messages:
    """Calls of one answer one after the other, each with its result."""
    changed: list[ChatMessage] = []
    place = 0
    while place < len(messages):
        message, place = messages[place], place + 1
        if len(message.tool_calls) < 2:
            changed.append(message)
            continue
        results: list[ChatMessage] = []
        while place < len(messages) and messages[place].role == "tool":
            results.append(messages[place])
            place += 1
        for number, call in enumerate(message.tool_calls):
            one = replace(message, tool_calls=(call,))
            changed.append(one if number == 0 else replace(one, content="", provider_fields={}))
            changed += [result for result in results if result.tool_call_id == call.id]
        ids = {call.id for call in message.tool_calls}
        changed += [result for result in results if result.tool_call_id not in ids]
    return tuple(changed) if changed != list(messages) else messages


def with_short_ids(messages: Messages) -> Messages:
    """Ids of calls as nine letters and digits, which every endpoint takes; the same of the same, in every prompt."""
    ids = {call.id for message in messages for call in message.tool_calls}
    ids |= {message.tool_call_id for message in messages if message.tool_call_id is not None}
    names = {each: _short_id(each) for each in ids if not _SHORT_ID.fullmatch(each)}
    return tuple(_with_ids(message, names) for message in messages) if names else messages


def _short_id(name: str) -> str:
    number = int.from_bytes(hashlib.sha256(name.encode("utf-8", "replace")).digest())
    letters = ""
    while len(letters) < 9:
        number, letter = divmod(number, len(_ID_LETTERS))
        letters += _ID_LETTERS[letter]
    return letters


def _with_ids(message: ChatMessage, names: Mapping[str, str]) -> ChatMessage:
    calls = tuple(
        replace(call, id=names.get(call.id, call.id), provider_fields=rename_ids(call.provider_fields, names))
        for call in message.tool_calls
    )
    result_of = message.tool_call_id
    return replace(
        message,
        tool_calls=calls,
        tool_call_id=None if result_of is None else names.get(result_of, result_of),
        provider_fields=rename_ids(message.provider_fields, names),
    )


def with_text_beside_calls(messages: Messages) -> Messages:
    """No answer without words."""
    is_bare = [bool(message.tool_calls) and not message.content.strip() for message in messages]
    if not any(is_bare):
        return messages
    return tuple(
        replace(message, content=CALLING) if bare else message for message, bare in zip(messages, is_bare, strict=True)
    )


def with_joined_neighbours(messages: Messages) -> Messages:
    """Messages of one role in a row as one; results of tools stay apart."""
    changed: list[ChatMessage] = []
    for message in messages:
        is_neighbour = bool(changed) and changed[-1].role == message.role in ("system", "user")
        if is_neighbour:
            changed[-1] = _joined([changed[-1], message])
        else:
            changed.append(message)
    return tuple(changed) if len(changed) < len(messages) else messages


def with_alternating_roles(messages: Messages) -> Messages:
    """The messages, with the system's texts first, then the user's and the model's by turns, beginning with the
    user."""
    changed: list[ChatMessage] = []
    for message in with_calls_as_text(messages):
        if not message.content.strip() and not message.images:
            continue
        before = changed[-1].role if changed else ""
        if before in ("", "system") and message.role == "assistant":
            changed.append(ChatMessage("user", OPENING))
        if before == message.role:
            changed[-1] = _joined([changed[-1], message])
        else:
            changed.append(message)
    return tuple(changed)


def with_user_last(messages: Messages) -> Messages:
    if not messages or messages[-1].role == "user":
        return messages
    return (*messages, ChatMessage("user", CONTINUATION))


def with_answers_after_results(messages: Messages) -> Messages:
    """A word of the model between the results of its calls and what the user says next."""
    changed: list[ChatMessage] = []
    for message in messages:
        if message.role == "user" and changed and changed[-1].role == "tool":
            changed.append(ChatMessage("assistant", ACKNOWLEDGEMENT))
        changed.append(message)
    return tuple(changed)


def without_images(messages: Messages) -> Messages:
    """Each image as a sentence with its name, size and description."""
    if not any(message.images for message in messages):
        return messages
    return tuple(_with_described_images(message) if message.images else message for message in messages)


def without_provider_fields(messages: Messages) -> Messages:
    if not any(has_provider_fields(message) for message in messages):
        return messages
    return tuple(
        replace(
            message,
            provider_fields={},
            tool_calls=tuple(replace(call, provider_fields={}) for call in message.tool_calls),
        )
        for message in messages
    )


def has_provider_fields(message: ChatMessage) -> bool:
    return bool(message.provider_fields) or any(call.provider_fields for call in message.tool_calls)


def with_plain_schemas(tools: Iterable[ToolSpec]) -> tuple[ToolSpec, ...]:
    """The tools with the keywords of their schemas that every endpoint reads. Arguments are still checked by all."""
    return tuple(replace(tool, parameters=_plain_object(tool.parameters)) for tool in tools)


def _plain_object(schema: Mapping[str, Any]) -> dict[str, Any]:
    plain = _plain_schema(schema, 0)
    return plain | {"type": "object", "properties": plain.get("properties", {})}


def _plain_schema(schema: Mapping[str, Any], depth: int) -> dict[str, Any]:
    """The schema in _PLAIN_KEYWORDS: of alternatives the first that says something, of several types the first but
    null, for a constant a list of one."""
    if depth > _MAX_SCHEMA_DEPTH:
        return {}
    for keyword in ("anyOf", "oneOf", "allOf"):
        choices = schema.get(keyword)
        if isinstance(choices, list) and "type" not in schema:
            named = (each for each in choices if isinstance(each, Mapping) and each.get("type") != "null")
            schema = {**next(named, {}), **{key: value for key, value in schema.items() if key != keyword}}
    plain: dict[str, Any] = {key: value for key, value in schema.items() if key in _PLAIN_KEYWORDS}
    if "const" in schema and "enum" not in plain:
        plain["enum"] = [schema["const"]]
    if isinstance(kinds := plain.get("type"), list):
        plain["type"] = next((kind for kind in kinds if kind != "null"), "string")
    if isinstance(properties := plain.get("properties"), Mapping):
        plain["properties"] = {
            name: _plain_schema(each, depth + 1) if isinstance(each, Mapping) else {}
            for name, each in properties.items()
        }
    if "items" in plain:
        items = plain["items"]
        plain["items"] = _plain_schema(items, depth + 1) if isinstance(items, Mapping) else {}
    if "enum" in plain and any(not isinstance(choice, str) for choice in plain["enum"]):
        del plain["enum"]  # some take words only
    return plain


def _joined(messages: Sequence[ChatMessage]) -> ChatMessage:
    """One message of the first one's role with the words of all."""
    texts = [message.content for message in messages if message.content.strip()]
    content = ""
    for text in texts:
        gap = "" if not content or content.endswith("\n") else "\n\n"
        content = f"{content}{gap}{text}"
    images: tuple[ImagePart, ...] = tuple(image for message in messages for image in message.images)
    return replace(messages[0], content=content, images=images, ends_stable_part=messages[-1].ends_stable_part)


def _with_described_images(message: ChatMessage) -> ChatMessage:
    lines = [_describe(image) for image in message.images]
    note = fence("data", "\n".join(lines), source="image")
    content = f"{note}\n\n{message.content}" if message.content.strip() else note
    return replace(message, content=content, images=())


def _describe(image: ImagePart) -> str:
    name = image.name or "without a name"
    description = f" {image.description}" if image.description else ""
    return f"An image that this model cannot see: {name}, {image.width} × {image.height} pixels.{description}"
