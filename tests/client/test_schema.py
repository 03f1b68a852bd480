"""The client's own types and calls are the API's: held against the schema, which other tests hold against the code."""

import re
import typing
from pathlib import Path
from typing import Any

import openvibe_client
from openvibe.api.schema import openapi_schema
from openvibe.engines.text.cleaning import MAX_BODY_CHARACTERS
from openvibe_client import answer, schema

JSON_TYPES = {
    "int": "integer",
    "bool": "boolean",
    "str": "string",
    "NoneType": "null",
    "dict": "object",
    "list": "array",
}
SOURCE = Path(openvibe_client.__file__).parent
OWN_CALL = re.compile(r'\btell[(,]\s*"(\w+)",\s*f?"')
"""A call of a run's own, by its path below the run's."""
CALL = re.compile(r'"(GET|POST|PUT|PATCH|DELETE)",\s*f?"([a-z{][^"]*/)"')


def types_of(field: dict[str, Any], components: dict[str, Any]) -> set[str]:
    """JSON types (or names of components) that a property of the schema may have."""
    if "$ref" in field:
        name = field["$ref"].rpartition("/")[2]
        component = components[name]
        return {component["type"]} if "enum" in component else {name}
    if parts := [*field.get("allOf", ()), *field.get("oneOf", ()), *field.get("anyOf", ())]:
        return set().union(*(types_of(part, components) for part in parts))
    kind = field["type"]
    return set(kind) if isinstance(kind, list) else {kind}


def json_types(hint: Any) -> set[str]:
    parts = typing.get_args(hint) if typing.get_origin(hint) not in (list, dict) else ()
    if parts:
        return set().union(*map(json_types, parts))
    name = (typing.get_origin(hint) or hint).__name__
    return {JSON_TYPES.get(name, name)}


def test_every_field_that_is_read_is_in_the_schema_with_its_type() -> None:
    components = openapi_schema()["components"]["schemas"]
    kinds = [each for each in vars(schema).values() if typing.is_typeddict(each)]
    assert len(kinds) > 5
    for kind in kinds:
        component = components[kind.__name__]
        for name, hint in typing.get_type_hints(kind).items():
            assert name in component["required"], (kind.__name__, name)
            assert types_of(component["properties"][name], components) == json_types(hint), (kind.__name__, name)


def test_every_call_is_in_the_schema() -> None:
    paths = {
        re.sub(r"{\w+}", "{}", path.removeprefix("/api/v1/")): set(methods)
        for path, methods in openapi_schema()["paths"].items()
    }
    sources = [
        OWN_CALL.sub(r'("\1", "runs/{id}/', source.read_text(encoding="utf-8")) for source in SOURCE.glob("*.py")
    ]
    calls = [(method, re.sub(r"{[^}]+}", "{}", path)) for text in sources for method, path in CALL.findall(text)]
    assert len(calls) > 16
    for method, path in calls:
        assert method.lower() in paths[path], (method, path)


def test_it_knows_how_long_a_reply_may_be() -> None:
    assert answer.MAX_CHARACTERS == MAX_BODY_CHARACTERS
