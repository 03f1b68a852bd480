"""Rooms, conversations, what was said, and what each reader has seen."""

from openvibe.chat.models.access_query import AccessQuery, access_by
from openvibe.chat.models.attachment import (
    EXTRACT_TOKENS,
    MAX_ATTACHMENT_BYTES,
    MAX_ATTACHMENT_NAME,
    MAX_ATTACHMENTS,
    MAX_STORED_BYTES,
    PAGE_BREAK,
    Attachment,
    StoredFile,
)
from openvibe.chat.models.channel import Channel, ChannelMembership
from openvibe.chat.models.conversation_import import IMPORTS, ConversationImport, ImportNotesSeen, Origin
from openvibe.chat.models.dive import MAX_ACTIVE_DIVES, Dive, DiveResult
from openvibe.chat.models.erasure import Erasure, Quote
from openvibe.chat.models.image import (
    MAX_DESCRIPTION,
    MAX_IMAGE_BYTES,
    MAX_IMAGE_PIXELS,
    MAX_IMAGE_SIDE,
    MAX_THUMBNAIL_SIDE,
    MAX_UPLOADED_IMAGE_BYTES,
    Image,
)
from openvibe.chat.models.message import Mention, Message, MessageRevision, MessageToEmbed, MessageVector
from openvibe.chat.models.notification import MailedMention, NotificationPreference
from openvibe.chat.models.participants import (
    agents_with_access,
    members_with_access,
    participants_known_to,
    participants_nameable_by,
)
from openvibe.chat.models.push import (
    MAX_PUSH_ENDPOINT,
    MAX_PUSH_SUBSCRIPTIONS,
    PushDelivery,
    PushKey,
    PushPosition,
    PushSubscription,
)
from openvibe.chat.models.reaction import MAX_EMOJI_CODE_POINTS, MAX_EMOJI_OF_MESSAGE, Reaction
from openvibe.chat.models.saved_message import SavedMessage
from openvibe.chat.models.sidebar import MAX_FAVOURITES, Favourite, SidebarOrder, SidebarSection, SidebarSettings
from openvibe.chat.models.thread import MAX_PINNED_THREADS, Draft, ReadMarker, Thread
from openvibe.chat.models.visibility import (
    Visibility,
    is_channel_readable,
    load_visibility,
    open_to_agent,
    reread_visibility,
    sees_channel,
    sees_thread,
    visibility_of,
    visible_threads,
)

__all__ = [
    "EXTRACT_TOKENS",
    "IMPORTS",
    "MAX_ACTIVE_DIVES",
    "MAX_ATTACHMENTS",
    "MAX_ATTACHMENT_BYTES",
    "MAX_ATTACHMENT_NAME",
    "MAX_DESCRIPTION",
    "MAX_EMOJI_CODE_POINTS",
    "MAX_EMOJI_OF_MESSAGE",
    "MAX_FAVOURITES",
    "MAX_IMAGE_BYTES",
    "MAX_IMAGE_PIXELS",
    "MAX_IMAGE_SIDE",
    "MAX_PINNED_THREADS",
    "MAX_PUSH_ENDPOINT",
    "MAX_PUSH_SUBSCRIPTIONS",
    "MAX_STORED_BYTES",
    "MAX_THUMBNAIL_SIDE",
    "MAX_UPLOADED_IMAGE_BYTES",
    "PAGE_BREAK",
    "AccessQuery",
    "Attachment",
    "Channel",
    "ChannelMembership",
    "ConversationImport",
    "Dive",
    "DiveResult",
    "Draft",
    "Erasure",
    "Favourite",
    "Image",
    "ImportNotesSeen",
    "MailedMention",
    "Mention",
    "Message",
    "MessageRevision",
    "MessageToEmbed",
    "MessageVector",
    "NotificationPreference",
    "Origin",
    "PushDelivery",
    "PushKey",
    "PushPosition",
    "PushSubscription",
    "Quote",
    "Reaction",
    "ReadMarker",
    "SavedMessage",
    "SidebarOrder",
    "SidebarSection",
    "SidebarSettings",
    "StoredFile",
    "Thread",
    "Visibility",
    "access_by",
    "agents_with_access",
    "is_channel_readable",
    "load_visibility",
    "members_with_access",
    "open_to_agent",
    "participants_known_to",
    "participants_nameable_by",
    "reread_visibility",
    "sees_channel",
    "sees_thread",
    "visibility_of",
    "visible_threads",
]
