"""SOUL: an agent's identity, principles and constraints, as validated plain values."""

from agents.soul.diff import Change, diff_lines, diff_souls
from agents.soul.parsing import parse_soul, soul_from_dict
from agents.soul.problems import Problem, SoulError
from agents.soul.rendering import (
    Section,
    TaskType,
    render_soul,
    soul_text,
    soul_to_dict,
    soul_to_yaml,
    soul_tokens,
)
from agents.soul.values import (
    ESCALATION_ACTIONS,
    RESPONSE_STYLES,
    SOUL_TOKEN_ADVICE,
    SOUL_TOKEN_LIMIT,
    Behavior,
    Capabilities,
    Constraints,
    EscalationAction,
    EscalationRule,
    Identity,
    Philosophy,
    ResponseStyle,
    Soul,
)

__all__ = [
    "ESCALATION_ACTIONS",
    "RESPONSE_STYLES",
    "SOUL_TOKEN_ADVICE",
    "SOUL_TOKEN_LIMIT",
    "Behavior",
    "Capabilities",
    "Change",
    "Constraints",
    "EscalationAction",
    "EscalationRule",
    "Identity",
    "Philosophy",
    "Problem",
    "ResponseStyle",
    "Section",
    "Soul",
    "SoulError",
    "TaskType",
    "diff_lines",
    "diff_souls",
    "parse_soul",
    "render_soul",
    "soul_from_dict",
    "soul_text",
    "soul_to_dict",
    "soul_to_yaml",
    "soul_tokens",
]
