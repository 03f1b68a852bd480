"""Telling owners that an entry needs them, and that it does no more."""

from __future__ import annotations

from collections.abc import Collection

from django.utils import timezone

from knowledge.models import Entry, Notice
from knowledge.services.revising import possible_owners
from openvibe.base.models import emit
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Member

PROPOSED = "proposed"


def tell_owner(entry: Entry, reason: str, *, by: Access | None = None) -> None:
    """A notice for the owner, or for the admins where the owner is gone; none for whoever caused it.

    One a person, entry and reason as long as it is unseen.
    """
    told = {pk for pk in who_answers_for(entry) if by is None or pk != by.participant_id}
    notify(entry, reason, told)


def notify(entry: Entry, reason: str, participants: Collection[int]) -> None:
    notices = [Notice(participant_id=pk, entry=entry, reason=reason) for pk in sorted(participants)]
    Notice.objects.bulk_create(notices, ignore_conflicts=True)
    for pk in sorted(participants):
        emit("knowledge_noticed", workspace_id=entry.workspace_id, participant_id=pk)


def who_answers_for(entry: Entry) -> set[int]:
    """Participant ids: the owner while they may own entries, else the admins."""
    if possible_owners(entry.workspace_id).filter(pk=entry.owner_id).exists():
        return {entry.owner_id}
    return admins_of(entry.workspace_id)


def admins_of(workspace_id: int) -> set[int]:
    """Participant ids of the workspace's owners and admins."""
    admins = possible_owners(workspace_id).filter(member__role__in=[Member.Role.OWNER, Member.Role.ADMIN])
    return set(admins.values_list("pk", flat=True))


def withdraw_notices(entry: Entry) -> None:
    """The entry needs nobody any more."""
    Notice.objects.filter(entry=entry, seen_at=None).update(seen_at=timezone.now())


def see_notices(*, by: Access, entry: Entry | None = None) -> int:
    """The asker has seen their notices, or those of one entry; how many were new."""
    mine = Notice.objects.filter(participant_id=by.participant_id, seen_at=None)
    seen = (mine.filter(entry=entry) if entry else mine).update(seen_at=timezone.now())
    if seen:
        emit("knowledge_noticed", workspace_id=by.workspace_id, participant_id=by.participant_id)
    return seen
