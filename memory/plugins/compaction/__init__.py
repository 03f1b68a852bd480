"""Compaction jobs: request one, execute it, recover those that a dead worker left behind, resume after a pause."""

from memory.plugins.compaction.executor import compaction_finished, execute_compaction, recover_compactions
from memory.plugins.compaction.requests import (
    MANUAL_TRIGGERS,
    compaction_denied_reason,
    erase_focus,
    find_pause,
    request_compaction,
    request_compaction_if_due,
    request_rebuild,
    resume_compaction,
)

__all__ = [
    "MANUAL_TRIGGERS",
    "compaction_denied_reason",
    "compaction_finished",
    "erase_focus",
    "execute_compaction",
    "find_pause",
    "recover_compactions",
    "request_compaction",
    "request_compaction_if_due",
    "request_rebuild",
    "resume_compaction",
]
