"""Verbs of conversations, one file per noun."""

from openvibe.chat.services.channels import (
    add_to_channel,
    archive_channel,
    create_channel,
    edit_channel,
    remove_from_channel,
)
from openvibe.chat.services.dives import ask_for_draft, discard_dive, publish_dive, start_dive
from openvibe.chat.services.messages import (
    delete_message,
    edit_message,
    finish_reply,
    post_message,
    write_reply,
)
from openvibe.chat.services.reading import mark_read, mark_unread_from, save_draft
from openvibe.chat.services.threads import create_thread, edit_thread, set_thread_access, set_thread_followers

__all__ = [
    "add_to_channel",
    "archive_channel",
    "ask_for_draft",
    "create_channel",
    "create_thread",
    "delete_message",
    "discard_dive",
    "edit_channel",
    "edit_message",
    "edit_thread",
    "finish_reply",
    "mark_read",
    "mark_unread_from",
    "post_message",
    "publish_dive",
    "remove_from_channel",
    "save_draft",
    "set_thread_access",
    "set_thread_followers",
    "start_dive",
    "write_reply",
]
