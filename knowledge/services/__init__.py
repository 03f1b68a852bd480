"""Verbs of knowledge. Every one that changes an entry writes exactly one revision of it."""

from knowledge.services.create import (
    AlreadyPinned,
    create_entry,
    default_visibility,
    pin_result,
    suggest_entry,
    suggest_result,
)
from knowledge.services.review import (
    accept_entry,
    archive_entry,
    entry_erased,
    erase_entry,
    flag_entry,
    may_erase,
    reject_entry,
    restore_entry,
    settle_contradiction,
    supersede_entry,
)
from knowledge.services.revisions import mark_notices_seen
from knowledge.services.undo import is_undoable, undo_decision
from knowledge.services.update import change_owner, renew_entry, update_entry
from knowledge.services.validation import KEEP, may_manage

__all__ = [
    "KEEP",
    "AlreadyPinned",
    "accept_entry",
    "archive_entry",
    "change_owner",
    "create_entry",
    "default_visibility",
    "entry_erased",
    "erase_entry",
    "flag_entry",
    "is_undoable",
    "mark_notices_seen",
    "may_erase",
    "may_manage",
    "pin_result",
    "reject_entry",
    "renew_entry",
    "restore_entry",
    "settle_contradiction",
    "suggest_entry",
    "suggest_result",
    "supersede_entry",
    "undo_decision",
    "update_entry",
]
