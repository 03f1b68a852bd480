"""The memory tool: one tool whose schema, description and dispatch are made from what the plugin can do.

Agents call it in their runs; outside agents call the same through the API. What comes back is plain text to read,
with references (`#12` is message 12 of the thread, `summary 5` can be described and expanded), and at most
RESULT_TOKENS long.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from memory.providers.base import MemoryProvider, Session
from memory.tool_actions import ACTIONS, Action, Argument
from openvibe.base.problems import Problem
from openvibe.llm.tokens import count, counter_for, cut_to_tokens
from openvibe.llm.values import ToolSpec

NAME = "memory"
RESULT_TOKENS = 4_000
CUT = "\n[The rest did not fit. Ask for less at a time.]"
_COUNTER = counter_for("gpt-4o")


@dataclass(frozen=True)
class MemoryTool:
    """`spec` is what a model is offered; `run` answers a call of it."""

    provider: MemoryProvider
    actions: Mapping[str, Action]
    spec: ToolSpec

    def run(self, session: Session, arguments: Mapping[str, Any]) -> str:
        """The answer to a model's call, at most RESULT_TOKENS. What the caller can mend is a sentence, not an error."""
        try:
            return self.perform(session, arguments)
        except Problem as problem:
            return within(problem.message)

    def perform(self, session: Session, arguments: Mapping[str, Any]) -> str:
        """Like `run`, but raises the Problem: unknown actions and arguments, Missing for ids out of scope."""
        action = self._action(arguments)
        given = action.checked({name: value for name, value in arguments.items() if name != "action"})
        return within(action.answer(self.provider, session, given))

    def _action(self, arguments: Mapping[str, Any]) -> Action:
        named = arguments.get("action", "")
        action = self.actions.get(named) if isinstance(named, str) else None
        if action is None:
            shown = str(named)[:80]
            raise Problem(
                f'unknown action "{shown}", available: {", ".join(self.actions)}', code="unknown_action", field="action"
            )
        return action


def build_tool(provider: MemoryProvider, *, for_agent: bool = True) -> MemoryTool:
    """The tool for this plugin: `status` always, the other actions where the plugin has the capability.

    For people (`for_agent=False`) without the notes, which are an agent's own about a person.
    """
    actions = {
        action.name: action
        for action in ACTIONS
        if (action.needs is None or isinstance(provider, action.needs)) and (for_agent or not action.for_agents_only)
    }
    return MemoryTool(provider, actions, ToolSpec(NAME, _description(actions), _parameters(actions)))


def _description(actions: Mapping[str, Action]) -> str:
    lines = ["Look things up in your memory of this conversation. Actions:"]
    lines += [f"- {action.name}{_asks_for(action)}: {action.description}" for action in actions.values()]
    return "\n".join(lines)


def _asks_for(action: Action) -> str:
    asked = [argument.name if argument.required else f"{argument.name}?" for argument in action.arguments]
    return f" ({', '.join(asked)})" if asked else ""


def _parameters(actions: Mapping[str, Action]) -> dict[str, Any]:
    used: dict[str, list[str]] = {}
    known: dict[str, Argument] = {}
    for action in actions.values():
        for argument in action.arguments:
            known[argument.name] = argument
            used.setdefault(argument.name, []).append(action.name)
    asked = {name: argument.schema(used[name]) for name, argument in known.items()}
    action_schema = {"type": "string", "enum": list(actions), "description": "What to do."}
    return {
        "type": "object",
        "properties": {"action": action_schema, **asked},
        "required": ["action"],
        "additionalProperties": False,
    }


def within(text: str) -> str:
    """The text, cut at RESULT_TOKENS, between lines where one ends in the last fifth."""
    if count(text) <= RESULT_TOKENS:
        return text
    kept = cut_to_tokens(text, RESULT_TOKENS - count(CUT) - 2, _COUNTER)
    line = kept.rfind("\n")
    return (kept[:line] if line > len(kept) * 4 // 5 else kept) + CUT
