"""Presets: how a command is started, what it is given, and where its output has the words, the session and errors."""

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, get_args

Input = Literal["stdin", "file", "request", "none"]
Output = Literal["text", "jsonl"]


class BadPreset(ValueError):
    """What is wrong with a preset, in words for who wrote it."""


@dataclass(frozen=True)
class Preset:
    """The README says what each field means. Rules are those of `openvibe_client.output`."""

    name: str = "text"
    command: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    mcp: tuple[str, ...] = ()
    resume: tuple[str, ...] = ()
    last_arguments: tuple[str, ...] = ()
    input: Input = "stdin"
    output: Output = "text"
    session: tuple[str, ...] = ()
    paragraph: tuple[str, ...] = ()
    delta: tuple[str, ...] = ()
    error: tuple[str, ...] = ()

    def command_line(
        self, command: Iterable[str], *, values: Mapping[str, str], session: str | None, with_mcp: bool
    ) -> list[str]:
        """The words to start, `{session}`, `{context_file}`, `{mcp_file}`, `{request}` and `{thread}` filled in."""
        first, *own = command
        resume = self.resume if session else ()
        mcp = self.mcp if with_mcp else ()
        words = [first, *self.arguments, *own, *mcp, *resume, *self.last_arguments]
        places = {**values, "session": session or ""}
        return [_fill(word, places) for word in words]


def _fill(word: str, values: Mapping[str, str]) -> str:
    """Values are put in once: what one of them says in braces stays."""
    for name, value in values.items():
        if word == f"{{{name}}}":
            return value
    for name in ("session", "context_file", "mcp_file", "thread"):  # a request never stands inside other words
        word = word.replace(f"{{{name}}}", values.get(name, ""))
    return word


def load_presets(path: Path | None = None) -> dict[str, Preset]:
    """The built-in presets by name, and those of a file, which win. Raises BadPreset, OSError."""
    presets = _parse(files("openvibe_client").joinpath("presets.toml").read_text(encoding="utf-8"), "presets.toml")
    return presets if path is None else presets | _parse(path.read_text(encoding="utf-8"), str(path))


def _parse(text: str, source: str) -> dict[str, Preset]:
    try:
        tables = tomllib.loads(text)
    except ValueError as error:
        raise BadPreset(f"{source}: {error}") from None
    return {name: _preset(f"{source}: [{name}]", name, table) for name, table in tables.items()}


def _preset(source: str, name: str, table: Any) -> Preset:
    if not isinstance(table, dict):
        raise BadPreset(f"{source} is no table.")
    known = {field.name for field in fields(Preset)} - {"name"}
    values: dict[str, Any] = {}
    for key, value in table.items():
        if key not in known:
            raise BadPreset(f"{source} has “{key}”. Known are {', '.join(sorted(known))}.")
        values[key] = _checked(f"{source} {key}", key, value)
    return Preset(name=name, **values)


def _checked(source: str, key: str, value: Any) -> Any:
    choices = {"input": get_args(Input), "output": get_args(Output)}.get(key)
    if choices is not None:
        if value not in choices:
            raise BadPreset(f"{source} is one of {', '.join(choices)}.")
        return value
    values = [value] if isinstance(value, str) else value
    if not isinstance(values, list) or not all(isinstance(each, str) for each in values):
        raise BadPreset(f"{source} is a text or a list of texts.")
    return tuple(values)
