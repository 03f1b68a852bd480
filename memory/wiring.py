"""Where other apps plug into memory: the signals it sends, the lines of a handoff, compaction jobs for its workers."""

from memory.plugins.tasks import enqueue_compaction_on_commit
from memory.work.handoff import ACTIONS, INSTRUCTIONS, RESOURCES, HandoffLine
from memory.work.services import approval_decided

__all__ = [
    "ACTIONS",
    "INSTRUCTIONS",
    "RESOURCES",
    "HandoffLine",
    "approval_decided",
    "enqueue_compaction_on_commit",
]
