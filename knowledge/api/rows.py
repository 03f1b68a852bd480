"""Entries as the API's callers may see them."""

from __future__ import annotations

from django.db.models import Exists, OuterRef, QuerySet, Subquery
from django.shortcuts import get_object_or_404

from knowledge.models import Contradiction, Entry, EntryQuerySet
from openvibe.base.problems import Problem
from openvibe.chat.models import Thread
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Participant


def entries_of(access: Access) -> EntryQuerySet:
    """What the asker may read. Agents get only what could stand in their prompts: what holds at this moment."""
    entries = Entry.objects.visible_to(access)
    return entries.holding() if access.is_agent else entries


def for_answers(entries: QuerySet[Entry], access: Access) -> QuerySet[Entry]:
    """With all that `EntryOut` shows: one query. Where an entry comes from, and which entries stand before and after
    it, is told only to those who may see that."""
    known = entries_of(access).order_by()
    thread: QuerySet[Thread] = Thread.objects.visible_to(access).filter(pk=OuterRef("source_thread_id"))
    after = known.filter(supersedes=OuterRef("pk")).exclude(status=Entry.Status.PROPOSED)
    return (
        entries.select_related("author", "owner", "decided_by")
        .defer("search")
        .annotate(
            source_is_seen=Exists(thread.order_by()),
            earlier_seen=Subquery(known.filter(pk=OuterRef("supersedes_id")).values("pk")[:1]),
            later_seen=Subquery(after.values("pk")[:1]),
        )
    )


def found_entry(pk: int, access: Access) -> Entry:
    """One entry the asker may read. Raises Http404."""
    return get_object_or_404(for_answers(entries_of(access), access), pk=pk)


def written_entry(entry: Entry, access: Access) -> Entry:
    """An entry as it stands after the asker changed it, even where that took it out of the asker's sight."""
    return for_answers(Entry.objects.filter(workspace_id=access.workspace_id), access).get(pk=entry.pk)


def contradictions_of(access: Access) -> QuerySet[Contradiction]:
    """Pairs of which the asker may read both. Agents know of none: people decide on them."""
    pairs = Contradiction.objects.filter(workspace_id=access.workspace_id)
    if access.is_agent:
        return pairs.none()
    seen = entries_of(access).order_by().values("pk")
    return pairs.filter(first__in=seen, second__in=seen).select_related("settled_by")


def owner_called(handle: str | None, access: Access) -> Participant | None:
    """Who is to own an entry, by handle; None where nobody is named. Raises Problem."""
    if handle is None:
        return None
    people = Participant.objects.filter(workspace_id=access.workspace_id, handle=handle.lstrip("@"))
    found = people.select_related("member__user").first()
    if found is None:
        raise Problem("An owner is a member of this workspace, by handle.", code="bad_owner", field="owner")
    return found
