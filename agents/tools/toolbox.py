"""The toolbox of a run: the registry of tools, argument validation, and the one way to execute a call."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import structlog
from django.db import InterfaceError, OperationalError, transaction

from agents.agent.access import visible_to
from agents.agent.audience import CallSource
from agents.agent.models import Agent, Run
from agents.agent.trust import gate, gate_refusal
from agents.prompts.assembler.stack import FIND_TOOL, MORE_TOOLS, REQUIRED_TOKENS
from agents.tools import files, knowledge, memory
from agents.tools.needs import NEEDS, Needs, earlier_requests, read_needs
from agents.tools.offers import (
    MAX_EXTRA_DEFINITION_TOKENS,
    MAX_NAMED_TOOLS,
    asked_for,
    choose_at_once,
    find_tool,
    more_tools,
    tokens_of,
)
from agents.tools.values import Decision, Tool, ToolContext, ToolOutcome, ToolRegistration, thread_source
from openvibe.base.problems import Problem
from openvibe.chat.models import Thread
from openvibe.chat.services import tool_refusal
from openvibe.engines.llm.answers.lenient_json import UnreadableJson
from openvibe.engines.llm.answers.tool_calls import read_arguments, resolve_name
from openvibe.engines.llm.fences import clean_text
from openvibe.engines.llm.tokens import counter_for, truncate_middle
from openvibe.engines.llm.values import ToolCallRequest, ToolSpec
from openvibe.engines.registers import Register
from openvibe.engines.text.masking import mask_secrets
from openvibe.workspaces.access import Access

log = structlog.get_logger(__name__)

OFFERING_TOOLS = (MORE_TOOLS, FIND_TOOL)
"""Those that offer others, in the order of their definitions."""

MAX_RESULT_TOKENS = 4_000
"""Tokens of one result; longer ones keep head and tail."""

MAX_DEFINITION_TOKENS = REQUIRED_TOKENS["tool definitions"]
"""Tokens of the definitions of TOOLS together. A tool that does not fit any more is left out."""

UNKNOWN_OUTCOME = (
    "Whether this took effect is unknown: it was sent, and the connection or the worker was lost before an answer "
    "came. It is not sent again. Say so, and check by other means before you try anything like it."
)

PEOPLE_ONLY = ("people_only", "closed_by_person")
"""Codes of what no agent is trusted with."""

_COUNTER = counter_for("offline")
_SCHEMA_BOUNDS = {"minLength", "maxLength", "minimum", "maximum", "additionalProperties"}
_CUT_MARKER = "\n[… the middle of this result was cut here …]\n"


TOOLS: tuple[ToolRegistration, ...] = (
    ToolRegistration("memory", memory.memory, "own_memory"),
    ToolRegistration("read_file", files.read_file, "reads"),
    ToolRegistration("update_context_block", memory.update_context_block, "own_memory"),
    ToolRegistration("log_progress", memory.log_progress, "own_memory"),
    ToolRegistration("work_update", memory.work_update, "own_memory", min_level=2),
    ToolRegistration("request_approval", memory.request_approval, "own_memory", min_level=2),
    ToolRegistration("knowledge_search", knowledge.knowledge_search, "reads", min_level=3),
    ToolRegistration("knowledge_suggest", knowledge.knowledge_suggest, "own_memory", min_level=2),
    ToolRegistration("load_skill", memory.load_skill, "own_memory"),
    ToolRegistration("unload_skill", memory.unload_skill, "own_memory"),
)
"""The tools of OpenVibe itself, the most needed first: where a prompt has too little room, the last ones are left out.
All of them write or read what belongs to the agent or the thread; none acts outside."""

EXTRA_TOOLS: Register[Callable[[Agent, Thread], Iterable[ToolRegistration]]] = Register(
    "agents.tools.toolbox.EXTRA_TOOLS", may_be_empty=True
)
"""Further tools for an agent in a thread, those of connected servers. Whoever fills it says which are the agent's; the
gate table decides what becomes of their calls. A name that TOOLS has stays with the tool of TOOLS."""


@dataclass(frozen=True)
class Toolbox:
    """What one agent may call in one thread."""

    thread: Thread
    tools: dict[str, Tool]
    withheld: dict[str, str] = field(default_factory=dict)
    """Tools that there are, but not for this agent: the rule that keeps them from it, after the tool's name."""
    at_once: tuple[str, ...] = ()
    """Those that are offered before anybody asks for them (`agents.tools.needs`, `agents.tools.offers`), in order."""

    @classmethod
    def for_agent(
        cls,
        agent: Agent,
        thread: Thread,
        *,
        run: Run | None = None,
        block_stamps: dict[str, str] | None = None,
        access: Access | None = None,
    ) -> "Toolbox":
        """The toolbox by the agent's trust level, the tools its SOUL names (none named: no restriction), the thread's
        channel, and the memory plugin; then those of EXTRA_TOOLS.

        `block_stamps` go with the run from one toolbox to the next (`ToolContext.block_stamps`). `access`: the agent's,
        where the caller has it.
        """
        stamps = {} if block_stamps is None else block_stamps
        context = ToolContext(agent, thread, access or visible_to(agent), run, stamps)
        extra = [registration for source in EXTRA_TOOLS for registration in source(agent, thread)]
        withheld: dict[str, str] = {}
        tools = _make_tools(TOOLS, context, tools_named_by_soul(agent), MAX_DEFINITION_TOKENS, withheld)
        own_names = {*OFFERING_TOOLS, *(registration.name for registration in TOOLS)}
        further = (registration for registration in extra if registration.name not in own_names)
        others = _make_tools(further, context, frozenset(), None, withheld)
        at_once = _tools_at_once(tools, others, context)
        offering = _offering_tools(tools, others, at_once, context)
        return cls(thread, tools | others | offering, withheld, at_once)

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """The definitions of all of them, as models are given them."""
        return tuple(_offered_spec(tool) for name, tool in self.tools.items() if name not in OFFERING_TOOLS)

    @property
    def offered_specs(self) -> tuple[ToolSpec, ...]:
        """The definitions that a prompt offers: the tools that offer the others, then what there is something for."""
        offering = [self.tools[name].spec for name in OFFERING_TOOLS if name in self.tools]
        return (*offering, *(_offered_spec(self.tools[name]) for name in self.at_once))

    @property
    def _remote_specs(self) -> list[ToolSpec]:
        return [spec for spec in self.specs if self.tools[spec.name].is_remote]

    def offered_by(self, calls: Iterable[ToolCallRequest]) -> tuple[ToolSpec, ...]:
        """The definitions of the tools that these calls asked for, as far as the agent has them."""
        asking = [self._by_tool_name(call) for call in calls]
        names = [name for call in asking if call.name in OFFERING_TOOLS for name in self._asked_for(call)]
        return tuple(_offered_spec(self.tools[name]) for name in dict.fromkeys(names))

    def _asked_for(self, call: ToolCallRequest) -> list[str]:
        names = [name for name in asked_for(call, self._remote_specs) if name not in OFFERING_TOOLS]
        fitting = (name for name in names if name in self.tools)
        return [name for name in fitting if tokens_of(_offered_spec(self.tools[name])) <= MAX_EXTRA_DEFINITION_TOKENS]

    def within_budget(self, offered: Sequence[ToolSpec], asked: Sequence[ToolSpec]) -> tuple[ToolSpec, ...]:
        """`offered` and those of `asked` that are not among them. Where the definitions of connected servers' tools
        take more than MAX_EXTRA_DEFINITION_TOKENS, those that were asked for first go, and can be asked for again."""
        names = {spec.name for spec in offered}
        specs = [*offered, *(spec for spec in asked if spec.name not in names)]
        kept = {spec.name for spec in asked} | {*self.at_once}
        tokens = sum(tokens_of(spec) for spec in specs if self._is_remote(spec.name))
        for spec in list(offered):
            if tokens <= MAX_EXTRA_DEFINITION_TOKENS:
                break
            if self._is_remote(spec.name) and spec.name not in kept:
                specs.remove(spec)
                tokens -= tokens_of(spec)
        return tuple(specs)

    def _is_remote(self, name: str) -> bool:
        return name in self.tools and self.tools[name].is_remote

    def execute(self, call: ToolCallRequest, *, is_approved: bool = False) -> ToolOutcome:
        """Executes one call, in the caller's transaction. What fails leaves nothing behind and says why.

        The result is text for the model, at most MAX_RESULT_TOKENS, without secrets and control characters. A call that
        must ask first, and is not one that a person approved, is not executed: its decision is WAITS. Raises only when
        the database is out of reach.
        """
        return self.check(call, is_approved=is_approved) or self._execute_checked(call)

    def check(self, call: ToolCallRequest, *, is_approved: bool = False) -> ToolOutcome | None:
        """What comes of a call that is not executed: it is refused, or waits for a person. None: it may be executed."""
        call = self._by_tool_name(call)
        tool = self.tools.get(call.name)
        if tool is None:
            refusal = self._refuse_unavailable(call)
        elif isinstance(arguments := _read_arguments(tool, call), Problem):
            refusal = self.refuse(call, arguments.message)
        elif tool.gate == "ask" and not is_approved:
            waits = ToolOutcome("Waiting for a decision.", Decision.WAITS, f"{call.name} asks people first.")
            return replace(waits, sources=tool.sources(arguments))
        else:
            return None
        return _clean_outcome(call, refusal)

    def is_remote(self, call: ToolCallRequest) -> bool:
        return self._is_remote(self._by_tool_name(call).name)

    def sources(self, call: ToolCallRequest) -> tuple[CallSource, ...]:
        """What a call that `check` let through tells of, before it is executed."""
        tool = self.tools[self._by_tool_name(call).name]
        arguments = _read_arguments(tool, call)
        return tool.sources(None if isinstance(arguments, Problem) else arguments)

    def refuse(self, call: ToolCallRequest, why: str) -> ToolOutcome:
        """A call that is not executed, for the audience it would have had."""
        tool = self.tools.get(self._by_tool_name(call).name)
        sources = tool.sources(None) if tool else thread_source(self.thread)(None)
        return replace(refused_outcome(why), sources=sources)

    def _by_tool_name(self, call: ToolCallRequest) -> ToolCallRequest:
        """The call by the tool's own name, where the model wrote more than that."""
        name = resolve_name(call.name, self.tools)
        return call if name in (None, call.name) else replace(call, name=name or call.name)

    def _refuse_unavailable(self, call: ToolCallRequest) -> ToolOutcome:
        """The rule that keeps the tool from the agent, where it is one that there is."""
        names = list(self.tools)
        others = [f"and {len(names) - MAX_NAMED_TOOLS} more"] if len(names) > MAX_NAMED_TOOLS else []
        available = f"Available: {', '.join([*names[:MAX_NAMED_TOOLS], *others]) or 'none'}."
        rule = self.withheld.get(call.name, "")
        if not rule:
            return self.refuse(call, f'There is no tool "{call.name[:100]}" for you. {available}')
        refusal = f"{call.name}, {rule}"
        return replace(self.refuse(call, f"Not allowed: {refusal}. {available}"), trust_refusal=refusal)

    def _execute_checked(self, call: ToolCallRequest) -> ToolOutcome:
        call = self._by_tool_name(call)
        tool = self.tools[call.name]
        arguments = _parse_arguments(call.arguments, tool.spec.parameters)
        try:
            with nullcontext() if tool.is_remote else transaction.atomic():
                result = tool.run(arguments)
            outcome = result if isinstance(result, ToolOutcome) else ToolOutcome(result)
        except Problem as problem:
            refusal = f"{call.name}, for something that only people do" if problem.code in PEOPLE_ONLY else ""
            outcome = replace(refused_outcome(problem.message), trust_refusal=refusal)
        except (OperationalError, InterfaceError):
            raise
        except Exception:
            log.exception("tool_failed", tool=call.name)
            failed = refused_outcome(f"{call.name} failed inside OpenVibe. Go on without it.")
            outcome = ToolOutcome(UNKNOWN_OUTCOME) if tool.is_remote and tool.effect != "reads" else failed
        return _clean_outcome(call, replace(outcome, sources=(*tool.sources(arguments), *outcome.sources)))


def _tools_at_once(own: Mapping[str, Tool], others: Mapping[str, Tool], context: ToolContext) -> tuple[str, ...]:
    """Names of those that a prompt offers: ours that there is something for, then those of connected servers. One
    query, a second one for a run that began before."""
    agent, thread, run = context.agent, context.thread, context.run
    needs = read_needs(agent.pk, agent.participant_id, thread.pk)
    specs = [_offered_spec(tool) for tool in others.values()]
    asked = [name for call in earlier_requests(run) for name in asked_for(call, specs)]
    names = [name for name in own if name in needs.called or name in asked or _is_needed(name, needs)]
    request = run.trigger.body if run is not None else ""
    latest = max(needs.called.values(), default=0)
    called = {**needs.called, **{name: latest + at for at, name in enumerate(asked, start=1)}}
    return (*names, *choose_at_once(specs, called, title=thread.title, request=request))


def _is_needed(name: str, needs: Needs) -> bool:
    return name not in NEEDS or NEEDS[name](needs)


def _offering_tools(
    own: Mapping[str, Tool], others: Mapping[str, Tool], at_once: Collection[str], context: ToolContext
) -> dict[str, Tool]:
    """The tools that offer those which are not offered at once: by their names, as far as these are not too many."""
    specs = {name: _offered_spec(tool) for name, tool in (*own.items(), *others.items())}
    hidden_own = [name for name in own if name not in at_once]
    hidden_others = [name for name in others if name not in at_once]
    tools: dict[str, Tool] = {}
    sources = thread_source(context.thread)
    are_named = len(own) + len(others) <= MAX_NAMED_TOOLS
    names = [*hidden_own, *hidden_others] if are_named else hidden_own
    if names:
        tools[MORE_TOOLS] = more_tools(names, specs, sources)
    if hidden_others and not are_named:
        tools[FIND_TOOL] = find_tool([specs[name] for name in others], hidden_others, sources)
    return tools


def _make_tools(
    registrations: Iterable[ToolRegistration],
    context: ToolContext,
    named_tools: frozenset[str],
    max_tokens: int | None,
    withheld: dict[str, str],
) -> dict[str, Tool]:
    """The tools the agent has, as many as `max_tokens` of definitions hold, None for all; the rules that keep others
    from it are added to `withheld`."""
    tools: dict[str, Tool] = {}
    tokens_left = max_tokens
    for registration, tool in _permitted_tools(registrations, context, named_tools, withheld):
        if tokens_left is not None:
            tokens = tokens_of(_offered_spec(tool))
            if tokens > tokens_left:
                log.warning("tool_not_offered", tool=registration.name, tokens=tokens, room=tokens_left)
                continue
            tokens_left -= tokens
        tools.setdefault(tool.spec.name, tool)
    return tools


def _permitted_tools(
    registrations: Iterable[ToolRegistration],
    context: ToolContext,
    named_tools: frozenset[str],
    withheld: dict[str, str],
) -> Iterator[tuple[ToolRegistration, Tool]]:
    for registration in registrations:
        if rule := withholding_rule(registration, context.agent, context.thread, named_tools):
            withheld.setdefault(registration.name, rule)
        elif tool := registration.factory(context):
            level, effect = context.agent.level, registration.effect
            what = gate(level, effect, is_approved=registration.is_approved, asks_first=registration.asks_first)
            yield registration, replace(tool, effect=effect, gate=what)


def withholding_rule(registration: ToolRegistration, agent: Agent, thread: Thread, named_tools: frozenset[str]) -> str:
    """The reason why the agent does not have the tool in the thread, after the tool's name; empty when it does."""
    if registration.min_level > agent.level:
        return f"which agents have from L{registration.min_level} on"
    if gate(agent.level, registration.effect, is_approved=registration.is_approved) == "refused":
        return gate_refusal(agent.level, registration.effect)
    if named_tools and registration.name not in named_tools:
        return "which its SOUL does not list"
    return "" if registration.is_allowed_in(thread) else tool_refusal(thread.channel)


def _offered_spec(tool: Tool) -> ToolSpec:
    return tool.spec if tool.is_remote else compact_spec(tool.spec)


def _clean_outcome(call: ToolCallRequest, outcome: ToolOutcome) -> ToolOutcome:
    if outcome.decision == Decision.REFUSED:
        log.warning("tool_call_refused", tool=call.name[:100])  # why may quote; the call's row keeps it
    result = truncate_middle(mask_secrets(clean_text(outcome.result)), MAX_RESULT_TOKENS, _COUNTER, _CUT_MARKER)
    return replace(outcome, result=result or "(empty)")


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


def tools_named_by_soul(agent: Agent) -> frozenset[str]:
    """Tools of ours that the SOUL lists. A SOUL that names none of them restricts nothing."""
    content = agent.soul.content if agent.soul else {}
    names = content.get("capabilities", {}).get("tools", ())
    return frozenset(str(name).strip().lower().replace(" ", "_") for name in names) & {tool.name for tool in TOOLS}


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


def _read_arguments(tool: Tool, call: ToolCallRequest) -> dict[str, Any] | Problem:
    """The arguments, held against the schema; or what is wrong with them."""
    try:
        arguments = _parse_arguments(call.arguments, tool.spec.parameters)
        if not tool.validates_arguments:
            _check_arguments(arguments, tool.spec.parameters)
    except Problem as problem:
        return problem
    return arguments


def too_long_arguments(arguments: str) -> str:
    """What is said of them, in place of reading them."""
    return f"The arguments have {len(arguments):,} characters; at most {MAX_ARGUMENT_CHARS:,} can be read."


def _parse_arguments(text: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments as an object. Raises Problem with a sentence that says what was expected."""
    if len(text) > MAX_ARGUMENT_CHARS:
        raise Problem(too_long_arguments(text))
    try:
        arguments = read_arguments(text, schema)
    except UnreadableJson as error:
        raise Problem(f"The arguments are not valid JSON ({error}). {_expected_text(schema)}") from None
    if not isinstance(arguments, dict):
        raise Problem(f"The arguments must be a JSON object. {_expected_text(schema)}")
    return {clean_text(name): _sanitize(value) for name, value in arguments.items()}


def _check_arguments(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> None:
    properties: Mapping[str, Any] = schema.get("properties", {})
    missing_names = [name for name in schema.get("required", ()) if name not in arguments]
    if missing_names:
        raise Problem(f"{', '.join(missing_names)} is missing. {_expected_text(schema)}")
    unknown = [name for name in arguments if name not in properties]
    if unknown:
        raise Problem(f"There is no argument {', '.join(unknown)[:200]}. {_expected_text(schema)}")
    for name, value in arguments.items():
        _check_value(name, value, properties[name])


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
