"""Which entry supersedes which: the link between two entries, and what follows from it."""

from __future__ import annotations

from django.utils import timezone

from knowledge.models import Contradiction, Entry, Revision
from knowledge.services.notices import withdraw_notices
from knowledge.services.revising import hold, revise, values_of
from openvibe.base.problems import Conflict
from openvibe.workspaces.access import Access

Status = Entry.Status
REPLACEABLE = (Status.ACTIVE, Status.NEEDS_REVIEW)


def successor_of(entry: Entry) -> Entry | None:
    """What supersedes it, or is suggested to."""
    return Entry.objects.filter(supersedes=entry).select_related("owner").first()


def check_replaceable(entry: Entry) -> None:
    """Raises Conflict when nothing can supersede the entry now."""
    if entry.status == Status.SUPERSEDED:
        after = successor_of(entry)
        by_what = f" by “{after.topic}”" if after and after.visibility == Entry.Visibility.SHARED else ""
        raise Conflict(f"This entry is superseded{by_what} already. Supersede the newer one.", code="superseded")
    if entry.status == Status.PROPOSED:
        raise Conflict("This is only a suggestion. Accept or reject it.", code="proposed")
    if entry.status == Status.ARCHIVED:
        raise Conflict("This entry is archived. Bring it back first, or write a new one.", code="archived")


def make_way(entry: Entry, by: Access, how: str) -> None:
    """A suggestion that would have superseded the entry loses that link: somebody was faster."""
    waiting = Entry.objects.filter(supersedes=entry, status=Status.PROPOSED).values_list("pk", flat=True)
    for proposal in hold(waiting):
        unlink(proposal, by=by, how=how, note="The entry it was to supersede was superseded by another one.")


def unlink(entry: Entry, *, by: Access, how: str, note: str) -> None:
    before = values_of(entry)
    entry.supersedes = None
    revise(entry, before=before, action=Revision.Action.EDITED, by=by, how=how, note=note)


def put_aside(entry: Entry, *, by: Access, how: str, note: str) -> None:
    """The entry is superseded from now on. The caller holds it and has checked and linked its successor."""
    before = values_of(entry)
    entry.status, entry.reason, entry.reason_note = Status.SUPERSEDED, "", ""
    revise(entry, before=before, action=Revision.Action.SUPERSEDED, by=by, how=how, note=note)
    withdraw_notices(entry)
    close_pairs(entry, by, "superseded")


def close_pairs(entry: Entry, by: Access | None, how: str) -> None:
    """The open contradictions of an entry that holds no more are settled by that."""
    pairs = Contradiction.objects.filter(settled_at=None)
    now = timezone.now()
    for side in ("first", "second"):
        pairs.filter(**{side: entry}).update(
            settled_at=now, settled_by_id=by.participant_id if by else None, settled_how=how
        )
