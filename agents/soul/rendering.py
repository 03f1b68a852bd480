"""What a Soul looks like: in a prompt, by task type, and as canonical YAML or plain values."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Literal

import yaml

from agents.soul.values import Behavior, Capabilities, Constraints, Identity, Philosophy, Soul

TaskType = Literal["mention", "thread", "dive", "publish"]


@dataclass(frozen=True, slots=True)
class Section:
    title: str
    text: str


_STYLES = {
    "structured": "Answer in a structured way: headings, lists and tables where they help.",
    "conversational": "Answer in plain conversation, in full sentences.",
    "minimal": "Answer as briefly as the question allows.",
}
_ACTIONS = {
    "escalate_to_human": "hand over to a human",
    "request_approval": "ask for approval first",
    "block": "refuse",
}


def render_soul(soul: Soul, task: TaskType) -> tuple[Section, ...]:
    """The sections that a prompt of this task type carries; sections with nothing to say are left out.

    mention: identity, principles, constraints (with the response style); thread: and capabilities;
    dive and publish: all.
    """
    sections = [
        Section("Identity", _identity(soul.identity)),
        Section("Principles", _philosophy(soul.philosophy)),
        Section("Constraints", _constraints(soul.constraints, soul.behavior)),
    ]
    if task != "mention":
        sections.append(Section("Capabilities", _capabilities(soul.capabilities)))
    if task in ("dive", "publish"):
        sections.append(Section("Behavior", _behavior(soul.behavior)))
    return tuple(section for section in sections if section.text)


def soul_text(soul: Soul, task: TaskType) -> str:
    """The same sections as one text, each under its heading."""
    return "\n\n".join(f"## {section.title}\n{section.text}" for section in render_soul(soul, task))


def soul_tokens(soul: Soul, count: Callable[[str], int]) -> int:
    """Tokens of the fullest rendering (dive), by `count`. Compare with SOUL_TOKEN_LIMIT."""
    return count(soul_text(soul, "dive"))


def soul_to_dict(soul: Soul) -> dict[str, Any]:
    """Every field as plain values: dicts, lists, strings, numbers, booleans, None."""
    return {part: _plain(value) for part, value in asdict(soul).items()}


def soul_to_yaml(soul: Soul) -> str:
    """Canonical YAML: fixed order, nothing empty. `parse_soul` reads it back as an equal Soul."""
    parts = {part: _said(value) for part, value in soul_to_dict(soul).items()}
    return yaml.dump(
        {part: value for part, value in parts.items() if value},
        Dumper=_Dumper,
        sort_keys=False,
        allow_unicode=True,
        width=100,
    )


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return value


def _said(part: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in part.items() if value not in ("", [], None, False)}


class _Dumper(yaml.SafeDumper):
    """Writes several lines as a literal block, and never an anchor."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)


def _identity(identity: Identity) -> str:
    return "\n".join(filter(None, (f"You are {identity.name}, {identity.role}.", identity.description)))


def _philosophy(philosophy: Philosophy) -> str:
    return _blocks(("", philosophy.principles), ("Values:", philosophy.values))


def _constraints(constraints: Constraints, behavior: Behavior) -> str:
    rules = tuple(f"When {rule.condition}: {_ACTIONS[rule.action]}." for rule in constraints.escalation_rules)
    limits = _blocks(
        ("Never:", constraints.never_do),
        ("Do not discuss:", constraints.restricted_topics),
        ("Escalation:", rules),
    )
    return "\n".join(filter(None, (limits, _STYLES[behavior.response_style])))


def _capabilities(capabilities: Capabilities) -> str:
    return _blocks(
        ("Domains:", capabilities.domains),
        ("Tools:", capabilities.tools),
        ("Limitations:", capabilities.limitations),
    )


def _behavior(behavior: Behavior) -> str:
    disclosure = "Give the short answer first, details when asked." if behavior.progressive_disclosure else ""
    limit = f"Keep every answer under {behavior.max_output_tokens} tokens." if behavior.max_output_tokens else ""
    triggers = _blocks(("Speak up without being asked when:", behavior.proactive_triggers))
    return "\n".join(filter(None, (disclosure, triggers, limit)))


def _blocks(*lists: tuple[str, tuple[str, ...]]) -> str:
    """Each list under its heading, indented so that an entry of several lines stays one entry."""
    lines: list[str] = []
    for heading, entries in lists:
        if entries and heading:
            lines.append(heading)
        lines.extend("- " + entry.replace("\n", "\n  ") for entry in entries)
    return "\n".join(lines)
