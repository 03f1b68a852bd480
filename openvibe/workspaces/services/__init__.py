"""Verbs that write: workspaces, accounts' addresses, members and invitations, instructions and their snippets,
sessions; meters background calls."""

from openvibe.workspaces.models import MAX_INSTRUCTION_TOKENS
from openvibe.workspaces.services.addresses import (
    ACCOUNT_CLEARERS,
    complete_password_reset,
    confirm_own_address,
    has_proven_address,
    prove_address,
)
from openvibe.workspaces.services.instructions import (
    INSTRUCTION_TEXTS,
    MAX_SNIPPETS,
    WORKSPACE_CHECK,
    InstructionText,
    check_instructions_version,
    clean_instructions,
    create_snippet,
    delete_snippet,
    update_snippet,
)
from openvibe.workspaces.services.invitations import (
    accept_invitation,
    access_invitation,
    create_invitation,
    revoke_invitation,
)
from openvibe.workspaces.services.members import (
    add_member,
    check_handle,
    check_name,
    end_first_steps,
    generate_handle,
    note_opened_context,
    pause_notifications,
    remove_member,
    remove_picture,
    restart_first_steps,
    save_picture,
    set_quiet_hours,
    update_member_role,
    update_profile,
)
from openvibe.workspaces.services.presence import NOTE_SECONDS, note_presence
from openvibe.workspaces.services.sessions import describe_browser, end_sessions
from openvibe.workspaces.services.spending import TOKENS_LEFT, meter_client
from openvibe.workspaces.services.workspace import BUDGET_CHECK, create_workspace, update_workspace

__all__ = [
    "ACCOUNT_CLEARERS",
    "BUDGET_CHECK",
    "INSTRUCTION_TEXTS",
    "MAX_INSTRUCTION_TOKENS",
    "MAX_SNIPPETS",
    "NOTE_SECONDS",
    "TOKENS_LEFT",
    "WORKSPACE_CHECK",
    "InstructionText",
    "accept_invitation",
    "access_invitation",
    "add_member",
    "check_handle",
    "check_instructions_version",
    "check_name",
    "clean_instructions",
    "complete_password_reset",
    "confirm_own_address",
    "create_invitation",
    "create_snippet",
    "create_workspace",
    "delete_snippet",
    "describe_browser",
    "end_first_steps",
    "end_sessions",
    "generate_handle",
    "has_proven_address",
    "meter_client",
    "note_opened_context",
    "note_presence",
    "pause_notifications",
    "prove_address",
    "remove_member",
    "remove_picture",
    "restart_first_steps",
    "revoke_invitation",
    "save_picture",
    "set_quiet_hours",
    "update_member_role",
    "update_profile",
    "update_snippet",
    "update_workspace",
]
