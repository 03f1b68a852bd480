"""Whether something is a JSON schema, and whether a value is valid by one.

Loaded with the first schema: the library takes a process 80 ms and 5 MB, and hardly any run has one. Patterns of a
schema are not tried: a client may write one that never ends."""

from collections.abc import Iterator, Mapping
from typing import Any

from jsonschema import Draft202012Validator, SchemaError  # type: ignore[import-untyped]  # it has no types
from jsonschema.validators import extend, validator_for  # type: ignore[import-untyped]
from referencing import Registry
from referencing.exceptions import Unresolvable

_MAX_PROBLEM_CHARACTERS = 300


def find_schema_problem(schema: Any) -> str:
    """The reason why it is no JSON schema, in a line; empty where it is one."""
    try:
        validator_for(schema, default=Draft202012Validator).check_schema(schema)
    except SchemaError as error:
        return str(error.message)[:_MAX_PROBLEM_CHARACTERS]
    except RecursionError:
        return "It is nested too deeply."
    return ""


def find_value_problem(schema: Mapping[str, Any], value: Any) -> str:
    """The reason why the value is not valid by the schema, in a line; empty where it is. Nothing is fetched."""
    validator_class = validator_for(schema, default=Draft202012Validator)
    validator_class = extend(validator_class, {"pattern": _no_check, "patternProperties": _no_check})
    try:
        errors = validator_class(schema, registry=Registry()).iter_errors(value)
        error = next(iter(errors), None)
    except Unresolvable:
        return "The schema refers to another one that is not in it."
    except RecursionError:
        return "The schema refers to itself without an end."
    if error is None:
        return ""
    place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.absolute_path)
    return f"At ${place}: {str(error.message)[:_MAX_PROBLEM_CHARACTERS]}."


def _no_check(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any]:
    yield from ()
