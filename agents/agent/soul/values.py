"""A SOUL (an agent's identity, principles and constraints) as frozen dataclasses. Pure."""

import json
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
    """The agent's identity. `name` and `role` are one line each and never empty."""

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


def soul_to_dict(soul: Soul) -> dict[str, Any]:
    """Every field as plain values: dicts, lists, strings, numbers, booleans, None."""
    values: dict[str, Any] = json.loads(json.dumps(asdict(soul)))
    return values
