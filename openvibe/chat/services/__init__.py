"""Verbs of conversations, one file per noun."""

from openvibe.chat.images import NewImage, make_image
from openvibe.chat.importing.readers import ImportedLine, ImportedThread
from openvibe.chat.services.channels import (
    add_to_channel,
    archive_channel,
    audit_membership,
    create_channel,
    remove_from_channel,
    revoke_outsiders_tokens,
    update_channel,
)
from openvibe.chat.services.conversation_import import clean_speaker_name, get_or_create_speaker, import_thread
from openvibe.chat.services.direct_messages import open_direct_messages
from openvibe.chat.services.dives import discard_dive, publish_dive, request_draft, start_dive
from openvibe.chat.services.erasure import ERASED_TEXT, erase_quote, erase_texts, keep_quote
from openvibe.chat.services.instructions import set_instructions
from openvibe.chat.services.messages import (
    clean_message_body,
    create_reply,
    create_system_message,
    delete_message,
    describe_image,
    finish_reply,
    post_message,
    replace_replies,
    restore_reply,
    update_message,
)
from openvibe.chat.services.notifications import (
    check_is_person,
    set_default_notification_level,
    set_notification_level,
    update_notification_settings,
)
from openvibe.chat.services.permissions import check_dive_active, check_not_archived, is_archived
from openvibe.chat.services.reactions import OFFERED_EMOJI, add_reaction, remove_reaction
from openvibe.chat.services.saved_messages import check_saves, save_message, unsave_message
from openvibe.chat.services.stored_files import (
    FileUnavailable,
    file_storage,
    read_original,
    read_stored_file,
    release_files_of_workspace,
    store_files,
)
from openvibe.chat.services.threads import (
    DraftChanged,
    audit_thread_export,
    create_thread,
    mark_all_read,
    mark_read,
    mark_unread_from,
    pin_thread,
    save_draft,
    set_thread_access,
    set_thread_followers,
    update_thread,
)

__all__ = [
    "ERASED_TEXT",
    "OFFERED_EMOJI",
    "DraftChanged",
    "FileUnavailable",
    "ImportedLine",
    "ImportedThread",
    "NewImage",
    "add_reaction",
    "add_to_channel",
    "archive_channel",
    "audit_membership",
    "audit_thread_export",
    "check_dive_active",
    "check_is_person",
    "check_not_archived",
    "check_saves",
    "clean_message_body",
    "clean_speaker_name",
    "create_channel",
    "create_reply",
    "create_system_message",
    "create_thread",
    "delete_message",
    "describe_image",
    "discard_dive",
    "erase_quote",
    "erase_texts",
    "file_storage",
    "finish_reply",
    "get_or_create_speaker",
    "import_thread",
    "is_archived",
    "keep_quote",
    "make_image",
    "mark_all_read",
    "mark_read",
    "mark_unread_from",
    "open_direct_messages",
    "pin_thread",
    "post_message",
    "publish_dive",
    "read_original",
    "read_stored_file",
    "release_files_of_workspace",
    "remove_from_channel",
    "remove_reaction",
    "replace_replies",
    "request_draft",
    "restore_reply",
    "revoke_outsiders_tokens",
    "save_draft",
    "save_message",
    "set_default_notification_level",
    "set_instructions",
    "set_notification_level",
    "set_thread_access",
    "set_thread_followers",
    "start_dive",
    "store_files",
    "unsave_message",
    "update_channel",
    "update_message",
    "update_notification_settings",
    "update_thread",
]
