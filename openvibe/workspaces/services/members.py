"""Verbs of members: their handle, their role, their profile, and the end of their access."""

from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.utils import timezone
from django.utils.text import slugify

from openvibe.api.models import Token
from openvibe.base.models import emit
from openvibe.base.problems import Conflict, Problem, Refused
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Invitation, Member, Participant, User, Workspace, valid_handle

RESERVED_HANDLES = frozenset({"all", "channel", "everyone", "here", "system", "openvibe"})
HANDLE_LENGTH = 32


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
        member.participant.channel_memberships.all().delete()  # the rooms of before are not given by coming back
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
    """End somebody's access at once, and what they could come back with: tokens and open invitations they made.

    What they said stays, under their name.
    """
    if by.participant_id != member.participant_id:
        _outranks(by, member)
    _keeps_an_owner(member)
    member.removed_at = timezone.now()
    member.save(update_fields=["removed_at"])
    Participant.objects.filter(pk=member.participant_id).update(is_active=False)
    Token.objects.filter(participant=member.participant_id, revoked_at=None).update(revoked_at=member.removed_at)
    _take_back_invitations(member)
    emit("members_changed", workspace_id=member.workspace_id)
    emit("access_changed", workspace_id=member.workspace_id, participant_id=member.participant_id)
    return member


def _take_back_invitations(made_by: Member) -> None:
    made = Invitation.objects.filter(created_by=made_by.participant_id, revoked_at=None)
    made.update(revoked_at=timezone.now())


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
    if role not in (Member.Role.OWNER, Member.Role.ADMIN):
        _take_back_invitations(member)
    emit("members_changed", workspace_id=member.workspace_id)
    emit("access_changed", workspace_id=member.workspace_id, participant_id=member.participant_id)
    return member


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
