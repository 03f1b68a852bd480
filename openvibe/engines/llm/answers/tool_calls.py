"""Calls of tools as models write them, and as endpoints take them back: models write some that no endpoint accepts as
history, names with more than the tool's name in them, and arguments that are not quite what the schema says. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from typing import Any

from openvibe.engines.llm.answers.lenient_json import UnreadableJson, load_lenient, load_object
from openvibe.engines.llm.answers.written_calls import WrittenCall
from openvibe.engines.llm.errors import BadAnswer
from openvibe.engines.llm.fences import clean_text
from openvibe.engines.llm.values import ToolCallRequest, ToolSpec

MAX_ARGUMENT_CHARACTERS = 1_000_000
"""The most characters of one call, whoever is to read them: about twice what the longest answer of a model holds."""
MAX_READ_CHARACTERS = 100_000
"""The most characters of arguments that are read leniently."""
MAX_SCHEMA_DEPTH = 12
_NAME_CHARACTERS = re.compile(r"[^a-zA-Z0-9_-]")
_CHANNEL = re.compile(r"\s*<[|｜].*", re.DOTALL)
_NAMESPACE = re.compile(r"\A(?:(?:to=)?(?:functions?|tools?|default_api|multi_tool_use|api)[.:/])+")
_COUNT = re.compile(r":\d{1,6}\Z")


def clean_identifier(text: str) -> str:
    """An id or a name in the letters that endpoints take; models write others, such as `multi_tool_use.parallel`."""
    return _NAME_CHARACTERS.sub("_", text)[:64] or "_"


def resolve_name(name: str, tools: Iterable[ToolSpec | str]) -> str | None:
    """The tool that a name means, which may have a channel, a namespace or a count with it; None where none is meant:
    `memory<|channel|>commentary`, `functions.memory`, `memory:0`."""
    names = {tool if isinstance(tool, str) else tool.name for tool in tools}
    for form in _name_forms(name):
        if form in names:
            return form
    return None


def _name_forms(name: str) -> Iterator[str]:
    yield name
    name = _CHANNEL.sub("", name.strip()).strip()
    yield name
    yield _COUNT.sub("", name)
    yield _NAMESPACE.sub("", name)
    yield _COUNT.sub("", _NAMESPACE.sub("", name))


def merge_calls(
    calls: Sequence[ToolCallRequest], written: Sequence[WrittenCall], tools: Sequence[ToolSpec]
) -> list[ToolCallRequest]:
    """The calls of the protocol, then those that only the text has, by the names and schemas of `tools`."""
    merged = [read_call(call, tools) for call in calls]
    known = {(call.name, _canonical(call.arguments)) for call in merged}
    for number, one in enumerate(written):
        *_, plain_name = _name_forms(clean_text(one.name)[:200])
        name = resolve_name(one.name, tools) or plain_name
        arguments = clean_text(check_arguments(one.arguments))
        if (name, _canonical(arguments)) not in known or not calls:
            call = ToolCallRequest(f"written_{number}", name, arguments if arguments.strip() else "{}")
            merged.append(read_call(call, tools))
    return merged


def stop_reason_of(reason: str, calls: Sequence[ToolCallRequest]) -> str:
    """The reason why the answer ended: an endpoint that sends calls as text says that it just stopped."""
    return "tool_calls" if calls and reason == "stop" else reason


def _canonical(arguments: str) -> str:
    with suppress(UnreadableJson, TypeError, RecursionError):
        return json.dumps(load_object(arguments), sort_keys=True)
    return arguments


def read_call(call: ToolCallRequest, tools: Sequence[ToolSpec]) -> ToolCallRequest:
    """The call by the name of the tool that it means, with its arguments as the tool's schema wants them; as it is
    where that is so already, or neither can be told: then whoever executes it says what is wrong."""
    name = resolve_name(call.name, tools)
    return _with_read_arguments(call if name in (None, call.name) else replace(call, name=name or call.name), tools)


def _with_read_arguments(call: ToolCallRequest, tools: Sequence[ToolSpec]) -> ToolCallRequest:
    tool = next((tool for tool in tools if tool.name == call.name), None)
    if tool is None or len(call.arguments) > MAX_READ_CHARACTERS:
        return call
    try:
        arguments = read_arguments(call.arguments, tool.parameters)
    except UnreadableJson:
        return call
    if not isinstance(arguments, dict) or _is_same(call.arguments, arguments):
        return call
    return replace(call, arguments=json.dumps(arguments, ensure_ascii=False))


def _is_same(text: str, value: Any) -> bool:
    """Whether the text is the value's JSON, types included."""
    try:
        return json.dumps(json.loads(text)) == json.dumps(value)
    except (ValueError, RecursionError):
        return False


def read_arguments(text: str, schema: Mapping[str, Any]) -> Any:
    """The arguments of a call: an object, unless the model wrote something else. Encoded more than once, fenced, as a
    literal of Python or with trailing commas they are read all the same.

    Values that the schema takes stay as they are. Others become what it asks for where that is plain: numbers and truth
    values that are text, one value in place of a list, an object as text; `null` where an argument may be left out and
    may not be null is left out. Raises UnreadableJson.
    """
    value = load_object(text) if text.strip() else {}
    with suppress(RecursionError):
        return _Reader(schema).read(value, schema)
    return value


class _Reader:
    """Reads values by a JSON schema, whose references are followed within it alone."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root

    def read(self, value: Any, schema: Any, depth: int = 0) -> Any:
        """The value as the schema takes it, or as it is where there is no plain way."""
        if depth > MAX_SCHEMA_DEPTH:
            return value
        schema = self._follow(schema)
        if branches := self._branches(schema):
            if self.fits(value, schema, depth):
                return value
            readings = ((branch, self.read(value, branch, depth + 1)) for branch in branches)
            return next((each for branch, each in readings if self.fits(each, branch, depth + 1)), value)
        kinds = _kinds(schema)
        if kinds and not _is_of(value, kinds):
            value = self._convert(value, kinds, schema, depth)
        elif isinstance(value, float) and kinds and "integer" in kinds and "number" not in kinds:
            value = int(value)
        if (choices := schema.get("enum")) and isinstance(value, str) and value not in choices:
            value = _choice(value, choices)
        if isinstance(value, dict):
            return self._read_object(value, schema, depth)
        if isinstance(value, list) and isinstance(schema.get("items"), Mapping):
            return [self.read(each, schema["items"], depth + 1) for each in value]
        return value

    def fits(self, value: Any, schema: Any, depth: int = 0) -> bool:
        """Whether the value is of the types that the schema takes, however deep."""
        if depth > MAX_SCHEMA_DEPTH:
            return True
        schema = self._follow(schema)
        if branches := self._branches(schema):
            return any(self.fits(value, branch, depth + 1) for branch in branches)
        kinds = _kinds(schema)
        if kinds and not _is_of(value, kinds):
            return False
        if "enum" in schema and value not in schema["enum"]:
            return False
        if "const" in schema and value != schema["const"]:
            return False
        if isinstance(value, dict):
            properties = _mapping(schema.get("properties"))
            if any(name not in value for name in _names(schema.get("required"))):
                return False
            return all(
                self.fits(each, properties[name], depth + 1) for name, each in value.items() if name in properties
            )
        if isinstance(value, list) and isinstance(schema.get("items"), Mapping):
            return all(self.fits(each, schema["items"], depth + 1) for each in value)
        return True

    def _read_object(self, value: dict[str, Any], schema: Mapping[str, Any], depth: int) -> dict[str, Any]:
        properties, required = _mapping(schema.get("properties")), _names(schema.get("required"))
        result = {}
        for name, each in value.items():
            if name not in properties:
                result[name] = each
                continue
            if each is None and name not in required and not self.fits(None, properties[name], depth + 1):
                continue
            result[name] = self.read(each, properties[name], depth + 1)
        return result

    def _convert(self, value: Any, kinds: frozenset[str], schema: Mapping[str, Any], depth: int) -> Any:
        """A value of another type than the schema's as one of it."""
        if isinstance(value, str):
            read = _read_text(value.strip(), kinds)
            if read is not value.strip():
                return read
        if "array" in kinds and value is not None:
            items = schema.get("items", True)
            item = self.read(value, items, depth + 1) if isinstance(items, Mapping) else value
            return [item] if self.fits(item, items, depth + 1) else value
        return value

    def _follow(self, schema: Any) -> Mapping[str, Any]:
        for _ in range(MAX_SCHEMA_DEPTH):
            if not isinstance(schema, Mapping):
                return {}
            reference = schema.get("$ref")
            if not isinstance(reference, str) or not reference.startswith("#"):
                return schema
            schema = self._at(reference)
        return {}

    def _at(self, reference: str) -> Any:
        place: Any = self._root
        for part in reference.removeprefix("#").strip("/").split("/"):
            name = part.replace("~1", "/").replace("~0", "~")
            if part:
                place = place.get(name) if isinstance(place, Mapping) else None
        return place

    def _branches(self, schema: Mapping[str, Any]) -> list[Any]:
        for name in ("anyOf", "oneOf", "allOf"):
            branches = schema.get(name)
            if isinstance(branches, Sequence) and not isinstance(branches, str) and branches:
                return list(branches)
        return []


_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "object": (dict,),
    "array": (list,),
    "null": (type(None),),
}
_INTEGER = re.compile(r"[+-]?\d{1,18}(?:\.0{1,9})?\Z", re.ASCII)
_NUMBER = re.compile(r"[+-]?(?:\d{1,18}(?:\.\d{0,18})?|\.\d{1,18})(?:[eE][+-]?\d{1,3})?\Z", re.ASCII)
_WORDS = {"true": True, "false": False}


def _kinds(schema: Mapping[str, Any]) -> frozenset[str]:
    """The types that a schema names; empty where it takes any."""
    declared = schema.get("type")
    kinds = {declared} if isinstance(declared, str) else {each for each in declared or () if isinstance(each, str)}
    if not kinds and "properties" in schema:
        kinds = {"object"}
    if kinds and schema.get("nullable") is True:
        kinds.add("null")
    return frozenset(kinds) if kinds <= _TYPES.keys() else frozenset()


def _is_of(value: Any, kinds: frozenset[str]) -> bool:
    if isinstance(value, bool):
        return "boolean" in kinds
    if isinstance(value, float) and value.is_integer() and "integer" in kinds:
        return True
    return any(isinstance(value, _TYPES[kind]) for kind in kinds)


def _read_text(text: str, kinds: frozenset[str]) -> Any:
    """A value that is written as text; the very text where it is none of these types."""
    if "integer" in kinds and _INTEGER.match(text):
        return int(text.partition(".")[0])
    if "number" in kinds and _NUMBER.match(text):
        return int(text) if _INTEGER.match(text) and "." not in text else float(text)
    if "boolean" in kinds and text.lower() in _WORDS:
        return _WORDS[text.lower()]
    if "null" in kinds and text.lower() in ("null", "none"):
        return None
    if kinds & {"object", "array"} and text[:1] in "{[(`":
        with suppress(UnreadableJson):
            value = load_lenient(text)
            value = list(value) if isinstance(value, tuple) else value
            if _is_of(value, kinds):
                return value
    return text


def _choice(text: str, choices: Any) -> Any:
    """One of the choices that are no text, written as text."""
    with suppress(UnreadableJson, TypeError):
        value = load_lenient(text)
        if value in choices and any(type(value) is type(each) and value == each for each in choices):
            return value
    return text


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _names(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else ()


def arguments_object(arguments: str) -> dict[str, Any]:
    """Arguments as an object: endpoints refuse what is none, even where their own model wrote it."""
    try:
        value = json.loads(arguments)
    except (ValueError, RecursionError):
        value = None
    return value if isinstance(value, dict) else {"malformed": clean_text(arguments)}


def join_arguments(pieces: Sequence[str]) -> str:
    """The arguments that came in pieces. Where together they are no JSON, and those of a stream that says things twice
    would be, they are that: the last piece where each holds all before it, or one of each pair of the same pieces."""
    pieces = [piece for piece in pieces if piece]
    arguments = "".join(pieces)
    if len(pieces) < 2 or is_object(arguments):
        return arguments
    is_cumulative = all(after.startswith(before) or before.startswith(after) for before, after in pairwise(pieces))
    longest = max(pieces, key=len)
    if is_cumulative and is_object(longest):
        return longest
    if is_object(pieces[-1]) and "".join(pieces[:-1]) == pieces[-1]:
        return pieces[-1]
    if pieces[0].strip() == "{}" and is_object(rest := "".join(pieces[1:])):  # put there for what is to come
        return rest
    if len(pieces) % 2 == 0 and pieces[::2] == pieces[1::2] and is_object(once := "".join(pieces[::2])):
        return once
    return arguments


def is_object(text: str) -> bool:
    """Whether the text is a JSON object."""
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def make_call(
    number: int, call_id: Any, name: Any, arguments: str, provider_fields: Mapping[str, Any] | None = None
) -> ToolCallRequest:
    """The call that an answer of any protocol holds as its `number`: without an id it gets one, without arguments none.

    Raises BadAnswer for one without a name, or with endless arguments.
    """
    if not isinstance(name, str) or not name:
        raise BadAnswer("The model called a tool without naming it.")
    arguments = clean_text(check_arguments(arguments))
    return ToolCallRequest(
        str(call_id or f"call_{number}"),
        clean_text(name)[:200],
        arguments if arguments.strip() else "{}",
        provider_fields or {},
    )


def check_arguments(arguments: str) -> str:
    """The arguments as they are. Raises BadAnswer where they are endless."""
    if len(arguments) > MAX_ARGUMENT_CHARACTERS:
        raise BadAnswer(f"The model called a tool with more than {MAX_ARGUMENT_CHARACTERS:,} characters of arguments.")
    return arguments
