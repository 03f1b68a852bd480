"""Rendering a SOUL: prompt sections by task type, plain values, canonical YAML, and the difference of two SOULs.
Pure."""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from difflib import unified_diff
from typing import Any, Literal

import yaml

from agents.soul.values import Behavior, Capabilities, Constraints, Identity, Philosophy, Soul

TaskType = Literal["mention", "thread", "dive", "publish"]


@dataclass(frozen=True, slots=True)
class SoulSection:
    title: str
    text: str


_STYLE_TEXTS = {
    "structured": "Answer in a structured way: headings, lists and tables where they help.",
    "conversational": "Answer in plain conversation, in full sentences.",
    "minimal": "Answer as briefly as the question allows.",
}
_ACTION_TEXTS = {
    "escalate_to_human": "hand over to a human",
    "request_approval": "ask for approval first",
    "block": "refuse",
}


def render_soul(soul: Soul, task: TaskType) -> tuple[SoulSection, ...]:
    """The sections that a prompt of this task type carries; sections with nothing to say are left out.

    mention: identity, principles, constraints (with the response style); thread: and capabilities;
    dive and publish: all.
    """
    sections = [
        SoulSection("Identity", _identity_text(soul.identity)),
        SoulSection("Principles", _philosophy_text(soul.philosophy)),
        SoulSection("Constraints", _constraints_text(soul.constraints, soul.behavior)),
    ]
    if task != "mention":
        sections.append(SoulSection("Capabilities", _capabilities_text(soul.capabilities)))
    if task in ("dive", "publish"):
        sections.append(SoulSection("Behavior", _behavior_text(soul.behavior)))
    return tuple(section for section in sections if section.text)


def soul_text(soul: Soul, task: TaskType) -> str:
    """The same sections as one text, each under its heading."""
    return "\n\n".join(f"## {section.title}\n{section.text}" for section in render_soul(soul, task))


def soul_tokens(soul: Soul, count: Callable[[str], int]) -> int:
    """Tokens of the fullest rendering (dive), by `count`. Compare with SOUL_TOKEN_LIMIT."""
    return count(soul_text(soul, "dive"))


def soul_to_dict(soul: Soul) -> dict[str, Any]:
    """Every field as plain values: dicts, lists, strings, numbers, booleans, None."""
    return {part: _plain_value(value) for part, value in asdict(soul).items()}


def soul_to_yaml(soul: Soul) -> str:
    """Canonical YAML: fixed order, nothing empty. `parse_soul` reads it back as an equal Soul."""
    parts = {part: _without_empty(value) for part, value in soul_to_dict(soul).items()}
    return yaml.dump(
        {part: value for part, value in parts.items() if value},
        Dumper=_SoulDumper,
        sort_keys=False,
        allow_unicode=True,
        width=100,
    )


def _plain_value(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain_value(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_plain_value(item) for item in value]
    return value


def _without_empty(part: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in part.items() if value not in ("", [], None, False)}


class _SoulDumper(yaml.SafeDumper):
    """Writes several lines as a literal block, and never an anchor."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_SoulDumper.add_representer(str, _represent_text)


def _identity_text(identity: Identity) -> str:
    return "\n".join(filter(None, (f"You are {identity.name}, {identity.role}.", identity.description)))


def _philosophy_text(philosophy: Philosophy) -> str:
    return _bullet_lists(("", philosophy.principles), ("Values:", philosophy.values))


def _constraints_text(constraints: Constraints, behavior: Behavior) -> str:
    rules = tuple(f"When {rule.condition}: {_ACTION_TEXTS[rule.action]}." for rule in constraints.escalation_rules)
    limits = _bullet_lists(
        ("Never:", constraints.never_do), ("Do not discuss:", constraints.restricted_topics), ("Escalation:", rules)
    )
    return "\n".join(filter(None, (limits, _STYLE_TEXTS[behavior.response_style])))


def _capabilities_text(capabilities: Capabilities) -> str:
    return _bullet_lists(
        ("Domains:", capabilities.domains), ("Tools:", capabilities.tools), ("Limitations:", capabilities.limitations)
    )


def _behavior_text(behavior: Behavior) -> str:
    disclosure = "Give the short answer first, details when asked." if behavior.progressive_disclosure else ""
    limit = f"Keep every answer under {behavior.max_output_tokens} tokens." if behavior.max_output_tokens else ""
    triggers = _bullet_lists(("Speak up without being asked when:", behavior.proactive_triggers))
    return "\n".join(filter(None, (disclosure, triggers, limit)))


def _bullet_lists(*lists: tuple[str, tuple[str, ...]]) -> str:
    """Each list under its heading, indented so that an entry of several lines stays one entry."""
    lines: list[str] = []
    for heading, entries in lists:
        if entries and heading:
            lines.append(heading)
        lines.extend("- " + entry.replace("\n", "\n  ") for entry in entries)
    return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class FieldChange:
    """One difference. `before` is empty for something added, `after` for something removed."""

    field: str
    kind: Literal["added", "removed", "changed"]
    before: str
    after: str


def diff_souls(before: Soul, after: Soul) -> list[FieldChange]:
    """Every change from `before` to `after`, in the order of a SOUL's fields; lists entry by entry."""
    old, new = soul_to_dict(before), soul_to_dict(after)
    return [
        change
        for part, values in old.items()
        for key, value in values.items()
        for change in _field_changes(f"{part}.{key}", value, new[part][key])
    ]


def diff_lines(before: Soul, after: Soul, *, names: tuple[str, str] = ("before", "after")) -> str:
    """A unified diff of the canonical YAML, empty when nothing changed."""
    lines = unified_diff(soul_to_yaml(before).splitlines(), soul_to_yaml(after).splitlines(), *names, lineterm="")
    return "\n".join(lines)


def _field_changes(field: str, old: Any, new: Any) -> Iterator[FieldChange]:
    if old == new:
        return
    if isinstance(old, list):
        yield from _entry_changes(
            field, [_display_text(entry) for entry in old], [_display_text(entry) for entry in new]
        )
        return
    before, after = _display_text(old), _display_text(new)
    yield FieldChange(field, "added" if not before else "changed" if after else "removed", before, after)


def _entry_changes(field: str, old: list[str], new: list[str]) -> Iterator[FieldChange]:
    removed, added = _list_difference(old, new), _list_difference(new, old)
    for entry in removed:
        yield FieldChange(field, "removed", entry, "")
    for entry in added:
        yield FieldChange(field, "added", "", entry)
    if not removed and not added:
        yield FieldChange(field, "changed", "\n".join(old), "\n".join(new))


def _list_difference(entries: list[str], others: list[str]) -> list[str]:
    left = list(others)
    only_here = []
    for entry in entries:
        if entry in left:
            left.remove(entry)
        else:
            only_here.append(entry)
    return only_here


def _display_text(value: Any) -> str:
    if isinstance(value, dict):
        return f"{value['condition']} → {value['action']}"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "" if value is None else str(value)
