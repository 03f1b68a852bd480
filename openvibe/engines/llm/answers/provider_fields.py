"""What a provider adds to its model's messages and calls, to be given back as it came: thinking, signatures, sealed
items. Pure.

Nothing here is read but to merge the pieces of a stream, to count tokens, and to show what was thought. It goes back to
the endpoint and model that gave it and to no other: `mark_completion` writes down which that was.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from openvibe.engines.llm.answers.streamed_text import StreamedText
from openvibe.engines.llm.errors import BadAnswer
from openvibe.engines.llm.values import ChatMessage, Completion, ToolCallRequest

ORIGIN = "openvibe_origin"
"""The name under which a message's fields say whose they are."""

MAX_CHARACTERS = 8_000_000
"""The most characters of all that a provider adds to one answer, about what a million tokens of thought take: more is
no answer."""

MAX_DEPTH = 40

CHARACTERS_PER_TOKEN = 4
"""The characters per token of what nobody can read. Base64 of sealed thoughts takes more characters for a token, so
that this counts high."""

_KEPT_NAMES = frozenset({"type", "id", "call_id", "format", "name", "role", "status", "object", "model", "signature"})
"""Strings that come whole, each time they come; others come in pieces."""

_SEALED_CHARACTERS = 32
"""The length from which on a string without blanks that comes twice is a seal that was repeated."""

_RECENT_ITEMS = 100
"""The number of items, the last of a list, in which the one is looked for that goes on."""

_OUTPUT_ONLY = frozenset(
    {"role", "content", "refusal", "tool_calls", "function_call", "tool_call_id", "annotations", "audio"}
)
"""Fields of a message that are read otherwise, or that no provider takes back."""

_REASONING_NAMES = ("reasoning_content", "reasoning", "thinking", "reasoning_text")


@dataclass
class FieldMerger:
    """Fields of one message or call as a stream brings them: strings go on, objects are merged, items of lists by
    their `index`, and of anything else the last holds."""

    _node: dict[str, Any] = field(default_factory=dict)
    _characters: int = 0

    def add(self, fields: Mapping[str, Any]) -> None:
        """Takes in the fields of a piece. Raises BadAnswer where they are endless."""
        self._grow(fields)
        _merge(self._node, fields)

    def put(self, fields: Mapping[str, Any]) -> None:
        """Takes in the fields of a whole message: they are all there is of them."""
        self._grow(fields)
        for name, value in fields.items():
            if value not in (None, "", [], {}):
                self._node.pop(name, None)
                _merge(self._node, {name: value})

    def fields(self) -> dict[str, Any]:
        """The fields as they may be sent."""
        value = _plain(self._node)
        assert isinstance(value, dict)
        return value

    def _grow(self, fields: Mapping[str, Any]) -> None:
        self._characters += _size(fields, 0)
        if self._characters > MAX_CHARACTERS:
            raise BadAnswer(f"The endpoint sent more than {MAX_CHARACTERS:,} characters beside the model's answer.")


def extra_fields(part: Any, known: Iterable[str] = _OUTPUT_ONLY) -> dict[str, Any]:
    """The fields of a message or call that nothing here reads."""
    fields = part if isinstance(part, Mapping) else {}
    return {name: value for name, value in fields.items() if name not in known and value is not None}


def reasoning_texts(fields: Mapping[str, Any]) -> dict[str, str]:
    """What a message says that the model thought, by the name of the field: providers say it under several at once."""
    texts = {name: text for name in _REASONING_NAMES if isinstance(text := fields.get(name), str) and text}
    details = fields.get("reasoning_details")
    if isinstance(details, list) and (text := "".join(map(_detail_text, details))):
        texts["reasoning_details"] = text
    return texts


def part_reasoning(part: Any) -> str:
    """What a part of a message's content says that the model thought; empty where it is another part."""
    if not isinstance(part, Mapping) or part.get("type") not in ("thinking", "reasoning"):
        return ""
    value = part.get("thinking", part.get("reasoning", part.get("text")))
    if isinstance(value, str):
        return value
    return "".join(map(_detail_text, value)) if isinstance(value, list) else ""


def _detail_text(detail: Any) -> str:
    if not isinstance(detail, Mapping):
        return ""
    texts = (detail.get(name) for name in ("text", "summary", "content"))
    return next((text for text in texts if isinstance(text, str)), "")


def origin_of(client: object) -> str:
    """Stands for whom a client asks; empty where it does not say."""
    return str(getattr(client, "origin", ""))


def mark_completion(completion: Completion, origin: str) -> Completion:
    """The completion whose fields, where it has any, say whose they are."""
    if not completion.provider_fields and not any(call.provider_fields for call in completion.tool_calls):
        return completion
    return replace(completion, provider_fields={**completion.provider_fields, ORIGIN: origin})


def with_own_fields(messages: Sequence[ChatMessage], origin: str) -> list[ChatMessage]:
    """The messages, with the fields that came from there, and without those that came from elsewhere."""
    return [_with_own_fields(message, origin) for message in messages]


def _with_own_fields(message: ChatMessage, origin: str) -> ChatMessage:
    if not has_fields(message.provider_fields, message.tool_calls):
        return message
    if message.provider_fields.get(ORIGIN) == origin:
        return replace(message, provider_fields=without_origin(message.provider_fields))
    calls = tuple(replace(call, provider_fields={}) for call in message.tool_calls)
    return replace(message, provider_fields={}, tool_calls=calls)


def has_fields(fields: Mapping[str, Any], calls: Iterable[ToolCallRequest]) -> bool:
    return bool(fields) or any(call.provider_fields for call in calls)


def without_origin(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if name != ORIGIN}


def rename_ids(value: Any, names: Mapping[str, str]) -> Any:
    """The fields with the new ids of calls that stand in them: some signatures say by id which call they sign."""
    if isinstance(value, str):
        return names.get(value, value)
    return _map_values(value, lambda each: rename_ids(each, names))


def map_texts(value: Any, change: Callable[[str], str]) -> Any:
    """The fields with every text changed."""
    return change(value) if isinstance(value, str) else _map_values(value, lambda each: map_texts(each, change))


def count_field_tokens(fields: Mapping[str, Any], count: Callable[[str], int]) -> int:
    """Tokens that fields take in a prompt: of what can be read as of any text, of what is sealed by its length."""
    return sum(
        count(text) if " " in text else math.ceil(len(text) / CHARACTERS_PER_TOKEN)
        for text in iter_texts(without_origin(fields))
    )


def all_fields(message: ChatMessage) -> list[Mapping[str, Any]]:
    """Those of a message and of its calls, where there are any."""
    fields = (message.provider_fields, *(call.provider_fields for call in message.tool_calls))
    return [each for each in fields if each]


def iter_texts(value: Any) -> Iterable[str]:
    """Every string in it, names of fields aside."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from iter_texts(each)
    elif isinstance(value, Sequence):
        for each in value:
            yield from iter_texts(each)


def _map_values(value: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(value, Mapping):
        return {name: change(each) for name, each in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [change(each) for each in value]
    return value


def _size(value: Any, depth: int) -> int:
    if depth > MAX_DEPTH:
        raise BadAnswer("The endpoint sent something beside the model's answer that is nested too deeply.")
    if isinstance(value, str):
        return len(value)
    if isinstance(value, Mapping):
        return sum(len(name) + _size(each, depth + 1) for name, each in value.items())
    if isinstance(value, list):
        return len(value) + sum(_size(each, depth + 1) for each in value)
    return 1


def _merge(node: dict[str, Any], fields: Mapping[str, Any]) -> None:
    for name, value in fields.items():
        if value is not None:
            node[name] = _merged(node.get(name), value, name)


def _merged(node: Any, value: Any, name: str = "") -> Any:
    """The node with a value that goes on with it, or a new one where it is of another kind."""
    if isinstance(value, str):
        return _merged_text(node, value, name)
    if isinstance(value, Mapping):
        node = node if isinstance(node, dict) else {}
        _merge(node, value)
        return node
    if isinstance(value, list):
        node = node if isinstance(node, list) else []
        for item in value:
            found = _find_item(node, item)
            if found is None:
                node.append(_merged(None, item))
            else:
                _merge(found, item)
        return node
    return value if not isinstance(value, float) or math.isfinite(value) else None


def _merged_text(node: Any, value: str, name: str) -> Any:
    if name in _KEPT_NAMES:
        return value or (node if isinstance(node, str) else "")
    text = node if isinstance(node, StreamedText) else StreamedText()
    is_seal = len(value) >= _SEALED_CHARACTERS and not any(map(str.isspace, value))
    if not (is_seal and text.text == value):
        text.add(value)
    return text


def _find_item(items: list[Any], item: Any) -> dict[str, Any] | None:
    """The item that goes on with it: of the same index, else of the same id, and of the same type."""
    if not isinstance(item, Mapping) or ("index" not in item and "id" not in item):
        return None
    for each in reversed(items[-_RECENT_ITEMS:]):
        if not isinstance(each, dict) or each.get("index") != item.get("index"):
            continue
        ids, types = (each.get("id"), item.get("id")), (each.get("type"), item.get("type"))
        is_same_id = ids[0] == ids[1] if "index" not in item else None in ids or ids[0] == ids[1]
        if is_same_id and (None in types or types[0] == types[1]):
            return each
    return None


def _plain(node: Any) -> Any:
    if isinstance(node, StreamedText):
        node.end()
        return _sendable(node.text)
    if isinstance(node, str):
        return _sendable(node)
    if isinstance(node, dict):
        return {_sendable(name): _plain(each) for name, each in node.items()}
    return [_plain(each) for each in node] if isinstance(node, list) else node


def _sendable(text: str) -> str:
    """The text, word for word, where halves of characters have found each other; a lone one is no character."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
