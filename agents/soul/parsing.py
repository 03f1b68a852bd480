"""Parsing a SOUL from YAML, JSON or plain values, collecting every problem with its line. Pure.

Anchors, aliases, tags and several documents in one text are refused: a SOUL needs none of them, and
they are how small YAML texts become enormous or strange."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Literal, cast

import yaml

from agents.soul.values import (
    ESCALATION_ACTIONS,
    RESPONSE_STYLES,
    Behavior,
    Capabilities,
    Constraints,
    EscalationAction,
    EscalationRule,
    Identity,
    Philosophy,
    ResponseStyle,
    Soul,
    SoulError,
    SoulProblem,
)

MAX_BYTES = 64 * 1024
MAX_DEPTH = 8

NodeKind = Literal["text", "whole number", "number", "yes or no", "nothing", "list", "mapping"]

UNPRINTABLE = re.compile(r"[^\t\n\r\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

_KIND_OF_TAG: dict[str, NodeKind] = {
    "tag:yaml.org,2002:null": "nothing",
    "tag:yaml.org,2002:bool": "yes or no",
    "tag:yaml.org,2002:int": "whole number",
    "tag:yaml.org,2002:float": "number",
}
_DECIMAL = re.compile(r"[-+]?(0|[1-9][0-9_]{0,17})")


@dataclass(frozen=True, slots=True)
class SourceNode:
    """A value and the line it stands on. `entries` are filled for mappings, `items` for lists."""

    line: int
    kind: NodeKind
    value: str | int | float | bool | None = None
    items: tuple["SourceNode", ...] = ()
    entries: tuple["SourceEntry", ...] = field(default=())


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
        _check_plain_yaml(text)
        node = yaml.compose(text, Loader=yaml.SafeLoader)
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
    """The same pieces from plain values (dicts, lists, strings…), all on line 0."""
    if isinstance(data, dict):
        entries = tuple(SourceEntry(0, str(key), node_from_plain(value)) for key, value in data.items())
        return SourceNode(0, "mapping", entries=entries)
    if isinstance(data, list | tuple):
        return SourceNode(0, "list", items=tuple(node_from_plain(value) for value in data))
    if data is None:
        return SourceNode(0, "nothing")
    if isinstance(data, bool):
        return SourceNode(0, "yes or no", data)
    if isinstance(data, int):
        return SourceNode(0, "whole number", data)
    if isinstance(data, float):
        return SourceNode(0, "number", data)
    return SourceNode(0, "text", str(data))


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


def _check_plain_yaml(text: str) -> None:
    depth = 0
    problems: list[SoulProblem] = []
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
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
        return SourceNode(line, "mapping", entries=entries)
    if isinstance(node, yaml.SequenceNode):
        return SourceNode(line, "list", items=tuple(_source_node(item) for item in node.value))
    return _scalar_node(line, node.tag, node.value)


def _line_number(node: yaml.Node) -> int:
    return node.start_mark.line + 1 if node.start_mark else 1


def _key_text(node: yaml.Node) -> str:
    return _join_surrogates(node.value) if isinstance(node, yaml.ScalarNode) else "?"


def _scalar_node(line: int, tag: str, raw: Any) -> SourceNode:
    kind = _KIND_OF_TAG.get(tag, "text")
    if kind == "whole number":
        if not _DECIMAL.fullmatch(raw):
            return SourceNode(line, "number", raw)
        return SourceNode(line, kind, int(raw.replace("_", "")))
    if kind == "yes or no":
        return SourceNode(line, kind, raw.lower() in ("yes", "true", "on"))
    return SourceNode(line, kind, None if kind == "nothing" else _join_surrogates(raw))


def _join_surrogates(text: str) -> str:
    """JSON escapes an emoji as two surrogates, YAML reads them apart. Lone ones stay, to be refused."""
    if not any("\ud800" <= letter <= "\udfff" for letter in text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


_EMPTY_NODE = SourceNode(0, "nothing")

KEYS_BY_PART: dict[str, tuple[str, ...]] = {
    "": ("identity", "philosophy", "capabilities", "behavior", "constraints"),
    "identity": ("name", "role", "description", "avatar"),
    "philosophy": ("principles", "values"),
    "capabilities": ("domains", "tools", "limitations"),
    "behavior": ("response_style", "progressive_disclosure", "proactive_triggers", "max_output_tokens"),
    "constraints": ("restricted_topics", "never_do", "escalation_rules"),
}
"""Every key a SOUL may hold, by part."""

_RULE_KEYS = ("condition", "action")


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
    """Reads pieces into values. A bad piece adds a problem and yields a harmless stand-in."""

    def __init__(self) -> None:
        self.problems: list[SoulProblem] = []

    def soul(self, node: SourceNode) -> Soul:
        parts = self.mapping(node, "", KEYS_BY_PART[""])
        return Soul(
            identity=self.identity(parts.get("identity", SourceNode(node.line, "nothing"))),
            philosophy=Philosophy(**self.text_tuples(parts, "philosophy")),
            capabilities=Capabilities(**self.text_tuples(parts, "capabilities")),
            behavior=self.behavior(parts.get("behavior", _EMPTY_NODE)),
            constraints=self.constraints(parts.get("constraints", _EMPTY_NODE)),
        )

    def identity(self, node: SourceNode) -> Identity:
        found = self.mapping(node, "identity", KEYS_BY_PART["identity"])
        missing = SourceNode(node.line, "nothing")
        return Identity(
            name=self.required_line(found.get("name", missing), "identity.name"),
            role=self.required_line(found.get("role", missing), "identity.role"),
            description=self.text(found.get("description", _EMPTY_NODE), "identity.description"),
            avatar=self.text(found.get("avatar", _EMPTY_NODE), "identity.avatar"),
        )

    def behavior(self, node: SourceNode) -> Behavior:
        found = self.mapping(node, "behavior", KEYS_BY_PART["behavior"])
        style = self.choice(
            found.get("response_style", _EMPTY_NODE), "behavior.response_style", RESPONSE_STYLES, "conversational"
        )
        return Behavior(
            response_style=cast(ResponseStyle, style),
            progressive_disclosure=self.boolean(
                found.get("progressive_disclosure", _EMPTY_NODE), "behavior.progressive_disclosure"
            ),
            proactive_triggers=self.text_tuple(
                found.get("proactive_triggers", _EMPTY_NODE), "behavior.proactive_triggers"
            ),
            max_output_tokens=self.count(found.get("max_output_tokens", _EMPTY_NODE), "behavior.max_output_tokens"),
        )

    def constraints(self, node: SourceNode) -> Constraints:
        found = self.mapping(node, "constraints", KEYS_BY_PART["constraints"])
        return Constraints(
            restricted_topics=self.text_tuple(
                found.get("restricted_topics", _EMPTY_NODE), "constraints.restricted_topics"
            ),
            never_do=self.text_tuple(found.get("never_do", _EMPTY_NODE), "constraints.never_do"),
            escalation_rules=self.escalation_rules(
                found.get("escalation_rules", _EMPTY_NODE), "constraints.escalation_rules"
            ),
        )

    def text_tuples(self, parts: dict[str, SourceNode], part: str) -> dict[str, Any]:
        found = self.mapping(parts.get(part, _EMPTY_NODE), part, KEYS_BY_PART[part])
        return {key: self.text_tuple(found.get(key, _EMPTY_NODE), f"{part}.{key}") for key in KEYS_BY_PART[part]}

    def escalation_rules(self, node: SourceNode, path: str) -> tuple[EscalationRule, ...]:
        return tuple(
            self.escalation_rule(item, f"{path}[{index}]") for index, item in enumerate(self.items(node, path))
        )

    def escalation_rule(self, node: SourceNode, path: str) -> EscalationRule:
        if node.kind != "mapping":
            self.add(node, path, f"This must be a mapping with condition and action, not {_kind_name(node)}.")
            return EscalationRule("", "block")
        found = self.mapping(node, path, _RULE_KEYS)
        missing = SourceNode(node.line, "nothing")
        condition = self.text(found.get("condition", missing), f"{path}.condition", required=True)
        action_piece = found.get("action", missing)
        if action_piece.kind == "nothing":
            self.add(
                action_piece, f"{path}.action", f"This is missing. Choose one of {_alternatives(ESCALATION_ACTIONS)}."
            )
        action = self.choice(action_piece, f"{path}.action", ESCALATION_ACTIONS, "block")
        return EscalationRule(condition, cast(EscalationAction, action))

    def mapping(self, node: SourceNode, path: str, allowed: Sequence[str]) -> dict[str, SourceNode]:
        if node.kind == "nothing":
            return {}
        if node.kind != "mapping":
            whole = path or "A SOUL"
            self.add(node, path, f"{whole} must be a mapping of {_alternatives(allowed)}, not {_kind_name(node)}.")
            return {}
        found: dict[str, SourceNode] = {}
        lines: dict[str, int] = {}
        for entry in node.entries:
            self.check_key(entry, path, allowed, lines)
            found.setdefault(entry.key, entry.node)
        return found

    def check_key(self, entry: SourceEntry, path: str, allowed: Sequence[str], lines: dict[str, int]) -> None:
        field = f"{path}.{entry.key}" if path else entry.key
        if entry.key in lines:
            where = f" (first on line {lines[entry.key]})" if entry.line else ""
            self.problems.append(SoulProblem(entry.line, field, f"This key stands here twice{where}. Keep one."))
        elif entry.key not in allowed:
            matches = get_close_matches(entry.key, allowed, n=1) or _keys_in_other_parts(entry.key)
            advice = f"Did you mean {matches[0]}?" if matches else f"Known here: {_alternatives(allowed)}."
            self.problems.append(SoulProblem(entry.line, field, f"This key is not known. {advice}"))
        lines.setdefault(entry.key, entry.line)

    def items(self, node: SourceNode, path: str) -> tuple[SourceNode, ...]:
        if node.kind not in ("list", "nothing"):
            self.add(node, path, f"This must be a list (lines that start with -), not {_kind_name(node)}.")
        return node.items

    def text_tuple(self, node: SourceNode, path: str) -> tuple[str, ...]:
        return tuple(
            self.text(item, f"{path}[{index}]", required=True) for index, item in enumerate(self.items(node, path))
        )

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
            hint = "" if node.kind in ("list", "mapping") else " Put it in quotes if you mean the words."
            self.add(node, path, f"This must be text, not {_kind_name(node)}.{hint}")
            return ""
        value = str(node.value).strip()
        if bad := UNPRINTABLE.search(value):
            self.add(node, path, f"Remove the unprintable character U+{ord(bad[0]):04X}.")
        elif required and not value:
            self.add(node, path, "This is empty. Write at least one word.")
        return value

    def choice(self, node: SourceNode, path: str, allowed: Sequence[str], default: str) -> str:
        if node.kind == "nothing":
            return default
        if node.kind == "text" and node.value in allowed:
            return str(node.value)
        actual = f'"{node.value}"' if node.kind == "text" else _kind_name(node)
        matches = get_close_matches(str(node.value), allowed, n=1)
        advice = f" Did you mean {matches[0]}?" if matches else ""
        self.add(node, path, f"This must be one of {_alternatives(allowed)}, not {actual}.{advice}")
        return default

    def boolean(self, node: SourceNode, path: str) -> bool:
        if node.kind not in ("yes or no", "nothing"):
            self.add(node, path, f"This must be true or false, not {_kind_name(node)}.")
        return node.value is True

    def count(self, node: SourceNode, path: str) -> int | None:
        if node.kind == "nothing":
            return None
        if node.kind != "whole number" or not isinstance(node.value, int):
            self.add(node, path, f"This must be a whole number of tokens, not {_kind_name(node)}.")
            return None
        if node.value < 1:
            self.add(node, path, "This must be at least 1 token.")
        return node.value

    def add(self, node: SourceNode, path: str, message: str) -> None:
        self.problems.append(SoulProblem(node.line, path, message))


def _kind_name(node: SourceNode) -> str:
    return {
        "text": "text",
        "whole number": "a number",
        "number": "a number",
        "yes or no": "true or false",
        "nothing": "nothing",
        "list": "a list",
        "mapping": "a mapping",
    }[node.kind]


def _alternatives(words: Sequence[str]) -> str:
    return f"{', '.join(words[:-1])} or {words[-1]}"


def _keys_in_other_parts(key: str) -> list[str]:
    """The full path of a key that exists, but in another part: `never_do` at the top, say."""
    return [f"{part}.{key}" for part, keys in KEYS_BY_PART.items() if part and key in keys]
