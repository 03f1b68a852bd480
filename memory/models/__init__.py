"""What is remembered: verdicts, episodes, blocks and notes, work state, compactions, and which plugin recalls."""

from memory.models.block import (
    BLOCK_TOKEN_LIMIT,
    LABEL,
    PROFILE_TOKEN_LIMIT,
    Block,
    CarriedVersion,
    ProfileNote,
)
from memory.models.compaction import Compaction, Handoff
from memory.models.episode import Episode
from memory.models.feedback import Feedback
from memory.models.plugin import DEFAULT_PLUGIN, MemoryPlugin
from memory.models.session import Proposal, ReviewMark, SessionInfo
from memory.models.work import Approval, ProgressEntry, WorkItem

__all__ = [
    "BLOCK_TOKEN_LIMIT",
    "DEFAULT_PLUGIN",
    "LABEL",
    "PROFILE_TOKEN_LIMIT",
    "Approval",
    "Block",
    "CarriedVersion",
    "Compaction",
    "Episode",
    "Feedback",
    "Handoff",
    "MemoryPlugin",
    "ProfileNote",
    "ProgressEntry",
    "Proposal",
    "ReviewMark",
    "SessionInfo",
    "WorkItem",
]
