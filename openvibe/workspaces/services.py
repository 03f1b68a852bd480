"""Verbs of people and workspaces."""

from collections.abc import Iterable
from datetime import timedelta

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.db.models import F
from django.utils import timezone
from django.utils.module_loading import import_string
from django.utils.text import slugify

from openvibe.base.models import emit
from openvibe.base.problems import Conflict, Missing, Problem, Refused
from openvibe.llm.tokens import count
from openvibe.workspaces.access import Access, Role, access_of_role
from openvibe.workspaces.models import (
    HANDLE,
    Invitation,
    Member,
    Participant,
    User,
    Workspace,
    digest,
    valid_handle,
)

INSTRUCTION_TOKENS = 2_000
RESERVED_HANDLES = frozenset({"all", "channel", "everyone", "here", "system", "openvibe"})
HANDLE_LENGTH = 32


# --- access -------------------------------------------------------------------------------------------------
def member_of(user: User, slug: str) -> Member:
    """The user's standing membership of a workspace. Raises Missing for strangers and for unknown workspaces."""
    try:
        return Member.objects.select_related("participant", "workspace", "user").get(
            user=user, workspace__slug=slug, removed_at=None, user__is_active=True
        )
    except Member.DoesNotExist:
        raise Missing from None


def access_of_member(member: Member) -> Access:
    role: Role = member.role  # type: ignore[assignment]
    return access_of_role(workspace_id=member.workspace_id, participant_id=member.participant_id, role=role)


def access_of_participant(participant: Participant) -> Access | None:
    """What a participant may see now; None when it may see nothing any more (removed, deactivated, imported)."""
    if participant.kind == Participant.Kind.AGENT:
        access: Access | None = import_string(settings.AGENT_ACCESS)(participant)
        return access
    member = Member.objects.filter(participant=participant, removed_at=None, user__is_active=True).first()
    return access_of_member(member) if member else None


# --- workspaces and handles ---------------------------------------------------------------------------------
def free_handle(workspace: Workspace, wanted: str) -> str:
    """`wanted` made a valid handle, with a number when it is taken."""
    base = slugify(wanted).strip("-_")[:HANDLE_LENGTH] or "person"
    taken = set(
        Participant.objects.filter(workspace=workspace, handle__startswith=base[: HANDLE_LENGTH - 4]).values_list(
            "handle", flat=True
        )
    )
    handle, number = base, 1
    while handle in taken or handle in RESERVED_HANDLES:
        number += 1
        suffix = f"-{number}"
        handle = base[: HANDLE_LENGTH - len(suffix)] + suffix
    return handle


def check_handle(handle: str) -> str:
    try:
        valid_handle(handle)
    except ValidationError as error:
        raise Problem(error.messages[0], code="bad_handle", field="handle") from None
    if handle in RESERVED_HANDLES:
        raise Problem(f"@{handle} is reserved. Choose another handle.", code="bad_handle", field="handle")
    return handle


@transaction.atomic
def create_workspace(*, name: str, owner: User, slug: str = "", handle: str = "") -> Member:
    """A new workspace with its owner as the first member."""
    name = name.strip()
    if not name or "\x00" in name or len(name) > 80:
        raise Problem("Give the workspace a name of 1 to 80 characters.", code="bad_name", field="name")
    base = slugify(slug or name)[:34] or "workspace"
    unique, number = base, 1
    while Workspace.objects.filter(slug=unique).exists():
        number += 1
        unique = f"{base}-{number}"
    workspace = Workspace.objects.create(name=name, slug=unique)
    return add_member(workspace=workspace, user=owner, role=Member.Role.OWNER, handle=handle)


@transaction.atomic
def add_member(*, workspace: Workspace, user: User, role: str = Member.Role.MEMBER, handle: str = "") -> Member:
    """Make the user a member, or bring back a removed one with the new role. A standing member is a Conflict."""
    Workspace.objects.select_for_update().get(pk=workspace.pk)
    member = Member.objects.filter(workspace=workspace, user=user).select_related("participant").first()
    if member is None:
        wanted = check_handle(handle) if handle else free_handle(workspace, user.name or user.email.split("@")[0])
        try:
            with transaction.atomic():
                participant = Participant.objects.create(
                    workspace=workspace, kind=Participant.Kind.MEMBER, handle=wanted, name=user.name or wanted
                )
        except IntegrityError:
            raise Conflict(f"@{wanted} is taken in this workspace. Choose another handle.", field="handle") from None
        member = Member.objects.create(participant=participant, workspace=workspace, user=user, role=role)
    elif member.removed_at is None:
        raise Conflict("You are a member of this workspace already.")
    else:
        member.removed_at, member.role = None, role
        member.save(update_fields=["removed_at", "role"])
        Participant.objects.filter(pk=member.participant_id).update(is_active=True)
    emit("members_changed", workspace_id=workspace.pk)
    return member


def _keeps_an_owner(member: Member) -> None:
    others = Member.objects.select_for_update().filter(
        workspace_id=member.workspace_id, role=Member.Role.OWNER, removed_at=None
    )
    if member.role == Member.Role.OWNER and not others.exclude(pk=member.pk).exists():
        raise Refused("A workspace keeps at least one owner. Make somebody else an owner first.", code="last_owner")


def _outranks(by: Access, member: Member) -> None:
    if not by.administers or by.workspace_id != member.workspace_id:
        raise Refused("Only owners and admins may change members.")
    if member.role == Member.Role.OWNER and by.role != "owner":
        raise Refused("Only an owner may change an owner.")


@transaction.atomic
def remove_member(*, member: Member, by: Access) -> Member:
    """End somebody's access at once. What they said stays, under their name."""
    if by.participant_id != member.participant_id:
        _outranks(by, member)
    _keeps_an_owner(member)
    member.removed_at = timezone.now()
    member.save(update_fields=["removed_at"])
    Participant.objects.filter(pk=member.participant_id).update(is_active=False)
    emit("members_changed", workspace_id=member.workspace_id)
    emit("access_changed", workspace_id=member.workspace_id, participant_id=member.participant_id)
    return member


@transaction.atomic
def change_role(*, member: Member, role: str, by: Access) -> Member:
    """Give a member another role. Owners are made by owners only."""
    if role not in Member.Role.values:
        raise Problem("Choose owner, admin, member or guest.", code="bad_role", field="role")
    _outranks(by, member)
    if role == Member.Role.OWNER and by.role != "owner":
        raise Refused("Only an owner may make an owner.")
    if role != Member.Role.OWNER:
        _keeps_an_owner(member)
    member.role = role
    member.save(update_fields=["role"])
    emit("members_changed", workspace_id=member.workspace_id)
    emit("access_changed", workspace_id=member.workspace_id, participant_id=member.participant_id)
    return member


@transaction.atomic
def edit_workspace(*, workspace: Workspace, by: Access, name: str, description: str, instructions: str) -> Workspace:
    """Change what the workspace is called and what its agents are told about it."""
    if not by.administers or by.workspace_id != workspace.pk:
        raise Refused("Only owners and admins may change the workspace.")
    name = name.strip()
    if not name or len(name) > 80 or "\x00" in name + description + instructions:
        raise Problem("Give the workspace a name of 1 to 80 plain characters.", code="bad_name", field="name")
    if len(description) > 1000:
        raise Problem("A description has at most 1,000 characters.", code="too_long", field="description")
    if (tokens := count(instructions)) > INSTRUCTION_TOKENS:
        raise Problem(
            f"These instructions are {tokens:,} tokens; at most {INSTRUCTION_TOKENS:,} fit. Shorten them.",
            code="too_long",
            field="instructions",
        )
    workspace.name, workspace.description, workspace.instructions = name, description.strip(), instructions.strip()
    workspace.save(update_fields=["name", "description", "instructions", "updated_at"])
    emit("workspace_changed", workspace_id=workspace.pk)
    return workspace


@transaction.atomic
def edit_profile(*, member: Member, name: str, theme: str, enter_sends: bool, shortcuts: bool) -> Member:
    """Change one's own name (everywhere), theme and habits in this workspace."""
    name = " ".join(name.split())
    if not name or len(name) > 80 or "\x00" in name:
        raise Problem("Give a name of 1 to 80 characters.", code="bad_name", field="name")
    if theme not in ("system", "light", "dark"):
        raise Problem("Choose system, light or dark.", code="bad_theme", field="theme")
    member.user.name, member.user.theme = name, theme
    member.user.save(update_fields=["name", "theme"])
    Participant.objects.filter(member__user=member.user).update(name=name)
    member.enter_sends, member.shortcuts = enter_sends, shortcuts
    member.save(update_fields=["enter_sends", "shortcuts"])
    emit("members_changed", workspace_id=member.workspace_id)
    return member


# --- invitations --------------------------------------------------------------------------------------------
@transaction.atomic
def invite(
    *,
    workspace: Workspace,
    by: Access,
    role: str,
    days: int = 7,
    uses: int = 1,
    channel_ids: Iterable[int] = (),
) -> tuple[Invitation, str]:
    """An invitation and the secret of its link, which is not kept. `days` 1 to 30, `uses` 1 to 100."""
    if not by.administers or by.workspace_id != workspace.pk:
        raise Refused("Only owners and admins may invite.")
    if role not in ("admin", "member", "guest"):
        raise Problem("Invite as admin, member or guest.", code="bad_role", field="role")
    if not 1 <= days <= 30:
        raise Problem("An invitation lasts 1 to 30 days.", code="bad_days", field="days")
    if not 1 <= uses <= 100:
        raise Problem("An invitation is good for 1 to 100 people.", code="bad_uses", field="uses")
    token = Invitation.new_token()
    invitation = Invitation.objects.create(
        workspace=workspace,
        token_hash=digest(token),
        role=role,
        created_by_id=by.participant_id,
        expires_at=timezone.now() + timedelta(days=days),
        uses_left=uses,
    )
    channels = invitation.channels.model._default_manager.visible_to(by)
    invitation.channels.set(channels.filter(pk__in=list(channel_ids)))
    return invitation, token


def open_invitation(token: str) -> Invitation:
    """The invitation of a link. Raises Missing when it is unknown, expired, used up or taken back."""
    invitation = Invitation.objects.select_related("workspace").filter(token_hash=digest(token)).first()
    if invitation is None or not invitation.is_open:
        raise Missing("This invitation is not valid any more. Ask the person who sent it for a new one.")
    return invitation


@transaction.atomic
def accept_invitation(*, token: str, user: User) -> Member:
    """Join by link. Two people racing for the last place: one joins, the other is told."""
    invitation = open_invitation(token)
    member = Member.objects.filter(workspace=invitation.workspace, user=user, removed_at=None).first()
    if member is not None:
        return member
    taken = Invitation.objects.filter(
        pk=invitation.pk, uses_left__gt=0, revoked_at=None, expires_at__gt=timezone.now()
    ).update(uses_left=F("uses_left") - 1)
    if not taken:
        raise Missing("This invitation has just been used up. Ask the person who sent it for a new one.")
    member = add_member(workspace=invitation.workspace, user=user, role=invitation.role)
    for channel in invitation.channels.all():
        channel.memberships.get_or_create(participant=member.participant)
    return member


@transaction.atomic
def revoke_invitation(*, invitation: Invitation, by: Access) -> None:
    if not by.administers or by.workspace_id != invitation.workspace_id:
        raise Refused("Only owners and admins may take an invitation back.")
    Invitation.objects.filter(pk=invitation.pk, revoked_at=None).update(revoked_at=timezone.now())


__all__ = [
    "HANDLE",
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
