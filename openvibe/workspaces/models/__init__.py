"""People's accounts, workspaces, and who speaks in them."""

from openvibe.workspaces.models.account import DoNotDisturb, User, UserManager
from openvibe.workspaces.models.participant import (
    ASSISTANT_KINDS,
    IMPORTED_KINDS,
    MAX_PICTURE_BYTES,
    PICTURE_PIXELS,
    PRESENCE_SECONDS,
    DigestFrequency,
    Invitation,
    Member,
    NotificationLevel,
    Participant,
    Picture,
    Presence,
    handle_validator,
)
from openvibe.workspaces.models.workspace import (
    MAX_INSTRUCTION_TOKENS,
    Snippet,
    Spending,
    Workspace,
    snippet_name_validator,
)

__all__ = [
    "ASSISTANT_KINDS",
    "IMPORTED_KINDS",
    "MAX_INSTRUCTION_TOKENS",
    "MAX_PICTURE_BYTES",
    "PICTURE_PIXELS",
    "PRESENCE_SECONDS",
    "DigestFrequency",
    "DoNotDisturb",
    "Invitation",
    "Member",
    "NotificationLevel",
    "Participant",
    "Picture",
    "Presence",
    "Snippet",
    "Spending",
    "User",
    "UserManager",
    "Workspace",
    "handle_validator",
    "snippet_name_validator",
]
