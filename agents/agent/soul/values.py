"""A SOUL (an agent's identity, principles and constraints) as frozen dataclasses. Pure.

The annotations are pydantic's and count where a SOUL is read (`parser`): a None there is the field's default."""

import json
import re
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, Strict
from pydantic_core import PydanticCustomError, PydanticUseDefault

TaskType = Literal["mention", "thread", "dive", "publish", "scheduled", "proactive", "watch"]
ResponseStyle = Literal["structured", "conversational", "minimal"]
EscalationAction = Literal["escalate_to_human", "request_approval", "block"]

RESPONSE_STYLES: tuple[str, ...] = get_args(ResponseStyle)
ESCALATION_ACTIONS: tuple[str, ...] = get_args(EscalationAction)

SOUL_TOKEN_LIMIT = 2000
"""A SOUL over this many tokens is refused when it is saved, so that P0 always fits."""

SOUL_TOKEN_ADVICE = (500, 2000)
"""The range, in tokens, that the editor recommends."""

UNPRINTABLE = re.compile(r"[^\t\n\r\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def _default_if_none(value: object) -> object:
    if value is None:
        raise PydanticUseDefault
    return value


def _strip_printable(value: object) -> object:
    if isinstance(value, str) and UNPRINTABLE.search(value := value.strip()):
        raise PydanticCustomError("unprintable", "unprintable")
    return value


def _check_filled(value: str) -> str:
    if not value:
        raise PydanticCustomError("empty", "empty")
    return value


def _check_one_line(value: str) -> str:
    if len(value.splitlines()) > 1:
        raise PydanticCustomError("several_lines", "several lines")
    return value


_DEFAULT_IF_NONE = BeforeValidator(_default_if_none)
Text = Annotated[str, Strict(), BeforeValidator(_strip_printable)]
FilledText = Annotated[Text, AfterValidator(_check_filled)]
Line = Annotated[FilledText, AfterValidator(_check_one_line)]
OptionalText = Annotated[Text, _DEFAULT_IF_NONE]
Texts = Annotated[tuple[FilledText, ...], _DEFAULT_IF_NONE]


@dataclass(frozen=True, slots=True)
class Identity:
    """The agent's identity. `name` and `role` are one line each and never empty."""

    name: Line
    role: Line
    description: OptionalText = ""
    avatar: OptionalText = ""


@dataclass(frozen=True, slots=True)
class Philosophy:
    principles: Texts = ()
    values: Texts = ()


@dataclass(frozen=True, slots=True)
class Capabilities:
    domains: Texts = ()
    tools: Texts = ()
    limitations: Texts = ()


@dataclass(frozen=True, slots=True)
class Behavior:
    """How the agent answers. `max_output_tokens` is None when the model endpoint's own limit counts."""

    response_style: Annotated[ResponseStyle, _DEFAULT_IF_NONE] = "conversational"
    progressive_disclosure: Annotated[bool, Strict(), _DEFAULT_IF_NONE] = False
    proactive_triggers: Texts = ()
    max_output_tokens: Annotated[int, Strict(), Field(ge=1)] | None = None


@dataclass(frozen=True, slots=True)
class EscalationRule:
    condition: FilledText
    action: EscalationAction


@dataclass(frozen=True, slots=True)
class Constraints:
    restricted_topics: Texts = ()
    never_do: Texts = ()
    escalation_rules: Annotated[tuple[EscalationRule, ...], _DEFAULT_IF_NONE] = ()


@dataclass(frozen=True, slots=True)
class Soul:
    """An agent's identity, principles and constraints. The trust level is not part of it."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    identity: Identity
    philosophy: Annotated[Philosophy, _DEFAULT_IF_NONE] = field(default_factory=Philosophy)
    capabilities: Annotated[Capabilities, _DEFAULT_IF_NONE] = field(default_factory=Capabilities)
    behavior: Annotated[Behavior, _DEFAULT_IF_NONE] = field(default_factory=Behavior)
    constraints: Annotated[Constraints, _DEFAULT_IF_NONE] = field(default_factory=Constraints)


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
