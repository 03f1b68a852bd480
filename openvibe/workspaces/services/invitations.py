"""Verbs of invitations."""

from collections.abc import Iterable
from datetime import timedelta

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from openvibe.base.problems import Missing, Problem, Refused
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Invitation, Member, User, Workspace, digest
from openvibe.workspaces.services.members import add_member


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
    """Join by link. Two people racing for the last place: one joins, the other is told.

    A link made before somebody was removed does not bring them back.
    """
    invitation = open_invitation(token)
    member = Member.objects.filter(workspace=invitation.workspace, user=user).first()
    if member is not None:
        if member.removed_at is None:
            return member
        if invitation.created_at < member.removed_at:
            raise Missing("Your access was ended after this invitation was made. Ask for a new one.")
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
