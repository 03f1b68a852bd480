"""Parsing a SOUL from YAML, JSON or plain values, collecting every problem with its line. Pure.

Anchors, aliases, tags and several documents in one text are refused: a SOUL needs none of them, and
they are how small YAML texts become enormous or strange."""

import json
import re
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from difflib import get_close_matches
from functools import lru_cache
from typing import Any, Literal, cast

import yaml
from yaml.composer import Composer
from yaml.resolver import Resolver

from agents.agent.soul.values import (
    ESCALATION_ACTIONS,
    RESPONSE_STYLES,
    Behavior,
    Capabilities,
    Constraints,
    EscalationAction,
    EscalationRule,
    Identity,
    Philosophy,
    Soul,
    SoulError,
    SoulProblem,
)

MAX_BYTES = 64 * 1024
MAX_DEPTH = 8

NodeKind = Literal["text", "a number", "true or false", "nothing", "a list", "a mapping"]
"""What a value is, as error texts name it."""

UNPRINTABLE = re.compile(r"[^\t\n\r\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

_KIND_OF_TAG: dict[str, NodeKind] = {
    "tag:yaml.org,2002:null": "nothing",
    "tag:yaml.org,2002:bool": "true or false",
    "tag:yaml.org,2002:int": "a number",
    "tag:yaml.org,2002:float": "a number",
}
_DECIMAL = re.compile(r"[-+]?(0|[1-9][0-9_]{0,17})")


@dataclass(frozen=True, slots=True)
class SourceNode:
    """A value and the line it stands on. A mapping has `entries`, a list `items`; a whole number is an int."""

    line: int
    kind: NodeKind
    value: str | int | float | bool | None = None
    items: tuple["SourceNode", ...] = ()
    entries: tuple["SourceEntry", ...] = ()


@dataclass(frozen=True, slots=True)
class SourceEntry:
    """One `key: value` of a mapping. Keys may repeat here; the reader reports those that do."""

    line: int
    key: str
    node: SourceNode


def parse_source(text: str) -> SourceNode:
    """The text's only document. Raises SoulError when it is no YAML or JSON that a SOUL may be written in."""
    text = text.removeprefix("\ufeff")
    _check_readable(text)
    text = _without_json_tabs(text)
    try:
        node = compose_plain(text)
    except SoulError:
        raise
    except yaml.MarkedYAMLError as error:
        raise SoulError(_syntax_problems(text, error)) from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise SoulError((SoulProblem(1, "", f"This is not readable YAML or JSON: {error}."),)) from error
    if node is None:
        raise SoulError((SoulProblem(1, "", "The SOUL is empty. It needs at least identity.name and identity.role."),))
    return _source_node(node)


def node_from_plain(data: object) -> SourceNode:
    """The same nodes from plain values (dicts, lists, strings…), all on line 0."""
    if isinstance(data, dict):
        entries = tuple(SourceEntry(0, str(key), node_from_plain(value)) for key, value in data.items())
        return SourceNode(0, "a mapping", entries=entries)
    if isinstance(data, list | tuple):
        return SourceNode(0, "a list", items=tuple(map(node_from_plain, data)))
    if data is None:
        return SourceNode(0, "nothing")
    if isinstance(data, bool):
        return SourceNode(0, "true or false", data)
    return SourceNode(0, "a number", data) if isinstance(data, int | float) else SourceNode(0, "text", str(data))


def _check_readable(text: str) -> None:
    if len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        raise SoulError((SoulProblem(1, "", "The SOUL is larger than 64 kB. Shorten it; 2,000 tokens are the limit."),))
    if not text.strip():
        raise SoulError((SoulProblem(1, "", "The SOUL is empty. It needs at least identity.name and identity.role."),))
    problems = tuple(
        SoulProblem(number, "", f"Remove the unprintable character U+{ord(match[0]):04X}.")
        for number, line in enumerate(text.split("\n"), start=1)
        if (match := UNPRINTABLE.search(line))
    )
    if problems:
        raise SoulError(problems)


def _without_json_tabs(text: str) -> str:
    """JSON may be indented with tabs, YAML may not. In valid JSON a raw tab never stands inside a string."""
    if "\t" not in text or not text.lstrip().startswith("{"):
        return text
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return text
    return text.replace("\t", " ")


class _EventComposer(Composer, Resolver):
    """Composes the node of a document from its events, as a loader does that reads the text for them."""

    def __init__(self, events: Iterable[yaml.Event]) -> None:
        Composer.__init__(self)
        Resolver.__init__(self)
        self._events = deque(events)

    def check_event(self, *choices: type[yaml.Event]) -> bool:
        return bool(self._events) and isinstance(self._events[0], choices)

    def peek_event(self) -> yaml.Event:
        return self._events[0]

    def get_event(self) -> yaml.Event:
        return self._events.popleft()


@lru_cache(maxsize=8)  # where a rule is added, its place is sought in the text that was read just now
def compose_plain(text: str) -> yaml.Node | None:
    """The text's only document. Raises SoulError for anchors, aliases and tags, and what PyYAML raises."""
    node: yaml.Node | None = _EventComposer(_plain_events(text)).get_single_node()
    return node


def _plain_events(text: str) -> list[yaml.Event]:
    events: list[yaml.Event] = []
    depth = 0
    problems: list[SoulProblem] = []
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        events.append(event)
        line = event.start_mark.line + 1 if event.start_mark else 1
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            problems.append(
                SoulProblem(
                    line, "", "Anchors and aliases (& and *) are not used in a SOUL. Write it out, or quote it."
                )
            )
        elif getattr(event, "tag", None):
            problems.append(
                SoulProblem(line, "", "Tags (words with !) are not used in a SOUL. Quote the text if you mean it.")
            )
        if isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
            depth += 1
        elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
            depth -= 1
        if depth > MAX_DEPTH:
            problems.append(SoulProblem(line, "", f"This is nested more than {MAX_DEPTH} levels deep."))
            break
    if problems:
        raise SoulError(tuple(problems))
    return events


def _syntax_problems(text: str, error: yaml.MarkedYAMLError) -> tuple[SoulProblem, ...]:
    mark = error.problem_mark or error.context_mark
    line = mark.line + 1 if mark else 1
    reason = (error.problem or error.context or "it cannot be read").rstrip(".")
    if "single document" in (error.context or ""):
        reason = "more than one document; remove the line that holds only ---"
    tabs = tuple(
        SoulProblem(number, "", "Replace the tab character with spaces.")
        for number, text_line in enumerate(text.split("\n"), start=1)
        if "\t" in text_line
    )
    return tuple(sorted((SoulProblem(line, "", f"The YAML cannot be read here: {reason}."), *tabs)))


def _source_node(node: yaml.Node) -> SourceNode:
    line = _line_number(node)
    if isinstance(node, yaml.MappingNode):
        entries = tuple(
            SourceEntry(_line_number(key), _key_text(key), _source_node(value)) for key, value in node.value
        )
        return SourceNode(line, "a mapping", entries=entries)
    if isinstance(node, yaml.SequenceNode):
        return SourceNode(line, "a list", items=tuple(map(_source_node, node.value)))
    kind = _KIND_OF_TAG.get(node.tag, "text")
    if kind == "a number" and _DECIMAL.fullmatch(node.value):
        return SourceNode(line, kind, int(node.value.replace("_", "")))
    if kind == "true or false":
        return SourceNode(line, kind, node.value.lower() in ("yes", "true", "on"))
    return SourceNode(line, kind, None if kind == "nothing" else _join_surrogates(node.value))


def _line_number(node: yaml.Node) -> int:
    return node.start_mark.line + 1 if node.start_mark else 1


def _key_text(node: yaml.Node) -> str:
    return _join_surrogates(node.value) if isinstance(node, yaml.ScalarNode) else "?"


def _join_surrogates(text: str) -> str:
    """JSON escapes an emoji as two surrogates, YAML reads them apart. Lone ones stay, to be refused."""
    if not any("\ud800" <= letter <= "\udfff" for letter in text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


_PART_TYPES: dict[str, type[Any]] = {
    "identity": Identity,
    "philosophy": Philosophy,
    "capabilities": Capabilities,
    "behavior": Behavior,
    "constraints": Constraints,
}
_KEYS_BY_PART: dict[str, tuple[str, ...]] = {
    part: tuple(field.name for field in fields(kind)) for part, kind in _PART_TYPES.items()
}


@lru_cache(maxsize=32)  # a text is read where it is previewed, where it is checked and where it is saved
def parse_soul(text: str) -> Soul:
    """The Soul written in `text`, as YAML or JSON of at most 64 kB.

    Raises SoulError with every problem at once: unknown and repeated keys, wrong types, missing name or role.
    A text that is no YAML at all is reported with the line where reading stopped.
    """
    return _soul_from_node(parse_source(text))


def soul_from_dict(data: object) -> Soul:
    """The Soul in plain values, as `soul_to_dict` gives them. Raises SoulError; its problems have line 0."""
    return _soul_from_node(node_from_plain(data))


def _soul_from_node(node: SourceNode) -> Soul:
    reader = _SoulReader()
    soul = reader.soul(node)
    if reader.problems:
        raise SoulError(tuple(sorted(reader.problems)))
    return soul


class _SoulReader:
    """Reads nodes into values. A bad node adds a problem and yields a harmless stand-in."""

    def __init__(self) -> None:
        self.problems: list[SoulProblem] = []

    def soul(self, node: SourceNode) -> Soul:
        parts = self.mapping(node, "", tuple(_PART_TYPES))
        empty_node = SourceNode(node.line, "nothing")
        return Soul(**{part: self.part(parts.get(part, empty_node), part) for part in _PART_TYPES})

    def part(self, node: SourceNode, part: str) -> Any:
        keys, empty_node = _KEYS_BY_PART[part], SourceNode(node.line, "nothing")
        nodes = self.mapping(node, part, keys)
        return _PART_TYPES[part](**{key: self.value(key, nodes.get(key, empty_node), f"{part}.{key}") for key in keys})

    def value(self, key: str, node: SourceNode, path: str) -> Any:
        """What stands under a key of a part, read as that key wants it: a list of texts unless said otherwise."""
        match key:
            case "name" | "role":
                return self.required_line(node, path)
            case "description" | "avatar":
                return self.text(node, path)
            case "response_style":
                return self.choice(node, path, RESPONSE_STYLES, "conversational")
            case "progressive_disclosure":
                return self.boolean(node, path)
            case "max_output_tokens":
                return self.count(node, path)
            case "escalation_rules":
                items = enumerate(self.items(node, path))
                return tuple(self.escalation_rule(item, f"{path}[{index}]") for index, item in items)
            case _:
                items = enumerate(self.items(node, path))
                return tuple(self.text(item, f"{path}[{index}]", required=True) for index, item in items)

    def escalation_rule(self, node: SourceNode, path: str) -> EscalationRule:
        if node.kind != "a mapping":
            self.add(node, path, f"This must be a mapping with condition and action, not {node.kind}.")
            return EscalationRule("", "block")
        nodes = self.mapping(node, path, ("condition", "action"))
        empty_node = SourceNode(node.line, "nothing")
        condition = self.text(nodes.get("condition", empty_node), f"{path}.condition", required=True)
        action = nodes.get("action", empty_node)
        if action.kind == "nothing":
            self.add(action, f"{path}.action", f"This is missing. Choose one of {_alternatives(ESCALATION_ACTIONS)}.")
        choice = self.choice(action, f"{path}.action", ESCALATION_ACTIONS, "block")
        return EscalationRule(condition, cast(EscalationAction, choice))

    def mapping(self, node: SourceNode, path: str, allowed_keys: Sequence[str]) -> dict[str, SourceNode]:
        if node.kind == "nothing":
            return {}
        if node.kind != "a mapping":
            whole = path or "A SOUL"
            self.add(node, path, f"{whole} must be a mapping of {_alternatives(allowed_keys)}, not {node.kind}.")
            return {}
        nodes: dict[str, SourceNode] = {}
        lines: dict[str, int] = {}
        for entry in node.entries:
            self.check_key(entry, path, allowed_keys, lines)
            nodes.setdefault(entry.key, entry.node)
        return nodes

    def check_key(self, entry: SourceEntry, path: str, allowed_keys: Sequence[str], lines: dict[str, int]) -> None:
        field = f"{path}.{entry.key}" if path else entry.key
        if entry.key in lines:
            where = f" (first on line {lines[entry.key]})" if entry.line else ""
            self.add(entry, field, f"This key stands here twice{where}. Keep one.")
        elif entry.key not in allowed_keys:
            matches = get_close_matches(entry.key, allowed_keys, n=1) or _keys_in_other_parts(entry.key)
            advice = f"Did you mean {matches[0]}?" if matches else f"Known here: {_alternatives(allowed_keys)}."
            self.add(entry, field, f"This key is not known. {advice}")
        lines.setdefault(entry.key, entry.line)

    def items(self, node: SourceNode, path: str) -> tuple[SourceNode, ...]:
        if node.kind not in ("a list", "nothing"):
            self.add(node, path, f"This must be a list (lines that start with -), not {node.kind}.")
        return node.items

    def required_line(self, node: SourceNode, path: str) -> str:
        value = self.text(node, path, required=True)
        if len(value.splitlines()) > 1:
            self.add(node, path, "This must be a single line.")
        return value

    def text(self, node: SourceNode, path: str, *, required: bool = False) -> str:
        if node.kind == "nothing":
            if required:
                self.add(node, path, "This is missing or empty. Write at least one word.")
            return ""
        if node.kind != "text":
            hint = "" if node.kind in ("a list", "a mapping") else " Put it in quotes if you mean the words."
            self.add(node, path, f"This must be text, not {node.kind}.{hint}")
            return ""
        value = str(node.value).strip()
        if match := UNPRINTABLE.search(value):
            self.add(node, path, f"Remove the unprintable character U+{ord(match[0]):04X}.")
        elif required and not value:
            self.add(node, path, "This is empty. Write at least one word.")
        return value

    def choice(self, node: SourceNode, path: str, choices: Sequence[str], default: str) -> str:
        if node.kind == "nothing":
            return default
        if node.kind == "text" and node.value in choices:
            return str(node.value)
        actual = f'"{node.value}"' if node.kind == "text" else node.kind
        matches = get_close_matches(str(node.value), choices, n=1)
        advice = f" Did you mean {matches[0]}?" if matches else ""
        self.add(node, path, f"This must be one of {_alternatives(choices)}, not {actual}.{advice}")
        return default

    def boolean(self, node: SourceNode, path: str) -> bool:
        if node.kind not in ("true or false", "nothing"):
            self.add(node, path, f"This must be true or false, not {node.kind}.")
        return node.value is True

    def count(self, node: SourceNode, path: str) -> int | None:
        if node.kind == "nothing":
            return None
        if node.kind != "a number" or not isinstance(node.value, int):
            self.add(node, path, f"This must be a whole number of tokens, not {node.kind}.")
            return None
        if node.value < 1:
            self.add(node, path, "This must be at least 1 token.")
        return node.value

    def add(self, node: SourceNode | SourceEntry, path: str, message: str) -> None:
        self.problems.append(SoulProblem(node.line, path, message))


def _alternatives(words: Sequence[str]) -> str:
    return f"{', '.join(words[:-1])} or {words[-1]}"


def _keys_in_other_parts(key: str) -> list[str]:
    """The full path of a key that exists, but in another part: `never_do` at the top, say."""
    return [f"{part}.{key}" for part, keys in _KEYS_BY_PART.items() if key in keys]
