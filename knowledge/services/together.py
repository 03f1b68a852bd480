"""Many new entries at once, with as many statements as for one."""

from __future__ import annotations

from collections.abc import Sequence

from knowledge.models import Entry, Notice, Revision
from knowledge.services.notices import PROPOSED
from knowledge.services.revising import first_revision
from openvibe.base.models import Event
from openvibe.workspaces.access import Access


def begin_together(entries: Sequence[Entry], *, by: Access, how: str) -> None:
    """Store new entries, each with its first revision, and tell the owners of suggestions; whoever stores them is not
    told.

    The caller has checked every one of them, owners too, and decides what a key that was stored meanwhile means: then
    IntegrityError is raised and nothing is stored.
    """
    Entry.objects.bulk_create(entries)
    Revision.objects.bulk_create([first_revision(one, action=_action(one), by=by, how=how) for one in entries])
    proposed = [one for one in entries if one.status == Entry.Status.PROPOSED and one.owner_id != by.participant_id]
    notices = [Notice(participant_id=one.owner_id, entry=one, reason=PROPOSED) for one in proposed]
    Notice.objects.bulk_create(notices, ignore_conflicts=True)
    told = sorted({one.owner_id for one in proposed})
    Event.objects.bulk_create(
        Event(kind="knowledge_noticed", workspace_id=by.workspace_id, participant_id=pk) for pk in told
    )


def _action(entry: Entry) -> str:
    is_suggested = entry.status == Entry.Status.PROPOSED
    return Revision.Action.SUGGESTED if is_suggested else Revision.Action.IMPORTED
