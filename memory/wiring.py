"""What memory plugs into chat, and where other apps plug into memory: registers, signals, jobs for its workers."""

from memory import quotes
from memory.blocks.services import notes_cleared
from memory.episodes.queries import feedback_by_message, feedback_givers
from memory.episodes.session_review import AGENT_CLIENT, REVIEWER_AGENTS
from memory.plugins.compaction import erase_focus
from memory.plugins.lcm.correction import forget_quoting_summaries
from memory.plugins.tasks import ask_compaction, enqueue_compaction_check_on_commit
from memory.plugins.web import CACHE_RATES
from memory.work.handoff import ACTIONS, HANDOFF_SOURCES, INSTRUCTIONS, RESOURCES, HandoffLine
from memory.work.services import approval_decided
from openvibe.chat.wiring import MESSAGE_DECORATORS, PERSONAL_MESSAGE_VIEWS, TEXT_ERASERS, TextEraser

__all__ = [
    "ACTIONS",
    "AGENT_CLIENT",
    "CACHE_RATES",
    "HANDOFF_SOURCES",
    "INSTRUCTIONS",
    "RESOURCES",
    "REVIEWER_AGENTS",
    "HandoffLine",
    "approval_decided",
    "ask_compaction",
    "enqueue_compaction_check_on_commit",
    "notes_cleared",
    "wire",
]


def wire() -> None:
    MESSAGE_DECORATORS.add(feedback_by_message)
    PERSONAL_MESSAGE_VIEWS.add(feedback_givers)
    TEXT_ERASERS.add(TextEraser("focus of compactions", erase_focus))
    TEXT_ERASERS.add(TextEraser("summaries", forget_quoting_summaries))
    quotes.wire()
