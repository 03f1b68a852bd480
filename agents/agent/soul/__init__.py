"""SOULs: what an agent is, as values; read from text, changed, compared, and rendered for prompts. Pure."""

from agents.agent.soul.diff import FieldDiff, diff_souls
from agents.agent.soul.rendering import SoulSection, render_soul, soul_text, soul_tokens
from agents.agent.soul.values import (
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
    SoulError,
    SoulProblem,
    TaskType,
    soul_to_dict,
)

__all__ = [
    "ESCALATION_ACTIONS",
    "RESPONSE_STYLES",
    "SOUL_TOKEN_ADVICE",
    "SOUL_TOKEN_LIMIT",
    "Behavior",
    "Capabilities",
    "Constraints",
    "EscalationAction",
    "EscalationRule",
    "FieldDiff",
    "Identity",
    "Philosophy",
    "ResponseStyle",
    "Soul",
    "SoulError",
    "SoulProblem",
    "SoulSection",
    "TaskType",
    "diff_souls",
    "render_soul",
    "soul_text",
    "soul_to_dict",
    "soul_tokens",
]
