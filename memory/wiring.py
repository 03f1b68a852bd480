"""What memory plugs into chat, and the registers it owns for agents to fill."""

from memory.episodes.queries import feedback_by_message
from memory.episodes.session_review import AGENT_CLIENT, REVIEWER_AGENTS
from memory.work.handoff import HANDOFF_SOURCES
from openvibe.chat.wiring import MESSAGE_DECORATORS

__all__ = ["AGENT_CLIENT", "HANDOFF_SOURCES", "REVIEWER_AGENTS", "wire"]


def wire() -> None:
    MESSAGE_DECORATORS.add(feedback_by_message)
