"""What a tool is, the context it is called in, and the outcome of a call."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

from agents.agent.audience import CallSource
from agents.agent.models import Agent, Run, ToolCall, ToolSource
from agents.agent.trust import Effect, Gate
from memory.models import Approval
from memory.queries import MemoryMode, memory_mode
from openvibe.chat.models import Thread
from openvibe.engines.llm.values import ToolSpec
from openvibe.workspaces.access import Access

Decision = ToolCall.Decision


@dataclass(frozen=True)
class ToolContext:
    """The caller of a tool, and the place. `run` is None where nothing will be called, as in a preview.

    `block_stamps` is kept for the whole run: the stamps of the context blocks as the agent read them.
    """

    agent: Agent
    thread: Thread
    access: Access
    run: Run | None = None
    block_stamps: dict[str, str] = field(default_factory=dict)

    @cached_property
    def memory_mode(self) -> MemoryMode:
        """What memory does with the thread, read once for all tools of the run."""
        return memory_mode(self.thread)


@dataclass(frozen=True)
class ToolOutcome:
    """What came of a call: the text the model reads, and what was decided. `why` is for people.

    `approval` is what the run has to wait for, when it has to. `sources`: what the call read or wrote, beside what its
    arguments tell of by themselves (`Tool.sources`). `trust_refusal` names, in words of ours, a call that was not
    executed because the agent is not trusted with it; empty where something else was wrong.
    """

    result: str
    decision: Decision = Decision.ALLOWED
    why: str = ""
    approval: Approval | None = None
    sources: tuple[CallSource, ...] = ()
    trust_refusal: str = ""


Sources = Callable[[Mapping[str, Any] | None], tuple[CallSource, ...]]
"""Tells what a call with these arguments is about (`Tool.sources`)."""


@dataclass(frozen=True)
class Tool:
    """A tool that an agent may call. Every prompt pays for its `spec`: keep it short.

    `run` takes the arguments and returns what the model reads. It raises Problem for what cannot be done: the model is
    told its sentence. `validates_arguments`: it holds them against the schema itself; else that was done before.
    `sources`: what a call with these arguments (None: they could not be read) tells of, whatever comes of it. Who may
    see all of it may see the call; of a tool that says nothing here or in its outcomes, nobody.

    `is_remote`: it works outside the database and may take long. No transaction is held while it runs, its call is on
    record before, and its definition is offered as it stands. It raises Problem only for what was not sent: whatever
    came of a call that was, even that nobody knows, is its result.
    `effect` and `gate` are the toolbox's to set.
    """

    spec: ToolSpec
    run: Callable[[dict[str, Any]], str | ToolOutcome]
    validates_arguments: bool = False
    sources: Sources = lambda arguments: ()
    is_remote: bool = False
    effect: Effect = "own_memory"
    gate: Gate = "allowed"


ToolFactory = Callable[[ToolContext], Tool | None]
"""Makes the tool for a context; None where the agent does not have it."""


@dataclass(frozen=True)
class ToolRegistration:
    """A tool of a list: what makes it, what it does, and who has it.

    `place_names`: by which a channel may name it as allowed there; its name where that is empty.
    `min_level`: from which trust level on. `is_approved`: an admin approved it for this agent; `asks_first`: it is
    listed as one whose every call waits for a person (`agents.agent.trust.gate`).
    """

    name: str
    factory: ToolFactory
    effect: Effect
    min_level: int = 1
    is_approved: bool = False
    asks_first: bool = False
    place_names: tuple[str, ...] = ()

    def is_allowed_in(self, thread: Thread) -> bool:
        """Whether the thread's channel lets agents use it, as far as they may."""
        return thread.channel.allows_tool(*(self.place_names or (self.name,)))


STRING_SCHEMA = {"type": "string"}


def tool_spec(
    name: str, description: str, *, required: Mapping[str, Any], optional: Mapping[str, Any] | None = None
) -> ToolSpec:
    """The definition of a tool, from the JSON schemas of its arguments by their names."""
    properties = {**required, **(optional or {})}
    return ToolSpec(name, description, {"type": "object", "properties": properties, "required": [*required]})


def tool_factory(spec: ToolSpec, run: Callable[[ToolContext, dict[str, Any]], str | ToolOutcome]) -> ToolFactory:
    """A factory for a tool that every agent has, with the same definition, and whose calls tell of the thread.

    What `run` reads or writes besides stands in its outcomes.
    """
    return lambda context: Tool(spec, partial(run, context), sources=thread_source(context.thread))


def thread_source(thread: Thread) -> Sources:
    """The sources of a tool whose calls tell of nothing but the thread they are made in."""
    return lambda arguments: (CallSource(ToolSource.Kind.THREAD, thread.pk),)
