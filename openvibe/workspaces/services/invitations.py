"""Creates, takes and closes the links by which people join."""

import secrets
from collections.abc import Iterable
from datetime import timedelta

from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone
from django.utils.formats import date_format

from openvibe.api.models import Token
from openvibe.base.audit import AuditAction, record_audit
from openvibe.base.problems import Missing, Problem, Refused
from openvibe.engines.text.cleaning import pluralize
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Invitation, Member, User, Workspace
from openvibe.workspaces.services.members import add_member


@transaction.atomic
def create_invitation(
    *, workspace: Workspace, by: Access, role: str, days: int = 7, uses: int = 1, channel_ids: Iterable[int] = ()
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
    token = secrets.token_urlsafe(32)
    invitation = Invitation.objects.create(
        workspace=workspace,
        token_hash=Token.digest(token),
        role=role,
        created_by_id=by.participant_id,
        expires_at=timezone.now() + timedelta(days=days),
        uses_left=uses,
    )
    channels = invitation.channels.model._default_manager.visible_to(by)
    invitation.channels.set(channels.filter(pk__in=list(channel_ids)))
    after = f"for {uses} as {role}, for {pluralize(days, 'day')}"
    record_audit(AuditAction.INVITATION, workspace_id=workspace.pk, by=by, subject="a link", after=after)
    return invitation, token


def access_invitation(token: str) -> Invitation:
    """The invitation of a link. Raises Missing when it is unknown, expired, used up or taken back."""
    return _check_open(_invitations(token).first())


def _invitations(token: str) -> QuerySet[Invitation]:
    return Invitation.objects.select_related("workspace").filter(token_hash=Token.digest(token))


def _check_open(invitation: Invitation | None) -> Invitation:
    if invitation is None or not invitation.is_open:
        raise Missing(f"{_closed_reason(invitation)} Ask the person who sent it for a new one.")
    return invitation


def _closed_reason(invitation: Invitation | None) -> str:
    """The reason why an invitation is closed, told to holders of the link alone: nobody guesses one."""
    if invitation is None:
        return "This is no invitation; perhaps a part of the link is missing."
    if invitation.revoked_at is not None:
        return "This invitation was taken back."
    if invitation.uses_left <= 0:
        return "This invitation has been used up: as many people joined by it as it was made for."
    return f"This invitation expired on {date_format(invitation.expires_at, 'j F Y')}."


@transaction.atomic
def accept_invitation(*, token: str, user: User) -> Member:
    """Joins by link. Two people racing for the last place: one joins, the other is told. Who is in already stays in,
    and takes no place, even by a link that lets nobody in any more.

    A link made before somebody was removed does not bring them back.
    """
    invitation = _invitations(token).select_for_update(of=("self",), no_key=True).first()
    member = Member.objects.filter(workspace=invitation.workspace, user=user).first() if invitation else None
    if member is not None and member.removed_at is None:
        return member
    invitation = _check_open(invitation)
    if member is not None and member.removed_at is not None and invitation.created_at < member.removed_at:
        raise Missing("Your access was ended after this invitation was made. Ask for a new one.")
    invitation.uses_left -= 1
    invitation.save(update_fields=["uses_left"])
    member = add_member(workspace=invitation.workspace, user=user, role=invitation.role)
    for channel in invitation.channels.all():
        channel.memberships.get_or_create(participant=member.participant)
    return member


@transaction.atomic
def revoke_invitation(*, invitation: Invitation, by: Access) -> None:
    """Revokes the invitation: its link lets nobody in any more. Taking it back twice changes nothing."""
    if not by.administers or by.workspace_id != invitation.workspace_id:
        raise Refused("Only owners and admins may take an invitation back.")
    if Invitation.objects.filter(pk=invitation.pk, revoked_at=None).update(revoked_at=timezone.now()):
        subject = f"a link as {invitation.role}"
        record_audit(
            AuditAction.INVITATION, workspace_id=invitation.workspace_id, by=by, subject=subject, after="taken back"
        )
