"""Reading what a model wrote as arguments: JSON that may be anything, held against the tool's schema."""

import json
from collections.abc import Mapping
from typing import Any

from openvibe.base.problems import Problem
from openvibe.llm.fences import clean

LONGEST = 100_000
"""Characters of the arguments of one call."""

_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "object": (dict,),
    "array": (list,),
    "null": (type(None),),
}


def read_arguments(written: str, schema: Mapping[str, Any], *, check: bool = True) -> dict[str, Any]:
    """The arguments as an object, held against the schema unless `check` is off.

    Raises Problem with a sentence that says what was expected.
    """
    if len(written) > LONGEST:
        raise Problem(f"The arguments have {len(written):,} characters; at most {LONGEST:,} can be read.")
    try:
        arguments = json.loads(written or "{}")
    except (ValueError, RecursionError) as error:
        raise Problem(f"The arguments are not valid JSON ({error}). {_expected(schema)}") from None
    if not isinstance(arguments, dict):
        raise Problem(f"The arguments must be a JSON object. {_expected(schema)}")
    cleaned: dict[str, Any] = _cleaned(arguments)
    if check:
        _check(cleaned, schema)
    return cleaned


def _check(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> None:
    known: Mapping[str, Any] = schema.get("properties", {})
    missing = [name for name in schema.get("required", ()) if name not in arguments]
    if missing:
        raise Problem(f"{', '.join(missing)} is missing. {_expected(schema)}")
    unknown = [name for name in arguments if name not in known]
    if unknown:
        raise Problem(f"There is no argument {', '.join(unknown)[:200]}. {_expected(schema)}")
    for name, value in arguments.items():
        _check_value(name, value, known[name])


def _check_value(name: str, value: Any, expected: Mapping[str, Any]) -> None:
    told = expected.get("type")
    names: list[str] = [told] if isinstance(told, str) else list(told or ())
    fits = any(isinstance(value, _TYPES.get(kind, (object,))) for kind in names)
    if names and (not fits or (isinstance(value, bool) and "boolean" not in names)):
        raise Problem(f"{name} must be of type {' or '.join(names)}.")
    choices = expected.get("enum")
    if choices is not None and value not in choices:
        raise Problem(f"{name} must be one of: {', '.join(map(str, choices))}.")


def _expected(schema: Mapping[str, Any]) -> str:
    required = set(schema.get("required", ()))
    names = [name if name in required else f"{name} (optional)" for name in schema.get("properties", {})]
    return f"Expected: {', '.join(names)}." if names else "It takes no arguments."


def _cleaned(value: Any) -> Any:
    """Text without control characters and lone surrogates, however deep it stands."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {clean(str(key)): _cleaned(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_cleaned(inner) for inner in value]
    return value
