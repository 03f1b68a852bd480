"""Parsing a SOUL from YAML, JSON or plain values, collecting every problem with its line. Pure.

PyYAML reads the text, pydantic checks the values by the annotations in `values`; each error becomes one of SENTENCES,
with the line of its node. Anchors, aliases, tags and several documents in one text are refused: a SOUL needs none of
them, and they are how small YAML texts become enormous or strange."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from functools import lru_cache
from typing import Any, get_type_hints

import yaml
from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from agents.agent.soul.values import ESCALATION_ACTIONS, RESPONSE_STYLES, UNPRINTABLE, Soul, SoulError, SoulProblem

MAX_BYTES = 64 * 1024
MAX_DEPTH = 8

SENTENCES = {
    "anchor": "Anchors and aliases (& and *) are not used in a SOUL. Write it out, or quote it.",
    "tag": "Tags (words with !) are not used in a SOUL. Quote the text if you mean it.",
    "depth": f"This is nested more than {MAX_DEPTH} levels deep.",
    "syntax": "The YAML cannot be read here: {reason}.",
    "unreadable": "This is not readable YAML or JSON: {reason}.",
    "tab": "Replace the tab character with spaces.",
    "too_large": "The SOUL is larger than 64 kB. Shorten it; 2,000 tokens are the limit.",
    "no_text": "The SOUL is empty. It needs at least identity.name and identity.role.",
    "twice": "This key stands here twice (first on line {first}). Keep one.",
    # by the type of pydantic's error
    "unexpected_keyword_argument": "This key is not known.{advice}",
    "invalid_key": "This key is not known.{advice}",
    "dataclass_type": "This must be a mapping of {choices}, not {kind}.",
    "tuple_type": "This must be a list (lines that start with -), not {kind}.",
    "missing": "This is missing or empty. Write at least one word.",
    "missing_choice": "This is missing. Choose one of {choices}.",
    "empty": "This is empty. Write at least one word.",
    "several_lines": "This must be a single line.",
    "unprintable": "Remove the unprintable character U+{code:04X}.",
    "string_unicode": "Remove the unprintable character U+{code:04X}.",
    "string_type": "This must be text, not {kind}.{hint}",
    "literal_error": "This must be one of {choices}, not {value}.{advice}",
    "bool_type": "This must be true or false, not {kind}.",
    "int_type": "This must be a whole number of tokens, not {kind}.",
    "greater_than_equal": "This must be at least 1 token.",
}
"""Every sentence that people read of a SOUL's text."""

Path = tuple[str | int, ...]
"""The keys and places that lead to a value, as pydantic's `loc`."""


def _problem(line: int, sentence: str, path: Path = (), **words: object) -> SoulProblem:
    steps = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return SoulProblem(line, steps.removeprefix("."), SENTENCES[sentence].format(**words))


@lru_cache(maxsize=32)  # a text is read where it is previewed, where it is checked and where it is saved
def parse_soul(text: str) -> Soul:
    """The Soul written in `text`, as YAML or JSON of at most 64 kB.

    Raises SoulError with every problem at once: unknown and repeated keys, wrong types, missing name or role.
    A text that is no YAML at all is reported with the line where reading stopped.
    """
    source = _Source()
    return _validated(source.plain(_read_node(text), ()), source)


def soul_from_dict(data: object) -> Soul:
    """The Soul in plain values, as `soul_to_dict` gives them. Raises SoulError; its problems have line 0."""
    return _validated(data, _Source())


def _read_node(text: str) -> yaml.Node:
    text = text.removeprefix("\ufeff")
    if len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        raise SoulError((_problem(1, "too_large"),))
    if not text.strip():
        raise SoulError((_problem(1, "no_text"),))
    lines = list(enumerate(text.split("\n"), start=1))
    unprintable = [(number, match[0]) for number, line in lines if (match := UNPRINTABLE.search(line))]
    if unprintable:
        raise SoulError(tuple(_problem(number, "unprintable", code=ord(letter)) for number, letter in unprintable))
    try:
        node = compose_plain(_without_json_tabs(text))
    except SoulError:
        raise
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        reason = (error.problem or error.context or "it cannot be read").rstrip(".")
        if "single document" in (error.context or ""):
            reason = "more than one document; remove the line that holds only ---"
        tabs = (_problem(number, "tab") for number, line in lines if "\t" in line)
        raise SoulError(tuple(sorted((_problem(_line(mark), "syntax", reason=reason), *tabs)))) from error
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError) as error:
        raise SoulError((_problem(1, "unreadable", reason=error),)) from error
    if node is None:
        raise SoulError((_problem(1, "no_text"),))
    return node


def _without_json_tabs(text: str) -> str:
    """JSON may be indented with tabs, YAML may not. In valid JSON a raw tab never stands inside a string."""
    if "\t" not in text or not text.lstrip().startswith("{"):
        return text
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return text
    return text.replace("\t", " ")


@lru_cache(maxsize=8)  # where a rule is added, its place is sought in the text that was read just now
def compose_plain(text: str) -> yaml.Node | None:
    """The text's only document. Raises SoulError for anchors, aliases and tags, and what PyYAML raises."""
    loader = _PlainLoader(text)
    node: yaml.Node | None = loader.get_single_node()
    if loader.problems:
        raise SoulError(tuple(loader.problems))
    return node


class _PlainLoader(yaml.SafeLoader):
    """Composes nodes, noting what a SOUL does without instead of following it."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.problems: list[SoulProblem] = []
        self.depth = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        parser: Any = self  # PyYAML's methods have no types
        event = parser.peek_event()
        line = _line(event.start_mark)
        if event.anchor:
            self.problems.append(_problem(line, "anchor"))
            event.anchor = None
        elif event.tag:
            self.problems.append(_problem(line, "tag"))
        if isinstance(event, yaml.AliasEvent):
            parser.get_event()
            return yaml.ScalarNode("tag:yaml.org,2002:null", "")
        is_collection = isinstance(event, yaml.CollectionStartEvent)
        if is_collection and self.depth == MAX_DEPTH:
            raise SoulError((*self.problems, _problem(line, "depth")))
        self.depth += is_collection
        node: yaml.Node | None = super().compose_node(parent, index)
        self.depth -= is_collection
        return node


def _line(mark: Any) -> int:
    return mark.line + 1 if mark else 1


_DECIMAL = re.compile(r"[-+]?(0|[1-9][0-9_]{0,17})")


@dataclass
class _Source:
    """The lines of a text's keys and values by their paths, and its repeated keys. Empty for plain values."""

    lines: dict[Path, int] = field(default_factory=dict)
    key_lines: dict[Path, int] = field(default_factory=dict)
    problems: list[SoulProblem] = field(default_factory=list)

    def plain(self, node: yaml.Node, path: Path) -> Any:
        """The node's plain value. Numbers that are not whole and decimal come as nan: a SOUL knows none."""
        self.lines[path] = _line(node.start_mark)
        if isinstance(node, yaml.MappingNode):
            return self.mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            return [self.plain(item, (*path, place)) for place, item in enumerate(node.value)]
        match node.tag.rpartition(":")[2]:
            case "null":
                return None
            case "bool":
                return node.value.lower() in ("yes", "true", "on")
            case "int" | "float":
                return int(node.value.replace("_", "")) if _DECIMAL.fullmatch(node.value) else float("nan")
        return _join_surrogates(node.value)

    def mapping(self, node: yaml.MappingNode, path: Path) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = _join_surrogates(key_node.value) if isinstance(key_node, yaml.ScalarNode) else "?"
            key_path, line = (*path, key), _line(key_node.start_mark)
            if key in values:
                self.problems.append(_problem(line, "twice", key_path, first=self.key_lines[key_path]))
            else:
                self.key_lines[key_path] = line
                values[key] = self.plain(value_node, key_path)
        return values

    def line_of(self, path: Path) -> int:
        """The line of the value, or of what it is missing from."""
        return next((self.lines[path[:end]] for end in range(len(path), -1, -1) if path[:end] in self.lines), 0)


def _join_surrogates(text: str) -> str:
    """JSON escapes an emoji as two surrogates, YAML reads them apart. Lone ones stay, to be refused."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


_SOUL: TypeAdapter[Soul] = TypeAdapter(Soul)


def _validated(data: object, source: _Source) -> Soul:
    data = {} if data is None else data
    if isinstance(data, dict) and data.get("identity") is None:
        data = data | {"identity": {}}
    problems = list(source.problems)
    try:
        soul = _SOUL.validate_python(data)
    except ValidationError as error:
        problems += [_problem_of(detail, source) for detail in error.errors(include_url=False)]
    if problems:
        raise SoulError(tuple(sorted(problems)))
    return soul


_KEYS = {part: tuple(key.name for key in fields(kind)) for part, kind in get_type_hints(Soul).items()}


def _problem_of(error: ErrorDetails, source: _Source) -> SoulProblem:
    sentence, path, value = error["type"], error["loc"], error["input"]
    is_key = sentence in ("unexpected_keyword_argument", "invalid_key")
    choices = _choices(path[:-1] if is_key else path)
    if value is None and sentence in ("string_type", "literal_error"):
        sentence = "missing"
    if sentence == "missing" and choices:
        sentence = "missing_choice"
    unprintable = UNPRINTABLE.search(value) if isinstance(value, str) else None
    return _problem(
        source.key_lines.get(path, 0) if is_key else source.line_of(path),
        sentence,
        path,
        kind=_kind(value),
        value=f'"{value}"' if isinstance(value, str) else _kind(value),
        choices=_alternatives(choices),
        advice=_advice(str(path[-1]) if is_key else str(value), choices, is_key=is_key) if choices else "",
        hint="" if isinstance(value, list | tuple | dict) else " Put it in quotes if you mean the words.",
        code=ord(unprintable[0]) if unprintable else 0,
    )


def _choices(path: Path) -> Sequence[str]:
    """The keys of the mapping, or the words of the choice, that stands there."""
    match path:
        case ():
            return tuple(_KEYS)
        case (str(part),):
            return _KEYS[part]
        case (_, "response_style"):
            return RESPONSE_STYLES
        case (_, _, _, "action"):
            return ESCALATION_ACTIONS
        case (_, "escalation_rules", _):
            return ("condition", "action")
    return ()


def _advice(word: str, choices: Sequence[str], *, is_key: bool) -> str:
    """The nearest of the choices; a key may also belong to another part: `never_do` at the top, say."""
    matches = get_close_matches(word, choices, n=1)
    if is_key and not matches:
        matches = [f"{part}.{key}" for part, keys in _KEYS.items() for key in keys if key == word]
    if matches:
        return f" Did you mean {matches[0]}?"
    return f" Known here: {_alternatives(choices)}." if is_key else ""


def _alternatives(words: Sequence[str]) -> str:
    return " or ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))


def _kind(value: object) -> str:
    match value:
        case None:
            return "nothing"
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case list() | tuple():
            return "a list"
        case dict():
            return "a mapping"
    return "text"
