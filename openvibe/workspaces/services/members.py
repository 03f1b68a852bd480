"""Adds, changes and removes members: their handles, roles, own settings, hours and pictures; notes who has a
page open."""

from __future__ import annotations

from collections.abc import Collection
from datetime import MAXYEAR, datetime, time
from typing import Any

from django.core.exceptions import ValidationError
from django.core.files.uploadedfile import UploadedFile
from django.db import IntegrityError, connection, transaction
from django.db.models import Q
from django.utils import timezone
from django.utils.text import slugify

from openvibe.api.models import Token
from openvibe.base.audit import AuditAction, record_audit
from openvibe.base.events import emit
from openvibe.base.problems import Conflict, Problem, Refused
from openvibe.engines.database.time_zones import is_time_zone
from openvibe.engines.text.cleaning import MAX_HANDLE_CHARACTERS, TextRefused, clean_title
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import (
    Invitation,
    Member,
    Participant,
    Picture,
    Presence,
    User,
    Workspace,
    handle_validator,
)
from openvibe.workspaces.pictures import MAX_UPLOAD_BYTES, make_picture

RESERVED_HANDLES = frozenset({"all", "channel", "everyone", "here", "system", "openvibe"})


def generate_handle(workspace: Workspace, text: str) -> str:
    """`text` made a valid handle, with a number when it is taken."""
    base = _handle_base(text)
    similar = Participant.objects.filter(workspace=workspace, handle__startswith=base[: MAX_HANDLE_CHARACTERS - 4])
    return _free_handle(text, set(similar.values_list("handle", flat=True)))


def _handle_base(text: str) -> str:
    return slugify(text).strip("-_")[:MAX_HANDLE_CHARACTERS] or "person"


def _free_handle(text: str, taken_handles: set[str]) -> str:
    base = _handle_base(text)
    handle, number = base, 1
    while handle in taken_handles or handle in RESERVED_HANDLES:
        number += 1
        suffix = f"-{number}"
        handle = base[: MAX_HANDLE_CHARACTERS - len(suffix)] + suffix
    return handle


def check_handle(handle: str) -> str:
    try:
        handle_validator(handle)
    except ValidationError as error:
        raise Problem(error.messages[0], code="bad_handle", field="handle") from None
    if handle in RESERVED_HANDLES:
        raise Problem(f"@{handle} is reserved. Choose another handle.", code="bad_handle", field="handle")
    return handle


def check_name(name: str, message: str = "Give a name of 1 to 80 characters.") -> str:
    """The name of a workspace, person or agent as it is kept; Problem with `message` when nothing of it can be seen."""
    try:
        cleaned = clean_title(name, max_characters=max(80, len(name)))
    except TextRefused:
        cleaned = ""
    if not 1 <= len(cleaned) <= 80:
        raise Problem(message, code="bad_name", field="name")
    return cleaned


@transaction.atomic
def add_member(*, workspace: Workspace, user: User, role: str = Member.Role.MEMBER, handle: str = "") -> Member:
    """Makes the user a member, or brings back a removed one with the new role. A standing member is a Conflict."""
    Workspace.objects.select_for_update(no_key=True).get(pk=workspace.pk)
    member = Member.objects.filter(workspace=workspace, user=user).select_related("participant").first()
    if member is None:
        member = _create_member(workspace, user, role, handle or generate_handle(workspace, _display_name(user)))
    elif member.removed_at is None:
        raise Conflict("You are a member of this workspace already.")
    else:
        member.removed_at, member.role = None, role
        member.save(update_fields=["removed_at", "role"])
        Participant.objects.filter(pk=member.participant_id).update(is_active=True)
        rooms = member.participant.channel_memberships.filter(channel__first_participant=None)
        rooms.delete()  # those of before are not given by coming back; what she and another said stays theirs
    subject, after = f"@{member.participant.handle}", f"joined, as {member.role}"
    record_audit(AuditAction.MEMBER, workspace_id=workspace.pk, by=member, subject=subject, after=after)
    emit("members_changed", workspace_id=workspace.pk)
    return member


def create_owner(*, workspace: Workspace, user: User, handle: str = "") -> Member:
    """The first member of a workspace that was just made; its handle comes from the name where none is given."""
    return _create_member(workspace, user, Member.Role.OWNER, handle or _free_handle(_display_name(user), set()))


def _display_name(user: User) -> str:
    return user.name or user.email.split("@")[0]


def _create_member(workspace: Workspace, user: User, role: str, handle: str) -> Member:
    """Raises Problem for a handle that cannot be one, Conflict for one that is taken."""
    check_handle(handle)
    try:
        with transaction.atomic():
            participant = Participant.objects.create(
                workspace=workspace, kind=Participant.Kind.MEMBER, handle=handle, name=user.name or handle
            )
    except IntegrityError:
        raise Conflict(f"@{handle} is taken in this workspace. Choose another handle.", field="handle") from None
    return Member.objects.create(
        participant=participant, workspace=workspace, user=user, role=role, first_steps_since=timezone.now()
    )


def restart_first_steps(member: Member) -> None:
    """Counts as first steps only what is done from now on: what a sample was made of was nobody's doing."""
    member.first_steps_since = timezone.now()
    member.save(update_fields=["first_steps_since"])


def end_first_steps(member: Member) -> None:
    """Ends the first steps, which are shown no more: all are done, or the member does not want them."""
    member.first_steps_since = None
    member.save(update_fields=["first_steps_since"])


def note_opened_context(member: Member) -> None:
    """Somebody looked at what an agent read. Writes once."""
    if member.opened_context_at is None:
        member.opened_context_at = timezone.now()
        member.save(update_fields=["opened_context_at"])


def _check_not_last_owner(member: Member) -> None:
    owners = Member.objects.filter(workspace_id=member.workspace_id, role=Member.Role.OWNER, removed_at=None)
    locked_owners = list(owners.select_for_update().order_by("pk"))  # in one order: two who leave at once wait in turn
    if member.role == Member.Role.OWNER and not any(owner.pk != member.pk for owner in locked_owners):
        raise Refused("A workspace keeps at least one owner. Make somebody else an owner first.", code="last_owner")


def _check_may_change(by: Access, member: Member) -> None:
    if not by.administers or by.workspace_id != member.workspace_id:
        raise Refused("Only owners and admins may change members.")
    if member.role == Member.Role.OWNER and by.role != "owner":
        raise Refused("Only an owner may change an owner.")


@transaction.atomic
def remove_member(*, member: Member, by: Access) -> Member:
    """Ends somebody's access at once, and what they could come back with: tokens and open invitations they made.

    What they said stays, under their name.
    """
    if by.participant_id != member.participant_id:
        _check_may_change(by, member)
    _check_not_last_owner(member)
    record_audit(
        AuditAction.MEMBER,
        workspace_id=member.workspace_id,
        by=by,
        subject=f"@{member.participant.handle}",
        before=member.role,
        after="left" if by.participant_id == member.participant_id else "removed",
    )
    member.removed_at = timezone.now()
    member.save(update_fields=["removed_at"])
    Participant.objects.filter(pk=member.participant_id).update(is_active=False)
    of_member = Q(participant=member.participant_id) | Q(made_by=member.participant_id)  # her own, and those of agents
    Token.objects.filter(of_member, revoked_at=None).update(revoked_at=member.removed_at)
    revoke_invitations_of(member)
    emit("members_changed", workspace_id=member.workspace_id)
    emit("access_changed", workspace_id=member.workspace_id, participant_id=member.participant_id)
    return member


def revoke_invitations_of(member: Member) -> None:
    """Links that she made let nobody in any more."""
    invitations = Invitation.objects.filter(created_by=member.participant_id, revoked_at=None)
    invitations.update(revoked_at=timezone.now())


@transaction.atomic
def update_member_role(*, member: Member, role: str, by: Access) -> Member:
    """Gives a member another role. Owners are made by owners only."""
    if role not in Member.Role.values:
        raise Problem("Choose owner, admin, member or guest.", code="bad_role", field="role")
    _check_may_change(by, member)
    if role == Member.Role.OWNER and by.role != "owner":
        raise Refused("Only an owner may make an owner.")
    if role != Member.Role.OWNER:
        _check_not_last_owner(member)
    if member.role != role:
        subject, before = f"@{member.participant.handle}", member.role
        record_audit(
            AuditAction.ROLE, workspace_id=member.workspace_id, by=by, subject=subject, before=before, after=role
        )
    member.role = role
    member.save(update_fields=["role"])
    if role not in (Member.Role.OWNER, Member.Role.ADMIN):
        revoke_invitations_of(member)
        of_agents = Token.objects.filter(made_by=member.participant_id).exclude(participant=member.participant_id)
        of_agents.filter(revoked_at=None).update(revoked_at=timezone.now())
    emit("members_changed", workspace_id=member.workspace_id)
    emit("access_changed", workspace_id=member.workspace_id, participant_id=member.participant_id)
    return member


@transaction.atomic
def update_profile(
    *,
    member: Member,
    name: str,
    theme: str,
    enter_sends: bool,
    shortcuts: bool,
    is_invisible: bool = False,
    time_zone: str = "",
) -> Member:
    """Changes one's own name, theme, time zone (everywhere; empty: as the browser says), and habits in this workspace.

    Who is invisible is here for nobody.
    """
    name = check_name(name)
    if theme not in ("system", "light", "dark"):
        raise Problem("Choose system, light or dark.", code="bad_theme", field="theme")
    if time_zone and not is_time_zone(time_zone):
        raise Problem("Choose a time zone of the list.", code="bad_zone", field="time_zone")
    member.user.name, member.user.theme, member.user.time_zone = name, theme, time_zone
    member.user.save(update_fields=["name", "theme", "time_zone"])
    Participant.objects.filter(member__user=member.user).update(name=name)
    member.enter_sends, member.shortcuts, member.is_invisible = enter_sends, shortcuts, is_invisible
    member.save(update_fields=["enter_sends", "shortcuts", "is_invisible"])
    if is_invisible:
        forget_presence(member)
    emit("members_changed", workspace_id=member.workspace_id)
    return member


def pause_notifications(*, user: User, until: datetime | None) -> None:
    """Pauses notifications until then; None lets notifications come again. Daily hours stay as they are."""
    if until is not None and until.year == MAXYEAR:  # in another time zone that may be a year there is not
        raise Problem(f"Give a time before the year {MAXYEAR}.", code="bad_hours", field="until")
    user.dnd_until = until
    user.save(update_fields=["dnd_until"])


def set_quiet_hours(*, user: User, start: time | None, end: time | None, zone: str) -> None:
    """Sets daily hours, from `start` to `end`, without notifications; without both, there are none. Whoever chose no
    time zone keeps `zone`, which her browser says: hours mean nothing without one."""
    if (start is None) != (end is None):
        raise Problem("Give both times, or none.", code="bad_hours", field="dnd_start" if start is None else "dnd_end")
    if start is not None and start == end:
        raise Problem("Give two different times, or none.", code="bad_hours", field="dnd_end")
    user.dnd_start, user.dnd_end = start, end
    if start is not None and not user.time_zone and is_time_zone(zone):
        user.time_zone = zone
    user.save(update_fields=["dnd_start", "dnd_end", "time_zone"])


@transaction.atomic
def save_picture(*, participant: Participant, content: bytes) -> None:
    """`content`: as `make_picture` gives it. Everybody's pages show it from their next load on."""
    Picture.objects.update_or_create(participant=participant, defaults={"content": content})
    emit("members_changed", workspace_id=participant.workspace_id)


def upload_picture(*, participant: Participant, upload: UploadedFile[Any] | None) -> None:
    """Makes a picture of the file that a form sent, and saves it. Raises Problem for no file, and for one that is no
    picture."""
    if upload is None:
        raise Problem("Choose a picture first: a PNG, JPEG or WebP file.", field="picture")
    save_picture(participant=participant, content=make_picture(upload.read(MAX_UPLOAD_BYTES + 1)))


@transaction.atomic
def remove_picture(*, participant: Participant) -> None:
    """Removes the picture: the initial is shown instead. Nothing happens without a picture."""
    if Picture.objects.filter(participant=participant).delete()[0]:
        emit("members_changed", workspace_id=participant.workspace_id)


NOTE_SECONDS = 60
"""How often the same person is noted at most."""
_UPSERT_PRESENCE = """
INSERT INTO workspaces_presence (participant_id, seen_at)
SELECT participant_id, now() FROM workspaces_member
WHERE participant_id = ANY(%(ids)s) AND removed_at IS NULL AND NOT is_invisible ORDER BY participant_id
ON CONFLICT (participant_id) DO UPDATE SET seen_at = EXCLUDED.seen_at
WHERE workspaces_presence.seen_at <= EXCLUDED.seen_at - make_interval(secs => %(seconds)s)
"""


def note_presence(participant_ids: Collection[int]) -> None:
    """Notes that these members have a page open now. Those who are invisible, or gone, are not noted. One statement,
    none without ids."""
    if participant_ids:
        with connection.cursor() as cursor:
            cursor.execute(_UPSERT_PRESENCE, {"ids": list(participant_ids), "seconds": NOTE_SECONDS})


def forget_presence(member: Member) -> None:
    """The member is here no longer, to everybody's knowledge."""
    Presence.objects.filter(participant=member.participant_id).delete()
