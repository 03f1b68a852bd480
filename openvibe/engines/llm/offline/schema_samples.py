"""The simplest value that a JSON schema allows, with a text in its first string. Pure.

For the offline model, which does not think: what a schema asks for beyond kinds and names it may miss."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_MAX_DEPTH = 20
_EMPTY: dict[str, Any] = {"integer": 0, "number": 0, "boolean": False, "null": None}


class SampleBuilder:
    """Builds one value. `text` stands in the first string of any length that there is."""

    def __init__(self, schema: Mapping[str, Any], text: str) -> None:
        self._root, self._text = schema, text

    def build(self) -> Any:
        return self._value(self._root, 0)

    def _value(self, schema: Any, depth: int) -> Any:
        if not isinstance(schema, Mapping) or depth > _MAX_DEPTH:
            return None
        if isinstance(reference := schema.get("$ref"), str):
            return self._value(self._resolve(reference), depth + 1)
        for name in ("const", "default"):
            if name in schema:
                return schema[name]
        for name in ("enum", "examples"):
            if isinstance(schema.get(name), list) and schema[name]:
                return schema[name][0]
        for name in ("anyOf", "oneOf", "allOf"):
            if isinstance(schema.get(name), list) and schema[name]:
                return self._value(schema[name][0], depth + 1)
        return self._of_kind(schema, depth)

    def _of_kind(self, schema: Mapping[str, Any], depth: int) -> Any:
        kinds = schema.get("type")
        kind = kinds[0] if isinstance(kinds, list) and kinds else kinds
        if kind == "object" or (kind is None and "properties" in schema):
            return self._object(schema, depth)
        if kind == "array":
            count = schema.get("minItems", 0)
            count = min(count, 100) if isinstance(count, int) else 0
            return [self._value(schema.get("items", {}), depth + 1) for _ in range(count)]
        if kind in ("integer", "number"):
            lowest = schema.get("minimum", schema.get("exclusiveMinimum", 0))
            lowest = lowest if isinstance(lowest, int | float) else 0
            return lowest + 1 if "exclusiveMinimum" in schema else lowest
        if isinstance(kind, str) and kind in _EMPTY:
            return _EMPTY[kind]
        return self._string(schema)

    def _object(self, schema: Mapping[str, Any], depth: int) -> dict[str, Any]:
        properties, required = schema.get("properties"), schema.get("required")
        properties = properties if isinstance(properties, Mapping) else {}
        names = [*(required if isinstance(required, list) else properties)]
        return {str(name): self._value(properties.get(name, {}), depth + 1) for name in names}

    def _string(self, schema: Mapping[str, Any]) -> str:
        text, self._text = self._text, ""
        longest = schema.get("maxLength")
        return text[:longest] if isinstance(longest, int) and longest >= 0 else text

    def _resolve(self, reference: str) -> Any:
        """A part of the schema itself; None for what is elsewhere."""
        node: Any = self._root if reference.startswith("#") else None
        for part in filter(None, reference.removeprefix("#").split("/")):
            node = node.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(node, Mapping) else None
        return node
