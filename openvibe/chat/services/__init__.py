"""Verbs of conversations, one file per noun."""

from openvibe.chat.importing.readers import ImportedLine, ImportedThread
from openvibe.chat.services.channels import (
    add_to_channel,
    archive_channel,
    audit_membership,
    create_channel,
    remove_from_channel,
    update_channel,
)
from openvibe.chat.services.dives import discard_dive, publish_dive, request_draft, start_dive
from openvibe.chat.services.erasure import ERASED_TEXT, erase_quote, erase_texts, keep_quote
from openvibe.chat.services.importing import clean_speaker_name, get_or_create_speaker, import_thread
from openvibe.chat.services.instructions import set_instructions
from openvibe.chat.services.messages import (
    clean_message_body,
    create_reply,
    create_system_message,
    delete_message,
    finish_reply,
    post_message,
    update_message,
)
from openvibe.chat.services.permissions import check_dive_active, check_not_archived, is_archived
from openvibe.chat.services.threads import (
    create_thread,
    mark_read,
    mark_unread_from,
    save_draft,
    set_thread_access,
    set_thread_followers,
    update_thread,
)

__all__ = [
    "ERASED_TEXT",
    "ImportedLine",
    "ImportedThread",
    "add_to_channel",
    "archive_channel",
    "audit_membership",
    "check_dive_active",
    "check_not_archived",
    "clean_message_body",
    "clean_speaker_name",
    "create_channel",
    "create_reply",
    "create_system_message",
    "create_thread",
    "delete_message",
    "discard_dive",
    "erase_quote",
    "erase_texts",
    "finish_reply",
    "get_or_create_speaker",
    "import_thread",
    "is_archived",
    "keep_quote",
    "mark_read",
    "mark_unread_from",
    "post_message",
    "publish_dive",
    "remove_from_channel",
    "request_draft",
    "save_draft",
    "set_instructions",
    "set_thread_access",
    "set_thread_followers",
    "start_dive",
    "update_channel",
    "update_message",
    "update_thread",
]
