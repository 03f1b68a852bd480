"""Names and arguments of calls as models write them, read by the tool's name and schema."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openvibe.engines.llm.answers.lenient_json import UnreadableJson, load_lenient
from openvibe.engines.llm.answers.tool_calls import read_arguments, read_call, resolve_name
from openvibe.engines.llm.values import ToolCallRequest, ToolSpec
from tests.examples import examples

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "text": {"type": "string"},
        "count": {"type": "integer"},
        "share": {"type": "number"},
        "is_open": {"type": "boolean"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "numbers": {"type": "array", "items": {"type": "integer"}},
        "place": {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]},
        "either": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "level": {"enum": [1, 2, 3]},
        "kind": {"type": "string", "enum": ["todo", "2"]},
        "limit": {"type": ["integer", "null"]},
        "anything": {},
        "by_reference": {"$ref": "#/$defs/size"},
        "mixed": {"oneOf": [{"type": "string"}, {"type": "object"}]},
    },
    "required": ["text"],
    "$defs": {"size": {"type": "integer"}},
}


def read(**arguments: Any) -> Any:
    return read_arguments(json.dumps(arguments), SCHEMA)


@pytest.mark.parametrize(
    ("written", "arguments"),
    [
        ({"count": "3"}, {"count": 3}),
        ({"count": " -3 "}, {"count": -3}),
        ({"count": 3.0}, {"count": 3}),
        ({"count": "3.0"}, {"count": 3}),
        ({"share": "0.5"}, {"share": 0.5}),
        ({"share": "4"}, {"share": 4}),
        ({"is_open": "true"}, {"is_open": True}),
        ({"is_open": "False"}, {"is_open": False}),
        ({"tags": "roses"}, {"tags": ["roses"]}),
        ({"tags": '["roses", "mulch"]'}, {"tags": ["roses", "mulch"]}),
        ({"tags": "['roses']"}, {"tags": ["roses"]}),
        ({"numbers": "3"}, {"numbers": [3]}),
        ({"numbers": 3}, {"numbers": [3]}),
        ({"numbers": ["1", 2]}, {"numbers": [1, 2]}),
        ({"place": '{"x": "1"}'}, {"place": {"x": 1}}),
        ({"place": {"x": "1", "y": "2"}}, {"place": {"x": 1, "y": "2"}}),
        ({"either": "7"}, {"either": 7}),
        ({"either": None}, {"either": None}),
        ({"either": "null"}, {"either": None}),
        ({"level": "2"}, {"level": 2}),
        ({"limit": "none"}, {"limit": None}),
        ({"by_reference": "12"}, {"by_reference": 12}),
        ({"count": None}, {}),
        ({"tags": None, "text": "a"}, {"text": "a"}),
    ],
)
def test_values_become_what_the_schema_asks_for(written: dict[str, Any], arguments: dict[str, Any]) -> None:
    assert read(**written) == arguments
    assert json.dumps(read(**written)) == json.dumps(arguments), "types and all"


@pytest.mark.parametrize(
    "arguments",
    [
        {"text": '{"a": 1}'},
        {"text": "3"},
        {"text": "null"},
        {"text": "['a']"},
        {"kind": "2"},
        {"tags": ["[1]"]},
        {"anything": "3"},
        {"anything": None},
        {"mixed": '{"a": 1}'},
        {"limit": None},
        {"unknown": "3"},
    ],
)
def test_what_is_valid_stays_as_it_is(arguments: dict[str, Any]) -> None:
    assert read(**arguments) == arguments


@pytest.mark.parametrize(
    "arguments",
    [
        {"text": 3},
        {"text": None},
        {"count": "three"},
        {"count": "3.5"},
        {"count": True},
        {"count": [3]},
        {"is_open": 1},
        {"is_open": "yes"},
        {"place": "here"},
        {"place": [1]},
        {"numbers": "many"},
        {"level": "9"},
    ],
)
def test_what_cannot_be_told_stays_wrong(arguments: dict[str, Any]) -> None:
    assert read(**arguments) == arguments


STATUS = {"text": "a", "count": 3}


@pytest.mark.parametrize(
    "written",
    [
        json.dumps(STATUS),
        json.dumps(json.dumps(STATUS)),
        json.dumps(json.dumps(json.dumps(STATUS))),
        "```json\n" + json.dumps(STATUS) + "\n```",
        "```\n" + json.dumps(STATUS) + "\n```",
        "{'text': 'a', 'count': 3}",
        '{"text": "a", "count": 3,}',
        '{"text": "a", "count": "3",\n}',
        "  {'text': 'a', 'count': '3'}\n",
    ],
)
def test_arguments_are_read_in_whatever_form(written: str) -> None:
    assert read_arguments(written, SCHEMA) == STATUS


@pytest.mark.parametrize(
    "written", ["{", "status", '{"text": }', "{'a': open('x')}", "[" * 5_000, "{'a': 1e999}", "__import__('os')"]
)
def test_what_is_no_value_says_why(written: str) -> None:
    with pytest.raises(UnreadableJson, match=r"\S"):
        read_arguments(written, SCHEMA)


def test_no_arguments_are_an_empty_object() -> None:
    for written in ("", " ", "{}"):
        assert read_arguments(written, SCHEMA) == {}


def test_schemas_that_lead_nowhere_change_nothing() -> None:
    schemas: tuple[dict[str, Any], ...] = (
        {"properties": {"a": {"$ref": "#/properties/a"}}},
        {"properties": {"a": {"$ref": "https://example.org/schema"}}},
        {"properties": {"a": {"$ref": "#/nowhere"}}},
        {"properties": {"a": True}},
        {"properties": {"a": {"type": "strange"}}},
        {"properties": []},
        {"anyOf": [{"$ref": "#"}]},
        {},
    )
    for schema in schemas:
        assert read_arguments('{"a": "3"}', schema) == {"a": "3"}


def test_commas_within_texts_stay() -> None:
    assert load_lenient('{"a": "x,}", "b": [1, 2,],}') == {"a": "x,}", "b": [1, 2]}


@pytest.mark.parametrize(
    "name",
    [
        "memory",
        "memory<|channel|>commentary",
        "memory<|channel|>json",
        "memory <|constrain|>json",
        "functions.memory",
        "functions.memory:0",
        "functions.memory:12",
        "function.memory",
        "tools.memory",
        "memory:0",
        "to=functions.memory",
        "default_api.memory",
        "functions.memory<|channel|>commentary",
        " memory ",
    ],
)
def test_a_name_with_more_than_the_name_finds_its_tool(name: str) -> None:
    assert resolve_name(name, ["memory", "other"]) == "memory"


@pytest.mark.parametrize("name", ["", "memory2", "mem", "functions", "memory:x", "other.memory", "memory.commentary"])
def test_another_name_finds_none(name: str) -> None:
    assert resolve_name(name, ["memory", "other"]) is None


def test_a_tool_whose_own_name_looks_like_that_is_found_first() -> None:
    assert resolve_name("functions.memory", ["memory", "functions.memory"]) == "functions.memory"


def test_a_call_that_needs_no_reading_stays_word_for_word() -> None:
    tool = ToolSpec("memory", "", SCHEMA)
    for arguments in ('{ "text":"a" }', '{"text": "\\u00e9"}', "{broken", '"text"', "[1]"):
        call = ToolCallRequest("c1", "memory", arguments)
        assert read_call(call, [tool]) is call
    read = read_call(ToolCallRequest("c1", "tools.memory", '{"text": "é", "count": "3"}', {"signature": "s"}), [tool])
    assert (read.name, read.arguments) == ("memory", '{"text": "é", "count": 3}')
    assert read.provider_fields == {"signature": "s"}


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text("a3{}[],\"'tru "),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*SCHEMA["properties"], "x"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@settings(deadline=None, max_examples=examples(300))
@given(st.dictionaries(st.sampled_from(list(SCHEMA["properties"])), JSON, max_size=5))
def test_reading_twice_changes_nothing_more(arguments: dict[str, Any]) -> None:
    once = read_arguments(json.dumps(arguments), SCHEMA)
    assert json.dumps(read_arguments(json.dumps(once), SCHEMA)) == json.dumps(once)


@settings(deadline=None, max_examples=examples(300))
@given(st.text(alphabet="{}[]()\"',:\\0a \n`", max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(UnreadableJson):
        value = read_arguments(text, SCHEMA)
        assert value is None or isinstance(value, dict | list | str | int | float)
