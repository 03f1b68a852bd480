"""Memory's models, re-exported from its four rooms (work, episodes, blocks, plugins): where Django and the other
apps find them."""

from memory.blocks.models import Block, CarriedVersion, ProfileNote
from memory.episodes.models import Episode, Feedback, Proposal
from memory.plugins.models import DEFAULT_PLUGIN, Compaction, MemoryPlugin, SessionInfo
from memory.work.models import Approval, Handoff, ProgressEntry, WorkItem

__all__ = [
    "DEFAULT_PLUGIN",
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
    "SessionInfo",
    "WorkItem",
]
