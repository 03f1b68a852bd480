"""Verbs of people and workspaces, one file per noun."""

from openvibe.workspaces.services.access import access_of_member, access_of_participant, member_of
from openvibe.workspaces.services.invitations import accept_invitation, invite, open_invitation, revoke_invitation
from openvibe.workspaces.services.members import (
    add_member,
    change_role,
    check_handle,
    edit_profile,
    free_handle,
    remove_member,
)
from openvibe.workspaces.services.workspaces import INSTRUCTION_TOKENS, create_workspace, edit_workspace

__all__ = [
    "INSTRUCTION_TOKENS",
    "accept_invitation",
    "access_of_member",
    "access_of_participant",
    "add_member",
    "change_role",
    "check_handle",
    "create_workspace",
    "edit_profile",
    "edit_workspace",
    "free_handle",
    "invite",
    "member_of",
    "open_invitation",
    "remove_member",
    "revoke_invitation",
]
