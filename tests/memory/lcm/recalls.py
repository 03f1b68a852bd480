"""Assembling a conversation, for tests."""

from agents.models import Agent
from memory.providers.base import FRESH_TAIL, Entry, Session
from memory.providers.lcm.assembling import assemble
from openvibe.chat.models import Message, Thread
from tests.memory.lcm.rows import told

BUDGET = 15_000


def recalled(session: Session, budget: int = BUDGET, tail: int = FRESH_TAIL, **config: object) -> list[Entry]:
    return assemble(session, budget, tail, config)


def places(entries: list[Entry]) -> list[int]:
    return [entry.ordinal for entry in entries]


def pair(thread: Thread, agent: Agent, result: str = "42", call_id: str = "c1") -> tuple[Message, Message]:
    (call,) = told(thread, agent.participant, "look it up", kind="tool_call", call_id=call_id)
    (answer,) = told(thread, agent.participant, result, kind="tool_result", call_id=call_id)
    return call, answer
