"""The priority stack and its budgets, to be read as a table of contents.

Priority decides what gets in; where it then stands is the slot's business (`render`).
The numbers are the product specification's, "Budget by task type"; admins may change them per workspace.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal, get_args

from agents.soul import SOUL_TOKEN_LIMIT, TaskType

LayerName = Literal["P0", "P1", "P2", "P3", "P4", "P5", "P6"]
LAYER_NAMES: tuple[LayerName, ...] = get_args(LayerName)
Slot = Literal["tools", "system", "reference", "history", "dynamic", "request"]
SectionName = Literal[
    "policy",
    "soul",
    "instructions",
    "tools",
    "request",
    "later",
    "source",
    "history",
    "work",
    "feedback",
    "blocks",
    "profile",
    "skills",
    "topics",
    "knowledge",
    "workspace",
    "channel",
    "dives",
    "episodes",
    "recall",
]


@dataclass(frozen=True, slots=True)
class Layer:
    name: LayerName
    title: str
    sections: tuple[SectionName, ...]


STACK: tuple[Layer, ...] = (
    Layer("P0", "SOUL, policy, organisation instructions, tools", ("policy", "soul", "instructions", "tools")),
    Layer("P1", "current task", ("request", "later", "source", "history", "work")),
    Layer("P2", "active feedback, the agent's blocks and profile notes", ("feedback", "blocks", "profile", "skills")),
    Layer("P3", "knowledge", ("topics", "knowledge")),
    Layer("P4", "channel and workspace", ("workspace", "channel")),
    Layer("P5", "dive headlines of this thread", ("dives",)),
    Layer("P6", "older episodes, recalled messages", ("episodes", "recall")),
)

SECTION_ORDER: Mapping[Slot, tuple[SectionName, ...]] = MappingProxyType(
    {
        "tools": ("tools",),
        "system": ("policy", "soul", "instructions"),
        "reference": ("workspace", "channel", "blocks", "skills", "topics", "source"),
        "history": ("history",),
        "dynamic": ("work", "profile", "feedback", "knowledge", "dives", "episodes", "recall"),
        "request": ("request", "later"),
    }
)
"""The order of sections inside each slot; slots stand in this order too. What changes least stands first."""


@dataclass(frozen=True, slots=True)
class TaskBudget:
    """Tokens for one task type. A cap of None means the remainder of the ceiling.

    P2's cap is for feedback and skills; blocks and profile notes come on top, limited where they are written.
    """

    task: TaskType
    ceiling: int
    caps: Mapping[LayerName, int | None]


def _task_budget(task: TaskType, ceiling: int, p1: int, p3: int, p5: int) -> TaskBudget:
    caps: dict[LayerName, int | None] = {"P0": 2_000, "P1": p1, "P2": 500, "P3": p3, "P4": 200, "P5": p5, "P6": None}
    return TaskBudget(task, ceiling, MappingProxyType(caps))


BUDGETS: Mapping[TaskType, TaskBudget] = MappingProxyType(
    {
        "mention": _task_budget("mention", 8_000, p1=3_500, p3=1_000, p5=500),
        "thread": _task_budget("thread", 15_000, p1=8_000, p3=2_000, p5=1_000),
        "dive": _task_budget("dive", 30_000, p1=22_000, p3=2_000, p5=1_000),
        "publish": _task_budget("publish", 20_000, p1=16_000, p3=500, p5=0),
    }
)

MIN_REQUEST_TOKENS = 500
"""The least a request keeps, as head and tail, however full the prompt is."""

REQUIRED_TOKENS: Mapping[str, int] = MappingProxyType(
    {
        "the SOUL": SOUL_TOKEN_LIMIT,
        "organisation instructions": 2_000,
        "the built-in policy": 300,
        "tool definitions": 1_200,
        "the request": MIN_REQUEST_TOKENS,
    }
)
"""The most that each part which is always in a prompt may need."""

MIN_CEILING = sum(REQUIRED_TOKENS.values())
"""No ceiling may be set below this, or a legal SOUL could make an agent speechless."""


def with_overrides(budget: TaskBudget, overrides: Mapping[str, object]) -> TaskBudget:
    """The budget with a workspace's own numbers: keys `ceiling` and `P0`…`P6`; P6 may be None (remainder).

    Raises ValueError with a sentence for people when a number is no budget or required parts do not fit.
    """
    ceiling, caps = budget.ceiling, dict(budget.caps)
    for key, value in overrides.items():
        if key == "ceiling":
            ceiling = _check_tokens(key, value, minimum=1)
        elif key in LAYER_NAMES:
            remainder = key == "P6" and value is None
            minimum = {"P0": 1, "P1": MIN_REQUEST_TOKENS}.get(key, 0)
            caps[key] = None if remainder else _check_tokens(key, value, minimum=minimum)
        else:
            known = ", ".join(("ceiling", *LAYER_NAMES))
            raise ValueError(f"A budget has no part called {key!r}. Known parts: {known}.")
    if ceiling < MIN_CEILING:
        parts = ", ".join(f"{name} {tokens:,}" for name, tokens in REQUIRED_TOKENS.items())
        raise ValueError(
            f"The ceiling for {budget.task} must be at least {MIN_CEILING:,} tokens, not {ceiling:,}: "
            f"what every prompt needs has to fit ({parts})."
        )
    return replace(budget, ceiling=ceiling, caps=MappingProxyType(caps))


def bounded_by_window(budget: TaskBudget, window: int, reserve: int) -> TaskBudget:
    """The budget with its ceiling lowered to what the model can read: its window less the output reserve.

    Raises ValueError when the reserve leaves nothing to read.
    """
    readable = window - reserve
    if readable <= 0:
        raise ValueError(
            f"The model's window of {window:,} tokens is used up by its output reserve of {reserve:,}. "
            "Lower the reserve or choose a model with a larger window."
        )
    return replace(budget, ceiling=min(budget.ceiling, readable))


def _check_tokens(key: str, value: object, *, minimum: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"{key} must be a whole number of tokens, not {value!r}.")
    if value < minimum:
        raise ValueError(f"{key} must be at least {minimum:,} tokens, not {value:,}.")
    return value


def check_budgets(budgets: object) -> None:
    """Raise ValueError, with a sentence for people, unless these are overrides by task type that leave room for
    what every prompt needs."""
    if not isinstance(budgets, Mapping):
        raise ValueError('Budgets are written by task type, for example {"thread": {"ceiling": 12000}}.')
    for task, overrides in budgets.items():
        if task not in BUDGETS:
            raise ValueError(f"There is no task type {task!r}. Known: {', '.join(BUDGETS)}.")
        if not isinstance(overrides, Mapping):
            raise ValueError(f'The budget for {task} must name its parts, for example {{"ceiling": 12000}}.')
        with_overrides(BUDGETS[task], overrides)
