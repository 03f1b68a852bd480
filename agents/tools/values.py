"""What a tool is, the context it is called in, and the outcome of a call."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from agents.models import Agent, Run, ToolCall
from memory.models import Approval
from openvibe.chat.models import Thread
from openvibe.llm.values import ToolSpec
from openvibe.workspaces.access import Access

Decision = ToolCall.Decision


@dataclass(frozen=True)
class ToolContext:
    """Who calls a tool, and where. `run` is None where nothing will be called, as in a preview.

    `block_stamps` is kept for the whole run: the stamps of the context blocks as the agent read them.
    """

    agent: Agent
    thread: Thread
    access: Access
    run: Run | None = None
    block_stamps: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ToolOutcome:
    """What came of a call: the text the model reads, and what was decided. `why` is for people.

    `approval` is what the run has to wait for, when it has to.
    """

    result: str
    decision: Decision = Decision.ALLOWED
    why: str = ""
    approval: Approval | None = None


class Tool(Protocol):
    """A tool that an agent may call."""

    @property
    def spec(self) -> ToolSpec:
        """Name, description and JSON schema. Every prompt pays for them: keep them short."""

    @property
    def validates_arguments(self) -> bool:
        """Whether `run` holds the arguments against the schema itself; else that was done before."""

    def run(self, arguments: dict[str, Any]) -> str | ToolOutcome:
        """Execute a call; returns what the model reads.

        Raises Problem for what cannot be done: the model is told its sentence.
        """


@dataclass(frozen=True)
class FunctionTool:
    """A tool made of its definition and a function. `validates_arguments`: it holds arguments against the schema
    itself."""

    spec: ToolSpec
    function: Callable[[dict[str, Any]], str | ToolOutcome]
    validates_arguments: bool = False

    def run(self, arguments: dict[str, Any]) -> str | ToolOutcome:
        return self.function(arguments)


ToolFactory = Callable[[ToolContext], Tool | None]
"""Makes the tool for a context; None where the agent does not have it."""
