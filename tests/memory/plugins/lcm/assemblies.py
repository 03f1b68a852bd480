"""Assembling a conversation, for tests."""

from agents.models import Agent
from memory.plugins.base import FRESH_TAIL, ContextEntry, Session
from memory.plugins.lcm.assembly import assemble_entries
from openvibe.chat.models import Message, Thread
from tests.memory.plugins.lcm.factories import told

BUDGET = 15_000


def recalled(session: Session, budget: int = BUDGET, tail: int = FRESH_TAIL, **config: object) -> list[ContextEntry]:
    return assemble_entries(session, budget, tail, config)


def places(entries: list[ContextEntry]) -> list[int]:
    return [entry.ordinal for entry in entries]


def pair(thread: Thread, agent: Agent, result: str = "42", call_id: str = "c1") -> tuple[Message, Message]:
    (call,) = told(thread, agent.participant, "look it up", kind="tool_call", call_id=call_id)
    (answer,) = told(thread, agent.participant, result, kind="tool_result", call_id=call_id)
    return call, answer
