"""How a chat client wants to be answered: what of it the agent's model can be told, what is refused, what is ignored.

What cannot be done and would be missed is refused by name (several answers, log probabilities, audio). What else is
sent is used where the agent's endpoint takes it, and named in the header `X-OpenVibe-Ignored` where it is known that it
does not. Pure: no Django."""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from openvibe.base.problems import Problem

MAX_FORMAT_CHARACTERS = 20_000
"""The largest size of a schema as JSON: it stands in the prompt."""
MAX_STOPS, MAX_STOP_CHARACTERS = 16, 200
MAX_IGNORED = 20
"""Names in the header."""
MAX_NAME_CHARACTERS = 60
IGNORED_HEADER = "X-OpenVibe-Ignored"

_HARMLESS = frozenset(
    {
        *("store", "service_tier", "safety_identifier", "prompt_cache_key", "prompt_cache_retention", "truncation"),
        *("prompt_cache_options", "stream_options"),
    }
)
"""Fields that change nothing about an answer."""

_NEUTRAL: dict[str, tuple[Any, ...]] = {
    "n": (1,),
    "logit_bias": ({},),
    "logprobs": (False,),
    "top_logprobs": (0,),
    "background": (False,),
    "include": ([],),
    "modalities": (["text"],),
    "tool_choice": ("auto", "none"),
    "verbosity": ("medium",),
    "frequency_penalty": (0,),
    "presence_penalty": (0,),
    "top_p": (1,),
    "parallel_tool_calls": (True,),
    "best_of": (1,),
}
"""Values that say what happens anyway."""

_REFUSALS = {
    "n": "One answer is given: n is 1.",
    "best_of": "One answer is given: best_of is 1.",
    "logprobs": "Log probabilities are not given.",
    "top_logprobs": "Log probabilities are not given.",
    "modalities": "Answers are text: there is no audio here.",
    "audio": "Answers are text: there is no audio here.",
    "background": "Answers are not made in the background: stream them.",
    "prompt": "Prompts that are stored elsewhere are not known here: send the messages.",
}
"""What a client would miss."""

_EFFORTS = {"none": "off", "minimal": "low", "low": "low", "medium": "medium", "high": "high", "xhigh": "high"}
_EFFORTS["max"] = "high"

CLIENT_NAMES = {"effort": ("reasoning_effort", "reasoning"), "response_format": ("response_format", "text")}
"""What the protocols call an option that is not called like ours."""


@dataclass(frozen=True)
class ParsedOptions:
    """The options by the names of `CallOptions`, as JSON, and the names of fields that nothing is made of."""

    values: dict[str, Any]
    ignored: tuple[str, ...]


def invalid(message: str, param: str, code: str = "invalid_value") -> Problem:
    return Problem(message, code=code, field=param)


def parse_options(body: Mapping[str, Any], known: Iterable[str]) -> ParsedOptions:
    """The options of a body whose fields `known` are read elsewhere. Raises Problem for what is refused and what cannot
    be."""
    values: dict[str, Any] = {}
    ignored: set[str] = set()
    for name, value in body.items():
        if value is None or name in _HARMLESS or _is_neutral(name, value):
            continue
        if name in _REFUSALS:
            raise invalid(_REFUSALS[name], name, "unsupported_parameter")
        if name in _READERS:
            values |= _READERS[name](value, name)
        elif name == "tool_choice" and (tool := _forced_tool(value, body.get("tools"))):
            values["tool_choice"] = tool
        elif name not in known or name == "tool_choice":
            ignored.add(name)
    for name, read in (("reasoning", {"effort"}), ("text", {"format"})):
        if isinstance(value := body.get(name), dict) and any(value[key] is not None for key in value.keys() - read):
            ignored.add(name)
    return ParsedOptions(values, tuple(sorted(ignored)))


def ignored_header(names: Iterable[str]) -> str:
    """Names with commas between them, sorted and bounded, in letters that a header takes; empty where there is none."""
    plain = {"".join(c if c.isascii() and (c.isalnum() or c in "_-.") else "?" for c in name) for name in names}
    return ", ".join(sorted(name[:MAX_NAME_CHARACTERS] for name in plain if name)[:MAX_IGNORED])


def untaken_names(body_names: Iterable[str], untaken: Iterable[str]) -> list[str]:
    """What the client calls those of its options that the endpoint does not take."""
    sent = set(body_names)
    return [name for option in untaken for name in CLIENT_NAMES.get(option, (option,)) if name in sent]


def _is_neutral(name: str, value: Any) -> bool:
    return any(type(value) in (type(each), float) and value == each for each in _NEUTRAL.get(name, ()))


def _number(low: float, high: float) -> Callable[[Any, str], dict[str, Any]]:
    def read(value: Any, name: str) -> dict[str, Any]:
        if not isinstance(value, int | float) or isinstance(value, bool) or not low <= value <= high:
            raise invalid(f"{name} is a number from {low:g} to {high:g}.", name)
        return {name: value}

    return read


def _seed(value: Any, name: str) -> dict[str, Any]:
    if not isinstance(value, int) or isinstance(value, bool) or not -(2**63) <= value < 2**63:
        raise invalid("seed is a whole number.", name)
    return {"seed": value}


def _stop(value: Any, name: str) -> dict[str, Any]:
    texts = [value] if isinstance(value, str) else value
    is_list = isinstance(texts, list) and len(texts) <= MAX_STOPS
    if not is_list or not all(isinstance(text, str) and len(text) <= MAX_STOP_CHARACTERS for text in texts):
        raise invalid(f"stop is a text, or a list of at most {MAX_STOPS}, of {MAX_STOP_CHARACTERS} characters.", name)
    kept = [text for text in texts if text]
    return {"stop": kept} if kept else {}


def _forced_tool(value: Any, tools: Any) -> str:
    """The tool that has to be called, of those the client offers; empty where it names none, or leaves a choice."""
    rows = [row for row in tools if isinstance(row, dict)] if isinstance(tools, list) else []
    names = [function.get("name") for row in rows if isinstance(function := row.get("function", row), dict)]
    if value == "required" and len(names) == 1:
        return str(names[0])
    if not isinstance(value, dict):
        return ""
    chosen = value.get("function", value)
    name = chosen.get("name") if isinstance(chosen, dict) else None
    return str(name) if name in names else ""


def _flag(value: Any, name: str) -> dict[str, Any]:
    if not isinstance(value, bool):
        raise invalid(f"{name} is true or false.", name)
    return {name: value}


def _effort(value: Any, name: str) -> dict[str, Any]:
    if not isinstance(value, str) or value not in _EFFORTS:
        raise invalid(f"{name} is one of {', '.join(_EFFORTS)}.", name)
    return {"effort": _EFFORTS[value]}


def _reasoning(value: Any, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise invalid("An object is expected here.", name)
    return {} if value.get("effort") is None else _effort(value["effort"], f"{name}.effort")


def _response_format(value: Any, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise invalid("An object is expected here.", name)
    kind = value.get("type")
    if kind in ("text", None):
        return {}
    if kind == "json_object":
        return {"response_format": {"type": kind}}
    if kind != "json_schema":
        raise invalid("A format is of type text, json_object or json_schema.", f"{name}.type")
    return {"response_format": {"type": kind, "json_schema": _json_schema(value.get("json_schema"), name)}}


def _text(value: Any, name: str) -> dict[str, Any]:
    """The format of a response, which has the schema's fields beside its type."""
    if not isinstance(value, dict):
        raise invalid("An object is expected here.", name)
    wanted = value.get("format")
    if wanted is None:
        return {}
    if isinstance(wanted, dict) and wanted.get("type") == "json_schema":
        wanted = {"type": "json_schema", "json_schema": {key: each for key, each in wanted.items() if key != "type"}}
    return _response_format(wanted, f"{name}.format")


def _json_schema(value: Any, name: str) -> dict[str, Any]:
    param = f"{name}.json_schema"
    if not isinstance(value, dict) or not isinstance(value.get("schema", {}), dict):
        raise invalid("json_schema is an object with a name and a schema.", param)
    schema = value.get("schema") or {}
    try:
        size = len(json.dumps(schema, allow_nan=False))
    except (ValueError, RecursionError):
        raise invalid("The schema cannot be written as JSON.", param) from None
    if size > MAX_FORMAT_CHARACTERS:
        raise invalid(f"A schema has at most {MAX_FORMAT_CHARACTERS:,} characters; this one has {size:,}.", param)
    from agents.runs.json_schema import find_schema_problem  # 80 ms and 5 MB, and hardly any request has a schema

    if problem := find_schema_problem(schema):
        raise invalid(f"That is no JSON schema: {problem}", param, "invalid_json_schema")
    strict, schema_name = value.get("strict"), value.get("name", "answer")
    if not isinstance(strict, bool | None) or not isinstance(schema_name, str):
        raise invalid("json_schema has a name, a schema, and strict, which is true or false.", param)
    kept = {"name": schema_name[:64] or "answer", "schema": schema}
    return kept if strict is None else {**kept, "strict": strict}


_READERS: dict[str, Callable[[Any, str], dict[str, Any]]] = {
    "temperature": _number(0, 2),
    "top_p": _number(0, 1),
    "presence_penalty": _number(-2, 2),
    "frequency_penalty": _number(-2, 2),
    "seed": _seed,
    "stop": _stop,
    "parallel_tool_calls": _flag,
    "reasoning_effort": _effort,
    "reasoning": _reasoning,
    "response_format": _response_format,
    "text": _text,
}
