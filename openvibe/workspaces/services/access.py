"""Who is asking, read from the rows as they are now."""

from django.conf import settings
from django.utils.module_loading import import_string

from openvibe.base.problems import Missing
from openvibe.workspaces.access import Access, Role, access_of_role
from openvibe.workspaces.models import Member, Participant, User


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
