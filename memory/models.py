"""Memory's models, re-exported from its four rooms (work, episodes, blocks, plugins): where Django and the other
apps find them."""

from memory.blocks.models import Block, CarriedVersion, ProfileNote
from memory.blocks.values import BLOCK_TOKEN_LIMIT, LABEL_PATTERN, PROFILE_TOKEN_LIMIT
from memory.episodes.models import Episode, Feedback, Proposal
from memory.plugins.models import DEFAULT_PLUGIN, Compaction, MemoryPlugin, ReviewMark, SessionInfo
from memory.work.models import Approval, Handoff, ProgressEntry, WorkItem

__all__ = [
    "BLOCK_TOKEN_LIMIT",
    "DEFAULT_PLUGIN",
    "LABEL_PATTERN",
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
