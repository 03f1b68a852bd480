"""Memory's services, re-exported from its rooms: the verbs that other apps call."""

from memory.blocks.services import check_thread_is_public
from memory.episodes.services import apply_to_soul, record_failure, record_trust_check, reopen_applied_since
from memory.plugins.compaction import request_compaction
from memory.plugins.sessions import check_profile_update
from memory.work.approvals import decide_approval, lapse_approval, lock_approval, request_approval
from memory.work.services import close_work_item, create_work_item, emit_work_changed, lock_thread, log_progress

__all__ = [
    "apply_to_soul",
    "check_profile_update",
    "check_thread_is_public",
    "close_work_item",
    "create_work_item",
    "decide_approval",
    "emit_work_changed",
    "lapse_approval",
    "lock_approval",
    "lock_thread",
    "log_progress",
    "record_failure",
    "record_trust_check",
    "reopen_applied_since",
    "request_approval",
    "request_compaction",
]
