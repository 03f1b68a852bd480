"""Memory in the admin: which plugin recalls, feedback and episodes."""

from memory.admin.plugins import MemoryPluginAdmin
from memory.admin.remembered import EpisodeAdmin, FeedbackAdmin

__all__ = ["EpisodeAdmin", "FeedbackAdmin", "MemoryPluginAdmin"]
