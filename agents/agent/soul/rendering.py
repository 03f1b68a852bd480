"""What prompts hold of a SOUL, by task type. Pure."""

from collections.abc import Callable
from dataclasses import dataclass

from agents.agent.soul.values import Behavior, Constraints, Soul, TaskType


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
