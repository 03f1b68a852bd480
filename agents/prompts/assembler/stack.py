"""The priority stack and its budgets, to be read as a table of contents.

Priority decides what gets in; where it then stands is the slot's business (`render`).
The numbers are the product specification's, "Budget by task type"; admins may change them per workspace.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Literal, get_args

from agents.agent.soul import SOUL_TOKEN_LIMIT, TaskType

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
    "files",
    "images",
    "request_images",
    "constraints",
    "preferences",
    "reminders",
    "situation",
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
    Layer(
        "P1",
        "current task",
        (
            *("request", "later", "source", "files", "images", "request_images"),
            *("constraints", "preferences", "reminders"),
            *("situation", "history", "work"),
        ),
    ),
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
        "history": ("history", "recall", "images"),
        "dynamic": (
            *("work", "profile", "feedback", "knowledge", "dives", "episodes"),
            *("files", "request_images", "constraints", "preferences", "reminders", "later", "situation"),
        ),
        "request": ("request",),
    }
)
"""The order of sections inside each slot; slots stand in this order too. What changes least stands first."""


@dataclass(frozen=True, slots=True)
class TaskBudget:
    """Tokens for one task type. A cap of None means the remainder of the ceiling.

    P2's cap is for feedback and skills; blocks and profile notes come on top, limited where they are written.
    `max_ceiling` is what the model can read or the caller allows, None without a limit.
    """

    task: TaskType
    ceiling: int
    caps: Mapping[LayerName, int | None]
    max_ceiling: int | None = field(default=None, compare=False)


def _task_budget(task: TaskType, ceiling: int, p1: int, p3: int, p5: int) -> TaskBudget:
    caps: dict[LayerName, int | None] = {"P0": 2_000, "P1": p1, "P2": 500, "P3": p3, "P4": 200, "P5": p5, "P6": None}
    return TaskBudget(task, ceiling, MappingProxyType(caps))


BUDGETS: Mapping[TaskType, TaskBudget] = MappingProxyType(
    {
        "mention": _task_budget("mention", 8_000, p1=3_500, p3=1_000, p5=500),
        "thread": _task_budget("thread", 15_000, p1=8_000, p3=2_000, p5=1_000),
        "dive": _task_budget("dive", 30_000, p1=22_000, p3=2_000, p5=1_000),
        "publish": _task_budget("publish", 20_000, p1=16_000, p3=500, p5=0),
        "scheduled": _task_budget("scheduled", 15_000, p1=8_000, p3=2_000, p5=1_000),
        "proactive": _task_budget("proactive", 15_000, p1=8_000, p3=2_000, p5=1_000),
    }
)
"""The budgets of prompts that are answered in a thread."""

WATCH_BUDGET = TaskBudget("watch", 4_000, MappingProxyType(dict.fromkeys(LAYER_NAMES)))
"""The budget of the question whether an agent that watches a channel speaks up. Nobody raises it."""

MIN_REQUEST_TOKENS = 500
"""The least a request keeps, as head and tail, however full the prompt is."""

MORE_TOOLS = "more_tools"
"""The tool that offers another one, which its definition names (`agents.tools.needs`)."""

FIND_TOOL = "find_tool"
"""The tool that looks for others where there are too many to be named (`agents.tools.offers`)."""

SMALL_WINDOW = 8_000
"""Tokens that a model reads at most for its prompts to leave out what it could not use: what it was asked and what
bears on that come first. A limit of the caller alone makes no window small."""

SMALL_WINDOW_SHARE = 0.4
"""Share of such a prompt that the current task, and the history in it, takes before anything is recalled."""

SMALL_WINDOW_SKIPS: frozenset[SectionName] = frozenset(
    ("workspace", "channel", "topics", "skills", "reminders", "dives")
)
"""What such prompts have none of, beside older episodes: where they are, indexes of what could be looked up, and hints.
A model of half a billion parameters answers with the workspace's name what the bark supplier is called."""

SMALL_WINDOW_TOOL_SKIPS = frozenset(
    (
        *("update_context_block", "log_progress", "work_update", "request_approval"),
        *("knowledge_search", "knowledge_suggest", "load_skill", "unload_skill", MORE_TOOLS, FIND_TOOL),
    )
)
"""Tools of our own that such prompts do not offer: those to look at what was said and at files are left."""

REQUIRED_TOKENS: Mapping[str, int] = MappingProxyType(
    {
        "the SOUL": SOUL_TOKEN_LIMIT,
        "organisation instructions": 2_000,
        "the built-in policy": 300,
        "tool definitions": 1_300,
        "standing constraints": 1_500,
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
    for key, value in overrides.items():
        _check_override(key, value)
    new_budget = _override(budget, overrides)
    if new_budget.ceiling < MIN_CEILING:
        parts = ", ".join(f"{name} {tokens:,}" for name, tokens in REQUIRED_TOKENS.items())
        raise ValueError(
            f"The ceiling for {budget.task} must be at least {MIN_CEILING:,} tokens, not {new_budget.ceiling:,}: "
            f"what every prompt needs has to fit ({parts})."
        )
    return new_budget


def with_stored_overrides(budget: TaskBudget, stored: object) -> TaskBudget:
    """The same for numbers saved before a rule was made: what is no budget counts as not written, and a ceiling below
    MIN_CEILING holds as far as what every prompt needs allows it (`raise_ceiling`)."""
    overrides = stored if isinstance(stored, Mapping) else {}
    return _override(budget, {key: value for key, value in overrides.items() if _is_override(key, value)})


def raise_ceiling(budget: TaskBudget, needed: int) -> TaskBudget:
    """The budget with a ceiling of at least `needed` tokens, as far as the model can read so much."""
    ceiling = max(budget.ceiling, needed if budget.max_ceiling is None else min(needed, budget.max_ceiling))
    return budget if ceiling == budget.ceiling else replace(budget, ceiling=ceiling)


def scale_caps(budget: TaskBudget) -> TaskBudget:
    """The caps of layers lowered as the ceiling is, for a small window: what was said last leaves room for what is
    recalled."""
    share = min(budget.ceiling / BUDGETS[budget.task].ceiling, 1.0)
    least = {"P0": 1, "P1": MIN_REQUEST_TOKENS}
    caps = {
        name: None if cap is None else min(cap, max(int(cap * share), least.get(name, 0)))
        for name, cap in budget.caps.items()
    }
    if caps["P1"] is not None:
        caps["P1"] = min(caps["P1"], max(int(budget.ceiling * SMALL_WINDOW_SHARE), MIN_REQUEST_TOKENS))
    return replace(budget, caps=MappingProxyType(caps))


def _override(budget: TaskBudget, overrides: Mapping[str, Any]) -> TaskBudget:
    """The budget with these numbers, which were checked."""
    caps = {name: overrides.get(name, cap) for name, cap in budget.caps.items()}
    return replace(budget, ceiling=overrides.get("ceiling", budget.ceiling), caps=MappingProxyType(caps))


def _is_override(key: str, value: object) -> bool:
    try:
        _check_override(key, value)
    except ValueError:
        return False
    return True


def _check_override(key: str, value: object) -> None:
    """Raises ValueError unless this is a part of a budget and a number for it."""
    if key != "ceiling" and key not in LAYER_NAMES:
        part_names = ", ".join(("ceiling", *LAYER_NAMES))
        raise ValueError(f"A budget has no part called {key!r}. Known parts: {part_names}.")
    if key != "P6" or value is not None:
        _check_tokens(key, value, minimum={"ceiling": 1, "P0": 1, "P1": MIN_REQUEST_TOKENS}.get(key, 0))


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
    max_ceiling = readable if budget.max_ceiling is None else min(budget.max_ceiling, readable)
    return replace(budget, ceiling=min(budget.ceiling, readable), max_ceiling=max_ceiling)


def is_small_window(window: int, reserve: int) -> bool:
    """Whether a model of this window, less its output reserve, reads so little."""
    return window - reserve <= SMALL_WINDOW


def _check_tokens(key: str, value: object, *, minimum: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"{key} must be a whole number of tokens, not {value!r}.")
    if value < minimum:
        raise ValueError(f"{key} must be at least {minimum:,} tokens, not {value:,}.")


def check_budgets(budgets: object) -> None:
    """Raises ValueError, with a sentence for people, unless these are overrides by task type that leave room for what
    every prompt needs."""
    if not isinstance(budgets, Mapping):
        raise ValueError('Budgets are written by task type, for example {"thread": {"ceiling": 12000}}.')
    for task, overrides in budgets.items():
        if task not in BUDGETS:
            raise ValueError(f"There is no task type {task!r}. Known: {', '.join(BUDGETS)}.")
        if not isinstance(overrides, Mapping):
            raise ValueError(f'The budget for {task} must name its parts, for example {{"ceiling": 12000}}.')
        with_overrides(BUDGETS[task], overrides)
