"""A SOUL (an agent's identity, principles and constraints) as frozen dataclasses; what prompts hold of it, by task
type; and the difference of two SOULs. Pure."""

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, get_args

TaskType = Literal["mention", "thread", "dive", "publish", "scheduled"]
ResponseStyle = Literal["structured", "conversational", "minimal"]
EscalationAction = Literal["escalate_to_human", "request_approval", "block"]

RESPONSE_STYLES: tuple[str, ...] = get_args(ResponseStyle)
ESCALATION_ACTIONS: tuple[str, ...] = get_args(EscalationAction)

SOUL_TOKEN_LIMIT = 2000
"""A SOUL over this many tokens is refused when it is saved, so that P0 always fits."""

SOUL_TOKEN_ADVICE = (500, 2000)
"""The range, in tokens, that the editor recommends."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Who the agent is. `name` and `role` are one line each and never empty."""

    name: str
    role: str
    description: str = ""
    avatar: str = ""


@dataclass(frozen=True, slots=True)
class Philosophy:
    principles: tuple[str, ...] = ()
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Capabilities:
    domains: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    limitations: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Behavior:
    """How the agent answers. `max_output_tokens` is None when the model endpoint's own limit counts."""

    response_style: ResponseStyle = "conversational"
    progressive_disclosure: bool = False
    proactive_triggers: tuple[str, ...] = ()
    max_output_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class EscalationRule:
    condition: str
    action: EscalationAction


@dataclass(frozen=True, slots=True)
class Constraints:
    restricted_topics: tuple[str, ...] = ()
    never_do: tuple[str, ...] = ()
    escalation_rules: tuple[EscalationRule, ...] = ()


@dataclass(frozen=True, slots=True)
class Soul:
    """An agent's identity, principles and constraints. The trust level is not part of it."""

    identity: Identity
    philosophy: Philosophy = field(default_factory=Philosophy)
    capabilities: Capabilities = field(default_factory=Capabilities)
    behavior: Behavior = field(default_factory=Behavior)
    constraints: Constraints = field(default_factory=Constraints)


@dataclass(frozen=True, slots=True, order=True)
class SoulProblem:
    """One thing to mend. `line` counts from 1; 0 means the SOUL did not come from a text.

    `field` is a dotted path such as `constraints.escalation_rules[0].action`, empty for the whole text.
    """

    line: int
    field: str
    message: str

    def __str__(self) -> str:
        where = ", ".join(part for part in (f"line {self.line}" if self.line else "", self.field) if part)
        return f"{where}: {self.message}" if where else self.message


class SoulError(ValueError):
    """The SOUL cannot be used. `problems` holds every problem found, in the order of the text."""

    def __init__(self, problems: tuple[SoulProblem, ...]) -> None:
        self.problems = problems
        super().__init__("\n".join(str(problem) for problem in problems))


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
    """The sections that a prompt of this task type holds; sections with nothing to say are left out.

    mention: identity, principles, constraints (with the response style); thread: and capabilities;
    dive and publish: all.
    """
    identity, philosophy, capabilities = soul.identity, soul.philosophy, soul.capabilities
    introduction = _sentence(f"Your name and role: {identity.name}, {identity.role}")
    sections = [
        SoulSection("Identity", "\n".join(filter(None, (introduction, identity.description)))),
        SoulSection("Principles", _bullet_lists(("", philosophy.principles), ("Values:", philosophy.values))),
        SoulSection("Constraints", _constraints_text(soul.constraints, soul.behavior)),
    ]
    if task != "mention":
        skills = (("Domains:", capabilities.domains), ("Tools:", capabilities.tools))
        text = _bullet_lists(*skills, ("Limitations:", capabilities.limitations))
        sections.append(SoulSection("Capabilities", text))
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
    values: dict[str, Any] = json.loads(json.dumps(asdict(soul)))
    return values


def _sentence(text: str) -> str:
    """The text with a full stop, unless it ends as a sentence does. A role is written in any words, so none join it."""
    return text if text.endswith((".", "!", "?", "…", "。")) else f"{text}."


def _constraints_text(constraints: Constraints, behavior: Behavior) -> str:
    rules = tuple(f"When {rule.condition}: {_ACTION_TEXTS[rule.action]}." for rule in constraints.escalation_rules)
    limits = _bullet_lists(
        ("Never:", constraints.never_do), ("Do not discuss:", constraints.restricted_topics), ("Escalation:", rules)
    )
    return "\n".join(filter(None, (_STYLE_TEXTS[behavior.response_style], limits)))


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


def _field_changes(path: str, old: Any, new: Any) -> Iterator[FieldChange]:
    if old == new:
        return
    if isinstance(old, list):
        yield from _entry_changes(path, list(map(_display_text, old)), list(map(_display_text, new)))
        return
    before, after = _display_text(old), _display_text(new)
    yield FieldChange(path, "added" if not before else "changed" if after else "removed", before, after)


def _entry_changes(path: str, old: list[str], new: list[str]) -> Iterator[FieldChange]:
    changes = [FieldChange(path, "removed", entry, "") for entry in _list_difference(old, new)]
    changes += [FieldChange(path, "added", "", entry) for entry in _list_difference(new, old)]
    yield from changes or [FieldChange(path, "changed", "\n".join(old), "\n".join(new))]


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
