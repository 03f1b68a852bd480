"""What a chat client asks, from the body of either protocol: the items it sent, its tools, and what it wants back.

What the agent's model may be told (temperature, a format and the like) is in `agents.openai_api.options`. Pure: no
Django."""

import hashlib
import json
import re
from base64 import b64decode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from agents.openai_api.options import invalid, parse_options
from openvibe.engines.text.cleaning import has_visible_character

MAX_ITEMS, MAX_TOOLS = 2_000, 64
_IMAGE_TYPES = ("image_url", "input_image")
"""Parts of a user's message that are images, in chat completions and in responses."""
_ADDRESS_LETTERS = str.maketrans("-_", "+/")
"""Base64 as it stands in addresses, to what it is elsewhere."""
_THOUGHT_TYPES = ("thinking", "redacted_thinking", "reasoning")
"""Parts of an answer that some clients send back: what a model thought, which is no part of what was said."""
MAX_OUTPUT_TOKENS = 2**31 - 1
_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_COMMON = {"model", "stream", "tools", "tool_choice", "metadata", "user"}


@dataclass(frozen=True)
class ClientCall:
    """A call of one of the client's tools, as it stands in the history that the client sends."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True)
class HistoryItem:
    """One message of a history: `user` (with its images, as files), `assistant` (with its calls), or `tool`, the result
    of the call `call_id`."""

    role: str
    text: str
    calls: tuple[ClientCall, ...] = ()
    call_id: str = ""
    images: tuple[bytes, ...] = ()

    @property
    def key(self) -> list[object]:
        """What tells it from others: words without regard to blanks, calls by their ids, images by their digests."""
        words = "" if self.calls else " ".join(self.text.split())
        images = [hashlib.sha256(image).hexdigest() for image in self.images]
        return [self.role, words, [c.id for c in self.calls], self.call_id, *([images] if images else [])]


@dataclass(frozen=True)
class ClientRequest:
    """A request of either protocol. `conversation`: what the client calls it; `continues`: the id of an earlier answer
    that it goes on from; with either, `items` may be the new ones alone. `options`: how it wants to be answered, by the
    names of `CallOptions`, as JSON; `ignored`: names of fields that nothing is made of."""

    handle: str
    items: tuple[HistoryItem, ...]
    instructions: str = ""
    tools: tuple[dict[str, Any], ...] = ()
    max_output_tokens: int | None = None
    stream: bool = False
    with_usage: bool = True
    user: str = ""
    conversation: str = ""
    continues: str = ""
    channel: str = ""
    is_resent: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)
    ignored: tuple[str, ...] = ()

    @property
    def new_items(self) -> tuple[HistoryItem, ...]:
        """What comes after the last answer."""
        return self.items[len(self.answered_items) :]

    @property
    def answered_items(self) -> tuple[HistoryItem, ...]:
        """The items up to the last answer."""
        roles = [item.role for item in self.items]
        return self.items[: len(roles) - roles[::-1].index("assistant")] if "assistant" in roles else ()

    def digest(self, items: Iterable[HistoryItem]) -> str:
        """SHA-256 of a history as this client, conversation and user know it."""
        parts = [self.user, self.conversation, self.continues, *(item.key for item in items)]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def parse_chat(body: Any) -> ClientRequest:
    """A body of `/v1/chat/completions`. Raises Problem."""
    field_names = _COMMON | {"messages", "max_tokens", "max_completion_tokens", "stream_options"}
    common = _parse_common(body, field_names, nested_tools=True)
    items, instructions = [], []
    for number, message in enumerate(_list(body, "messages", MAX_ITEMS)):
        param = f"messages.{number}"
        role = _object(message, param).get("role")
        if role in ("system", "developer"):
            instructions.append(_text(message.get("content"), f"{param}.content"))
        elif role == "user":
            items.append(_user_item(message.get("content"), f"{param}.content"))
        elif role == "assistant":
            calls = tuple(_chat_call(call, param) for call in _calls_of(message))
            text = message.get("content") or message.get("refusal") or ""
            items.append(HistoryItem("assistant", _answer_text(text, f"{param}.content"), calls))
        elif role == "tool":
            items.append(
                HistoryItem(
                    "tool",
                    _text(message.get("content"), f"{param}.content"),
                    call_id=_name(message, "tool_call_id", param),
                )
            )
        else:
            raise invalid("A role is system, developer, user, assistant or tool.", f"{param}.role")
    options = _object(body.get("stream_options") or {}, "stream_options")
    return ClientRequest(
        items=_checked_items(items, "messages"),
        instructions="\n\n".join(filter(None, instructions)),
        max_output_tokens=_limit(body, "max_completion_tokens") or _limit(body, "max_tokens"),
        with_usage=_flag(options, "include_usage", "stream_options"),
        **common,
    )


def parse_response(body: Any) -> ClientRequest:
    """A body of `/v1/responses`. Raises Problem."""
    field_names = _COMMON | {
        "input",
        "instructions",
        "max_output_tokens",
        "previous_response_id",
        "conversation",
        "stream_options",
    }
    common = _parse_common(body, field_names, nested_tools=False)
    client_input = body.get("input")
    rows = (
        [{"role": "user", "content": client_input}]
        if isinstance(client_input, str)
        else _list(body, "input", MAX_ITEMS)
    )
    items: list[HistoryItem] = []
    instructions = [_text(body.get("instructions") or "", "instructions")]
    for number, row in enumerate(rows):
        param = f"input.{number}"
        kind, role = _object(row, param).get("type", "message"), row.get("role")
        if kind == "function_call":
            call = ClientCall(_name(row, "call_id", param), _name(row, "name", param), str(row.get("arguments", "")))
            _add_call(items, call)
        elif kind == "function_call_output":
            items.append(
                HistoryItem("tool", _text(row.get("output"), f"{param}.output"), call_id=_name(row, "call_id", param))
            )
        elif kind == "message" and role in ("system", "developer"):
            instructions.append(_text(row.get("content"), f"{param}.content"))
        elif kind == "message" and role == "user":
            items.append(_user_item(row.get("content"), f"{param}.content"))
        elif kind == "message" and role == "assistant":
            items.append(HistoryItem(role, _answer_text(row.get("content"), f"{param}.content")))
        elif kind != "reasoning":
            raise invalid(f"Input of type {str(kind)[:40]} is not taken here: messages and function calls are.", param)
    conversation = body.get("conversation") or ""
    key = conversation.get("id", "") if isinstance(conversation, dict) else conversation
    return ClientRequest(
        items=_checked_items(items, "input"),
        instructions="\n\n".join(filter(None, instructions)),
        max_output_tokens=_limit(body, "max_output_tokens"),
        **{**common, "conversation": short_text(key, "conversation") or common["conversation"]},
        continues=short_text(body.get("previous_response_id") or "", "previous_response_id"),
    )


def _add_call(items: list[HistoryItem], call: ClientCall) -> None:
    """A call belongs to the answer it came in: the one right before it."""
    if items and items[-1].role == "assistant":
        last = items.pop()
        items.append(HistoryItem("assistant", last.text, (*last.calls, call)))
    else:
        items.append(HistoryItem("assistant", "", (call,)))


def _parse_common(body: Any, field_names: set[str], *, nested_tools: bool) -> dict[str, Any]:
    _object(body, "")
    parsed = parse_options(body, field_names)
    metadata = body.get("metadata") or {}
    model = body.get("model")
    if not isinstance(model, str) or not model.strip():
        raise invalid("Name an agent as the model, as GET /v1/models lists them: “@vibe”.", "model")
    if not isinstance(metadata, dict):
        raise invalid("metadata is an object.", "metadata")
    offers_tools = body.get("tool_choice") != "none"
    user = body.get("user") or ""
    return {
        "handle": model.strip().removeprefix("@").lower(),
        "tools": _parse_tools(body.get("tools") or [], nested_tools) if offers_tools else (),
        "stream": _flag(body, "stream", "stream"),
        "user": _user(user) if isinstance(user, str) else "",
        "conversation": short_text(metadata.get("conversation") or "", "metadata"),
        "channel": short_text(metadata.get("channel") or "", "metadata"),
        "options": parsed.values,
        "ignored": parsed.ignored if isinstance(user, str) else tuple(sorted({*parsed.ignored, "user"})),
    }


def _parse_tools(rows: Any, is_nested: bool) -> tuple[dict[str, Any], ...]:
    if not isinstance(rows, list) or len(rows) > MAX_TOOLS:
        raise invalid(f"tools is a list of at most {MAX_TOOLS}.", "tools")
    tools = []
    for number, row in enumerate(rows):
        param = f"tools.{number}"
        if _object(row, param).get("type") != "function":
            raise invalid("Only tools of type function are passed through.", param, "unsupported_parameter")
        function = _object(row.get("function"), param) if is_nested else row
        name, parameters = function.get("name"), function.get("parameters") or {"type": "object", "properties": {}}
        if not isinstance(name, str) or not _TOOL_NAME.fullmatch(name):
            raise invalid("A tool's name is 1 to 64 of a-z, A-Z, 0-9, _ and -.", f"{param}.name")
        description = str(function.get("description") or "")
        tools.append(
            {"name": name, "description": description, "parameters": _object(parameters, f"{param}.parameters")}
        )
    if len({tool["name"] for tool in tools}) < len(tools):
        raise invalid("Two tools have the same name.", "tools")
    return tuple(tools)


def _checked_items(items: list[HistoryItem], param: str) -> tuple[HistoryItem, ...]:
    if not items or items[-1].role == "assistant":
        raise invalid("The last message is the user's, or the result of a tool: there is nothing to answer.", param)
    if items[-1].role == "user" and not (has_visible_character(items[-1].text) or items[-1].images):
        raise invalid("The last message says nothing.", param, "empty")
    return tuple(items)


def _calls_of(message: Mapping[str, Any]) -> list[Any]:
    return _list(message, "tool_calls", MAX_ITEMS) if message.get("tool_calls") else []


def _chat_call(call: Any, param: str) -> ClientCall:
    function = _object(_object(call, param).get("function"), param)
    return ClientCall(_name(call, "id", param), _name(function, "name", param), str(function.get("arguments", "")))


def _user_item(content: Any, param: str) -> HistoryItem:
    """What a user says: texts, and images among them."""
    parts = content if isinstance(content, list) else [content]
    is_image = [isinstance(part, Mapping) and part.get("type") in _IMAGE_TYPES for part in parts]
    if not any(is_image):
        return HistoryItem("user", _text(content, param))
    images = tuple(_image(part, param) for part, is_one in zip(parts, is_image, strict=True) if is_one)
    texts = [part for part, is_one in zip(parts, is_image, strict=True) if not is_one]
    return HistoryItem("user", _text(texts, param), images=images)


def _image(part: Mapping[str, Any], param: str) -> bytes:
    """The file in a part of either protocol. Raises Problem for one that would have to be fetched."""
    value = part.get("image_url")
    url = value.get("url") if isinstance(value, Mapping) else value
    if not isinstance(url, str) or not url:
        raise invalid("An image is sent as image_url, a data: URL: files by their id are not known here.", param)
    if not url[:5].lower() == "data:":
        raise invalid(
            "Images are not fetched from other addresses: send the image itself as image_url, a data: URL.",
            param,
            "unsupported_content",
        )
    head, comma, data = url.partition(",")
    if not comma or not head.lower().endswith(";base64"):
        raise invalid("An image is a data: URL in base64, such as data:image/png;base64,iVBORw0…", param)
    letters = "".join(data.split()).rstrip("=").translate(_ADDRESS_LETTERS)  # some programs write lines, or no padding
    try:
        return b64decode(letters + "=" * (-len(letters) % 4), validate=True)
    except ValueError:
        raise invalid("The base64 of an image is damaged.", param) from None


def _user(value: str) -> str:
    """The user that a program asks for, as one name of at most 80 characters; one that is none becomes its beginning
    and a digest, so that no two users are taken for one."""
    if len(value) <= 80 and value.isprintable():
        return value
    start = "".join(character if character.isprintable() else " " for character in value[:60])
    return f"{start} {hashlib.sha256(value.encode(errors='replace')).hexdigest()[:16]}"


def _answer_text(content: Any, param: str) -> str:
    """The text of an answer that the client sends back, without what was thought."""
    if isinstance(content, list):
        content = [part for part in content if not (isinstance(part, Mapping) and part.get("type") in _THOUGHT_TYPES)]
    return _text(content, param)


def _text(content: Any, param: str) -> str:
    """A content that is a text, or parts that are all text."""
    if content is None or isinstance(content, str):
        return content or ""
    parts = []
    for part in content if isinstance(content, list) else [content]:
        if not isinstance(part, Mapping) or part.get("type") not in ("text", "input_text", "output_text", "refusal"):
            kind = str(part.get("type", "?"))[:40] if isinstance(part, Mapping) else "other"
            taken = "only text" if kind not in _IMAGE_TYPES else "only a user's message has images"
            raise invalid(f"Content of type {kind} is not taken here, {taken}.", param, "unsupported_content")
        parts.append(str(part.get("text") or part.get("refusal") or ""))
    return "\n".join(parts)


def _list(body: Mapping[str, Any], name: str, most: int) -> list[Any]:
    rows = body.get(name)
    if not isinstance(rows, list) or not 0 < len(rows) <= most:
        raise invalid(f"{name} is a list of 1 to {most:,}.", name)
    return rows


def _object(value: Any, param: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise invalid("An object is expected here.", param)
    return value


def _name(row: Mapping[str, Any], name: str, param: str) -> str:
    value = row.get(name)
    if not isinstance(value, str) or not 0 < len(value) <= 100:
        raise invalid(f"{name} is a text of 1 to 100 characters.", f"{param}.{name}")
    return value


def short_text(value: Any, param: str) -> str:
    if not isinstance(value, str) or len(value) > 80 or not value.isprintable():
        raise invalid(f"{param} is a text of at most 80 plain characters here.", param)
    return value


def _flag(row: Mapping[str, Any], name: str, param: str) -> bool:
    value = row.get(name)
    if value is not None and not isinstance(value, bool):
        raise invalid(f"{name} is true or false.", param)
    return bool(value)


def _limit(body: Mapping[str, Any], name: str) -> int | None:
    """None where there is none, which some clients call -1."""
    value = body.get(name)
    if value is None or value == -1:
        return None
    is_whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    if not is_whole or isinstance(value, bool) or value <= 0:
        raise invalid(f"{name} is a whole number from 1 up.", name)
    return min(int(value), MAX_OUTPUT_TOKENS)
