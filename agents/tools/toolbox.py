"""The tools a run is offered, in the order prompts list them, and the one way to call them."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import structlog
from django.db import InterfaceError, OperationalError, transaction

from agents.assembler.items import count_tool
from agents.assembler.stack import REQUIRED_PARTS
from agents.models import Agent, Run
from agents.tools.arguments import read_arguments
from agents.tools.knowledge import knowledge_search, knowledge_suggest
from agents.tools.memories import memory, update_context_block
from agents.tools.skills import load_skill, unload_skill
from agents.tools.values import Decision, Outcome, Setting, Tool, ToolMaker
from agents.tools.work import log_progress, request_approval, work_update
from agents.visibility import visible_to
from openvibe.base.problems import Problem
from openvibe.base.secrets import mask_secrets
from openvibe.chat.models import Thread
from openvibe.llm.fences import clean
from openvibe.llm.tokens import counter_for, head_and_tail
from openvibe.llm.values import ToolCall, ToolSpec

log = structlog.get_logger(__name__)

RESULT_TOKENS = 4_000
"""Tokens of one result; longer ones keep head and tail."""

DEFINITIONS = REQUIRED_PARTS["tool definitions"]
"""Tokens of all definitions together. What does not fit any more is not offered."""

_COUNTER = counter_for("offline")
_BOUNDS = {"minLength", "maxLength", "minimum", "maximum", "additionalProperties"}
_CUT = "\n[… the middle of this result was cut here …]\n"


@dataclass(frozen=True)
class Listed:
    """A tool of the list: what makes it, and from which trust level on it is offered."""

    name: str
    make: ToolMaker
    least_level: int = 1


TOOLS: tuple[Listed, ...] = (
    Listed("memory", memory),
    Listed("update_context_block", update_context_block),
    Listed("log_progress", log_progress),
    Listed("work_update", work_update, least_level=2),
    Listed("request_approval", request_approval, least_level=2),
    Listed("knowledge_search", knowledge_search, least_level=3),
    Listed("knowledge_suggest", knowledge_suggest, least_level=2),
    Listed("load_skill", load_skill),
    Listed("unload_skill", unload_skill),
)
"""Every tool there is. All of them write or read what belongs to the agent or the thread; none acts outside."""


@dataclass(frozen=True)
class Toolbox:
    """What one agent may call in one thread."""

    tools: dict[str, Tool] = field(default_factory=dict)

    @classmethod
    def of(
        cls, agent: Agent, thread: Thread, *, run: Run | None = None, seen: dict[str, str] | None = None
    ) -> "Toolbox":
        """By the agent's trust level, the tools its SOUL names (none named: no restriction), and the memory plugin.

        `seen` goes with the run from one box to the next (`Setting.seen`).
        """
        setting = Setting(agent, thread, visible_to(agent), run, {} if seen is None else seen)
        chosen = _named_by_soul(agent)
        tools: dict[str, Tool] = {}
        room = DEFINITIONS
        for listed in TOOLS:
            if listed.least_level > agent.level or (chosen and listed.name not in chosen):
                continue
            tool = listed.make(setting)
            if tool is None:
                continue
            needed = count_tool(lean(tool.spec), _COUNTER)
            if needed > room:
                log.warning("tool_not_offered", tool=listed.name, tokens=needed, room=room)
                continue
            room -= needed
            tools[tool.spec.name] = tool
        return cls(tools)

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """Their definitions as models are given them."""
        return tuple(lean(tool.spec) for tool in self.tools.values())

    def carry(self, call: ToolCall) -> Outcome:
        """Carry one call out, in the caller's transaction. What fails leaves nothing behind and says why.

        The result is text for the model, at most RESULT_TOKENS, without secrets and control characters. Raises
        only when the database is out of reach.
        """
        outcome = self._carried(call)
        if outcome.decision == Decision.REFUSED:
            log.warning("tool_call_refused", tool=call.name[:100])  # why may quote; the call's row keeps it
        result = head_and_tail(mask_secrets(clean(outcome.result)), RESULT_TOKENS, _COUNTER, _CUT)
        return Outcome(result or "(empty)", outcome.decision, outcome.why, outcome.approval)

    def _carried(self, call: ToolCall) -> Outcome:
        tool = self.tools.get(call.name)
        if tool is None:
            return refused(f'There is no tool "{call.name[:100]}" for you. Available: {_names(self.specs)}.')
        try:
            arguments = read_arguments(call.arguments, tool.spec.parameters, check=not tool.checks_itself)
            with transaction.atomic():
                said = tool.run(arguments)
        except Problem as problem:
            return refused(problem.message)
        except (OperationalError, InterfaceError):
            raise
        except Exception:
            log.exception("tool_failed", tool=call.name)
            return refused(f"{call.name} failed inside OpenVibe. Go on without it.")
        return said if isinstance(said, Outcome) else Outcome(said)


def lean(spec: ToolSpec) -> ToolSpec:
    """The definition without what every prompt would pay for twice: bounds, which every call is held against anyway,
    and what single arguments mean, which the tool's own description says."""
    return replace(spec, parameters=_lean(spec.parameters))


def _lean(schema: Any) -> Any:
    if not isinstance(schema, dict):
        return schema
    lean_ones = {key: _lean(value) for key, value in schema.items() if key not in _BOUNDS}
    if isinstance(lean_ones.get("description"), str):  # a dict would be an argument of this name
        del lean_ones["description"]
    return lean_ones


def refused(why: str) -> Outcome:
    """A call that was not carried out: the model and people read the same sentence."""
    said = mask_secrets(clean(why))
    return Outcome(said, Decision.REFUSED, said[:300])


def _named_by_soul(agent: Agent) -> frozenset[str]:
    """Tools of ours that the SOUL lists. A SOUL that names none of them restricts nothing."""
    content = agent.soul.content if agent.soul else {}
    named = content.get("capabilities", {}).get("tools", ())
    return frozenset(str(name).strip().lower().replace(" ", "_") for name in named) & {tool.name for tool in TOOLS}


def _names(specs: Sequence[ToolSpec]) -> str:
    return ", ".join(spec.name for spec in specs) or "none"
