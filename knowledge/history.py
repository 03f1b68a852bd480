"""How entries changed, as far as a reader may know: nothing from before an entry was shared with them."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from django.db.models import Max, QuerySet

from knowledge.models import Entry, Revision
from openvibe.workspaces.access import Access

_SHARED = Revision.objects.filter(changes__visibility=[Entry.Visibility.RESTRICTED, Entry.Visibility.SHARED])


def revisions_known_to(access: Access, entry: Entry) -> QuerySet[Revision]:
    """The entry's revisions, the newest first. The caller has checked that the entry itself is visible.

    Who reads it only since it was shared does not learn what it said while it was restricted.
    """
    revisions = Revision.objects.filter(entry=entry)
    if access.knowledge == "restricted" or access.participant_id in (entry.author_id, entry.owner_id):
        return revisions
    shared_at = _SHARED.filter(entry=entry).aggregate(number=Max("number"))["number"]
    return revisions.filter(number__gt=shared_at or 0)


def restricted_then(access: Access, entry_ids: Collection[int], at: datetime) -> set[int]:
    """Which of these entries the asker could not have read at `at`, since they were shared only afterwards."""
    if access.knowledge == "restricted" or not entry_ids:
        return set()
    later = _SHARED.filter(entry__in=entry_ids, created_at__gt=at)
    own = [access.participant_id]
    return set(later.exclude(entry__author__in=own).exclude(entry__owner__in=own).values_list("entry", flat=True))
