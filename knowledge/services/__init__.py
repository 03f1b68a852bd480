"""Verbs of knowledge. Every one that changes an entry writes exactly one revision of it."""

from knowledge.services.adding import AlreadyPinned, add_entry, pin_result, suggest_entry, visibility_from
from knowledge.services.changing import change_owner, edit_entry, renew_entry
from knowledge.services.deciding import accept_entry, reject_entry, settle_contradiction, supersede_entry
from knowledge.services.notices import see_notices
from knowledge.services.standing import archive_entry, flag_entry, restore_entry
from knowledge.services.worded import KEEP

__all__ = [
    "KEEP",
    "AlreadyPinned",
    "accept_entry",
    "add_entry",
    "archive_entry",
    "change_owner",
    "edit_entry",
    "flag_entry",
    "pin_result",
    "reject_entry",
    "renew_entry",
    "restore_entry",
    "see_notices",
    "settle_contradiction",
    "suggest_entry",
    "supersede_entry",
    "visibility_from",
]
