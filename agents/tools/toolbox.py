"""The toolbox of a run: the registry of tools, argument validation, and the one way to execute a call."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import structlog
from django.db import InterfaceError, OperationalError, transaction

from agents.access import visible_to
from agents.assembler.items import count_tool
from agents.assembler.stack import REQUIRED_TOKENS
from agents.models import Agent, Run
from agents.tools import files, knowledge, memory
from agents.tools.values import Decision, Tool, ToolContext, ToolFactory, ToolOutcome, thread_source
from openvibe.base.masking import mask_secrets
from openvibe.base.problems import Problem
from openvibe.chat.models import Thread
from openvibe.llm.fences import clean_text
from openvibe.llm.tokens import counter_for, truncate_middle
from openvibe.llm.values import ToolCallRequest, ToolSpec

log = structlog.get_logger(__name__)

MAX_RESULT_TOKENS = 4_000
"""Tokens of one result; longer ones keep head and tail."""

MAX_DEFINITION_TOKENS = REQUIRED_TOKENS["tool definitions"]
"""Tokens of all definitions together. A tool that does not fit any more is left out."""

PEOPLE_ONLY = ("people_only", "closed_by_person")
"""Codes of what no agent is trusted with."""

_COUNTER = counter_for("offline")
_SCHEMA_BOUNDS = {"minLength", "maxLength", "minimum", "maximum", "additionalProperties"}
_CUT_MARKER = "\n[… the middle of this result was cut here …]\n"


@dataclass(frozen=True)
class ToolRegistration:
    """A tool of the list: what makes it, and from which trust level on agents have it."""

    name: str
    factory: ToolFactory
    min_level: int = 1


TOOLS: tuple[ToolRegistration, ...] = (
    ToolRegistration("memory", memory.memory),
    ToolRegistration("read_file", files.read_file),
    ToolRegistration("update_context_block", memory.update_context_block),
    ToolRegistration("log_progress", memory.log_progress),
    ToolRegistration("work_update", memory.work_update, min_level=2),
    ToolRegistration("request_approval", memory.request_approval, min_level=2),
    ToolRegistration("knowledge_search", knowledge.knowledge_search, min_level=3),
    ToolRegistration("knowledge_suggest", knowledge.knowledge_suggest, min_level=2),
    ToolRegistration("load_skill", memory.load_skill),
    ToolRegistration("unload_skill", memory.unload_skill),
)
"""Every tool there is, the most needed first: where a prompt has too little room, the last ones are left out. All of
them write or read what belongs to the agent or the thread; none acts outside."""


@dataclass(frozen=True)
class Toolbox:
    """What one agent may call in one thread."""

    thread: Thread
    tools: dict[str, Tool]
    level: int = 1

    @classmethod
    def for_agent(
        cls, agent: Agent, thread: Thread, *, run: Run | None = None, block_stamps: dict[str, str] | None = None
    ) -> "Toolbox":
        """By the agent's trust level, the tools its SOUL names (none named: no restriction), and the memory plugin.

        `block_stamps` go with the run from one toolbox to the next (`ToolContext.block_stamps`).
        """
        context = ToolContext(agent, thread, visible_to(agent), run, {} if block_stamps is None else block_stamps)
        named_tools = _tools_named_by_soul(agent)
        tools: dict[str, Tool] = {}
        tokens_left = MAX_DEFINITION_TOKENS
        for registration in TOOLS:
            if registration.min_level > agent.level or (named_tools and registration.name not in named_tools):
                continue
            tool = registration.factory(context)
            if tool is None:
                continue
            definition_tokens = count_tool(compact_spec(tool.spec), _COUNTER)
            if definition_tokens > tokens_left:
                log.warning("tool_not_offered", tool=registration.name, tokens=definition_tokens, room=tokens_left)
                continue
            tokens_left -= definition_tokens
            tools[tool.spec.name] = tool
        return cls(thread, tools, agent.level)

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """Their definitions as models are given them."""
        return tuple(compact_spec(tool.spec) for tool in self.tools.values())

    def execute(self, call: ToolCallRequest) -> ToolOutcome:
        """Execute one call, in the caller's transaction. What fails leaves nothing behind and says why.

        The result is text for the model, at most MAX_RESULT_TOKENS, without secrets and control characters. Raises
        only when the database is out of reach.
        """
        outcome = self._execute_unchecked(call)
        if outcome.decision == Decision.REFUSED:
            log.warning("tool_call_refused", tool=call.name[:100])  # why may quote; the call's row keeps it
        result = truncate_middle(mask_secrets(clean_text(outcome.result)), MAX_RESULT_TOKENS, _COUNTER, _CUT_MARKER)
        return replace(outcome, result=result or "(empty)")

    def refuse(self, call: ToolCallRequest, why: str) -> ToolOutcome:
        """A call that is not executed, for the audience it would have had."""
        tool = self.tools.get(call.name)
        sources = tool.sources(None) if tool else thread_source(self.thread)(None)
        return replace(refused_outcome(why), sources=sources)

    def _execute_unchecked(self, call: ToolCallRequest) -> ToolOutcome:
        tool = self.tools.get(call.name)
        if tool is None:
            available = ", ".join(self.tools) or "none"
            refused = self.refuse(call, f'There is no tool "{call.name[:100]}" for you. Available: {available}.')
            return replace(refused, trust_refusal=_level_refusal(call.name, self.level))
        outcome, arguments = self._execute_tool(tool, call)
        return replace(outcome, sources=(*tool.sources(arguments), *outcome.sources))

    def _execute_tool(self, tool: Tool, call: ToolCallRequest) -> tuple[ToolOutcome, dict[str, Any] | None]:
        """What came of it, and the arguments; None where they could not be read."""
        arguments = None
        try:
            arguments = _parse_arguments(call.arguments, tool.spec.parameters)
            if not tool.validates_arguments:
                _check_arguments(arguments, tool.spec.parameters)
            with transaction.atomic():
                result = tool.run(arguments)
        except Problem as problem:
            refusal = f"{call.name}, for something that only people do" if problem.code in PEOPLE_ONLY else ""
            return replace(refused_outcome(problem.message), trust_refusal=refusal), arguments
        except (OperationalError, InterfaceError):
            raise
        except Exception:
            log.exception("tool_failed", tool=call.name)
            return refused_outcome(f"{call.name} failed inside OpenVibe. Go on without it."), arguments
        return (result if isinstance(result, ToolOutcome) else ToolOutcome(result)), arguments


def _level_refusal(name: str, level: int) -> str:
    """A tool of ours that an agent of this level does not have, and from which level on it would; else empty."""
    needed = next((tool.min_level for tool in TOOLS if tool.name == name), 0)
    return f"{name}, which agents have from L{needed} on" if needed > level else ""


def compact_spec(spec: ToolSpec) -> ToolSpec:
    """The definition without what every prompt would pay for twice.

    That is bounds, which every call is held against anyway, and what single arguments mean, which the tool's own
    description says.
    """
    return replace(spec, parameters=_compact_schema(spec.parameters))


def _compact_schema(schema: Any) -> Any:
    if not isinstance(schema, dict):
        return schema
    return {
        key: _compact_schema(value)
        for key, value in schema.items()
        if key not in _SCHEMA_BOUNDS and not (key == "description" and isinstance(value, str))  # a dict: an argument
    }


def refused_outcome(why: str) -> ToolOutcome:
    """A call that was not executed: the model and people read the same sentence."""
    reason = mask_secrets(clean_text(why))
    return ToolOutcome(reason, Decision.REFUSED, reason[:300])


def _tools_named_by_soul(agent: Agent) -> frozenset[str]:
    """Tools of ours that the SOUL lists. A SOUL that names none of them restricts nothing."""
    content = agent.soul.content if agent.soul else {}
    named = content.get("capabilities", {}).get("tools", ())
    return frozenset(str(name).strip().lower().replace(" ", "_") for name in named) & {tool.name for tool in TOOLS}


MAX_ARGUMENT_CHARS = 100_000
"""Characters of the arguments of one call."""

_JSON_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "object": (dict,),
    "array": (list,),
    "null": (type(None),),
}


def _parse_arguments(text: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments as an object. Raises Problem with a sentence that says what was expected."""
    if len(text) > MAX_ARGUMENT_CHARS:
        raise Problem(f"The arguments have {len(text):,} characters; at most {MAX_ARGUMENT_CHARS:,} can be read.")
    try:
        arguments = json.loads(text or "{}")
    except (ValueError, RecursionError) as error:
        raise Problem(f"The arguments are not valid JSON ({error}). {_expected_text(schema)}") from None
    if not isinstance(arguments, dict):
        raise Problem(f"The arguments must be a JSON object. {_expected_text(schema)}")
    return {clean_text(name): _sanitize(value) for name, value in arguments.items()}


def _check_arguments(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> None:
    known: Mapping[str, Any] = schema.get("properties", {})
    missing = [name for name in schema.get("required", ()) if name not in arguments]
    if missing:
        raise Problem(f"{', '.join(missing)} is missing. {_expected_text(schema)}")
    unknown = [name for name in arguments if name not in known]
    if unknown:
        raise Problem(f"There is no argument {', '.join(unknown)[:200]}. {_expected_text(schema)}")
    for name, value in arguments.items():
        _check_value(name, value, known[name])


def _check_value(name: str, value: Any, expected: Mapping[str, Any]) -> None:
    declared_type = expected.get("type")
    type_names: list[str] = [declared_type] if isinstance(declared_type, str) else list(declared_type or ())
    fits = any(isinstance(value, _JSON_TYPES.get(kind, (object,))) for kind in type_names)
    if type_names and (not fits or (isinstance(value, bool) and "boolean" not in type_names)):
        raise Problem(f"{name} must be of type {' or '.join(type_names)}.")
    choices = expected.get("enum")
    if choices is not None and value not in choices:
        raise Problem(f"{name} must be one of: {', '.join(map(str, choices))}.")


def _expected_text(schema: Mapping[str, Any]) -> str:
    required = set(schema.get("required", ()))
    names = [name if name in required else f"{name} (optional)" for name in schema.get("properties", {})]
    return f"Expected: {', '.join(names)}." if names else "It takes no arguments."


def _sanitize(value: Any) -> Any:
    """Text without control characters and lone surrogates, however deep it stands."""
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, dict):
        return {clean_text(str(key)): _sanitize(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_sanitize(inner) for inner in value]
    return value
