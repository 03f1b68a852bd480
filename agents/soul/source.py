"""From text to located pieces: safe YAML (and so JSON) where every value remembers its line.

Anchors, aliases, tags and several documents in one text are refused: a SOUL needs none of them, and
they are how small YAML texts become enormous or strange.
"""

import json
import re
from dataclasses import dataclass, field
from typing import Any, Literal

import yaml

from agents.soul.problems import Problem, SoulError

MAX_BYTES = 64 * 1024
MAX_DEPTH = 8

Kind = Literal["text", "whole number", "number", "yes or no", "nothing", "list", "mapping"]

UNPRINTABLE = re.compile(r"[^\t\n\r\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

_KINDS: dict[str, Kind] = {
    "tag:yaml.org,2002:null": "nothing",
    "tag:yaml.org,2002:bool": "yes or no",
    "tag:yaml.org,2002:int": "whole number",
    "tag:yaml.org,2002:float": "number",
}
_DECIMAL = re.compile(r"[-+]?(0|[1-9][0-9_]{0,17})")


@dataclass(frozen=True, slots=True)
class Piece:
    """A value and the line it stands on. `entries` are filled for mappings, `items` for lists."""

    line: int
    kind: Kind
    value: str | int | float | bool | None = None
    items: tuple["Piece", ...] = ()
    entries: tuple["Entry", ...] = field(default=())


@dataclass(frozen=True, slots=True)
class Entry:
    """One `key: value` of a mapping. Keys may repeat here; the reader reports those that do."""

    line: int
    key: str
    piece: Piece


def read_source(text: str) -> Piece:
    """The text's only document. Raises SoulError when it is no YAML or JSON that a SOUL may be written in."""
    text = text.removeprefix("\ufeff")
    _refuse_unusable(text)
    text = _without_json_tabs(text)
    try:
        _refuse_clever_yaml(text)
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except SoulError:
        raise
    except yaml.MarkedYAMLError as error:
        raise SoulError(_syntax_problems(text, error)) from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise SoulError((Problem(1, "", f"This is not readable YAML or JSON: {error}."),)) from error
    if node is None:
        raise SoulError((Problem(1, "", "The SOUL is empty. It needs at least identity.name and identity.role."),))
    return _piece(node)


def read_plain(data: object) -> Piece:
    """The same pieces from plain values (dicts, lists, strings…), all on line 0."""
    if isinstance(data, dict):
        entries = tuple(Entry(0, str(key), read_plain(value)) for key, value in data.items())
        return Piece(0, "mapping", entries=entries)
    if isinstance(data, list | tuple):
        return Piece(0, "list", items=tuple(read_plain(value) for value in data))
    if data is None:
        return Piece(0, "nothing")
    if isinstance(data, bool):
        return Piece(0, "yes or no", data)
    if isinstance(data, int):
        return Piece(0, "whole number", data)
    if isinstance(data, float):
        return Piece(0, "number", data)
    return Piece(0, "text", str(data))


def _refuse_unusable(text: str) -> None:
    if len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        raise SoulError((Problem(1, "", "The SOUL is larger than 64 kB. Shorten it; 2,000 tokens are the limit."),))
    if not text.strip():
        raise SoulError((Problem(1, "", "The SOUL is empty. It needs at least identity.name and identity.role."),))
    found = tuple(
        Problem(number, "", f"Remove the unprintable character U+{ord(match[0]):04X}.")
        for number, line in enumerate(text.split("\n"), start=1)
        if (match := UNPRINTABLE.search(line))
    )
    if found:
        raise SoulError(found)


def _without_json_tabs(text: str) -> str:
    """JSON may be indented with tabs, YAML may not. In valid JSON a raw tab never stands inside a string."""
    if "\t" not in text or not text.lstrip().startswith("{"):
        return text
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return text
    return text.replace("\t", " ")


def _refuse_clever_yaml(text: str) -> None:
    depth = 0
    found: list[Problem] = []
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        line = event.start_mark.line + 1 if event.start_mark else 1
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            found.append(
                Problem(
                    line,
                    "",
                    "Anchors and aliases (& and *) are not used in a SOUL. Write it out, or quote it.",
                )
            )
        elif getattr(event, "tag", None):
            found.append(
                Problem(line, "", "Tags (words with !) are not used in a SOUL. Quote the text if you mean it.")
            )
        if isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
            depth += 1
        elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
            depth -= 1
        if depth > MAX_DEPTH:
            found.append(Problem(line, "", f"This is nested more than {MAX_DEPTH} levels deep."))
            break
    if found:
        raise SoulError(tuple(found))


def _syntax_problems(text: str, error: yaml.MarkedYAMLError) -> tuple[Problem, ...]:
    mark = error.problem_mark or error.context_mark
    line = mark.line + 1 if mark else 1
    said = (error.problem or error.context or "it cannot be read").rstrip(".")
    if "single document" in (error.context or ""):
        said = "more than one document; remove the line that holds only ---"
    tabs = tuple(
        Problem(number, "", "Replace the tab character with spaces.")
        for number, words in enumerate(text.split("\n"), start=1)
        if "\t" in words
    )
    return tuple(sorted((Problem(line, "", f"The YAML cannot be read here: {said}."), *tabs)))


def _piece(node: yaml.Node) -> Piece:
    line = _line(node)
    if isinstance(node, yaml.MappingNode):
        entries = tuple(Entry(_line(key), _key(key), _piece(value)) for key, value in node.value)
        return Piece(line, "mapping", entries=entries)
    if isinstance(node, yaml.SequenceNode):
        return Piece(line, "list", items=tuple(_piece(item) for item in node.value))
    return _scalar(line, node.tag, node.value)


def _line(node: yaml.Node) -> int:
    return node.start_mark.line + 1 if node.start_mark else 1


def _key(node: yaml.Node) -> str:
    return _joined_pairs(node.value) if isinstance(node, yaml.ScalarNode) else "?"


def _scalar(line: int, tag: str, raw: Any) -> Piece:
    kind = _KINDS.get(tag, "text")
    if kind == "whole number":
        if not _DECIMAL.fullmatch(raw):
            return Piece(line, "number", raw)
        return Piece(line, kind, int(raw.replace("_", "")))
    if kind == "yes or no":
        return Piece(line, kind, raw.lower() in ("yes", "true", "on"))
    return Piece(line, kind, None if kind == "nothing" else _joined_pairs(raw))


def _joined_pairs(text: str) -> str:
    """JSON escapes an emoji as two surrogates, YAML reads them apart. Lone ones stay, to be refused."""
    if not any("\ud800" <= letter <= "\udfff" for letter in text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
