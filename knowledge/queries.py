"""Reads of knowledge, also for other apps: visible entries, search, freshness, revisions, topics, the review queue."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from datetime import datetime, timedelta
from itertools import groupby

from django.db.models import (
    Case,
    CharField,
    Count,
    Exists,
    IntegerField,
    Max,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
    Value,
    When,
)
from django.db.models.functions import Cast

from knowledge.expiry import EXPIRING_WITHIN, Freshness, compute_freshness, parse_expiry
from knowledge.filters import EntryTopic, freshness_condition, newest_topics
from knowledge.models import Contradiction, Entry, EntryQuerySet, Revision
from knowledge.search import CandidateEntry, EntryHit, NearCopy, Subject, find_entries, find_usable_entries
from openvibe.base.params import MAX_ID
from openvibe.base.problems import Missing
from openvibe.chat.models import Thread
from openvibe.chat.queries import AccessQuery, access_by
from openvibe.engines.registers import Register
from openvibe.workspaces.access import Access

__all__ = [
    "EXPIRING_WITHIN",
    "CandidateEntry",
    "EntryHit",
    "EntryTopic",
    "Freshness",
    "NearCopy",
    "Subject",
    "compute_freshness",
    "find_entries",
    "find_usable_entries",
    "freshness_condition",
    "newest_topics",
    "parse_expiry",
]

ENTRY_USES: Register[Callable[[Entry, Access], Sequence[object]]] = Register("knowledge.queries.ENTRY_USES")
"""The uses of an entry, as rows for its page, the newest first; the floor that uses it adds what looks."""


def accessible_entries(access: Access) -> EntryQuerySet:
    """What the asker may read. Agents get only what could stand in their prompts: what holds at this moment."""
    entries = Entry.objects.visible_to(access)
    return entries.current() if access.is_agent else entries


access_plain_entry = access_by("pk", accessible_entries)
"""A lookup as `access_entry`, without what its own page shows beside it."""


def entry_topics(ids: Collection[int]) -> dict[int, str]:
    """Topics of entries, whoever may read them, by id. One query, none without ids."""
    return dict(Entry.objects.filter(pk__in=ids).order_by().values_list("pk", "topic")) if ids else {}


def entries_by_hint(access: Access, hint: str) -> QuerySet[Entry, int]:
    """Ids of entries that the asker may read, the newest first: those that begin with the hint, or have it in the
    topic."""
    entries = accessible_entries(access).alias(number=Cast("pk", CharField()))
    matches = Q(number__startswith=hint) | Q(topic__icontains=hint)
    return entries.filter(matches).order_by("-pk").values_list("pk", flat=True)


def with_api_fields(entries: QuerySet[Entry], access: Access) -> QuerySet[Entry]:
    """The entries with all that `EntryOut` shows: one query. Where an entry comes from, and which entries stand before
    and after it, is told only to those who may see that."""
    entries_seen = accessible_entries(access).order_by()
    source_thread: QuerySet[Thread] = Thread.objects.visible_to(access).filter(pk=OuterRef("source_thread_id"))
    successors = entries_seen.filter(supersedes=OuterRef("pk")).exclude(status=Entry.Status.PROPOSED)
    return (
        entries.select_related("author", "owner", "decided_by")
        .defer("search")
        .annotate(
            source_is_seen=Exists(source_thread.order_by()),
            earlier_seen=Subquery(entries_seen.filter(pk=OuterRef("supersedes_id")).values("pk")[:1]),
            later_seen=Subquery(successors.values("pk")[:1]),
        )
    )


def access_entry(pk: int, access: Access) -> Entry:
    """One entry the asker may read. Raises Missing."""
    rows: list[Entry] = _entry_by_id.objects(access, min(pk, MAX_ID))
    if not rows:
        raise Missing
    return rows[0]


@AccessQuery
def _entry_by_id(access: Access, pk: int) -> QuerySet[Entry]:
    return with_api_fields(accessible_entries(access), access).filter(pk=pk)


def reload_entry(entry: Entry, access: Access) -> Entry:
    """An entry as it stands after the asker changed it, even where that took it out of the asker's sight."""
    row: Entry = _entry_of_workspace.objects(access, entry.pk)[0]
    return row


@AccessQuery
def _entry_of_workspace(access: Access, pk: int) -> QuerySet[Entry]:
    return with_api_fields(Entry.objects.filter(workspace_id=access.workspace_id), access).filter(pk=pk)


def accessible_contradictions(access: Access) -> QuerySet[Contradiction]:
    """Pairs of which the asker may read both. Agents know of none: people decide on them."""
    pairs = Contradiction.objects.filter(workspace_id=access.workspace_id)
    if access.is_agent:
        return pairs.none()
    visible = Entry.objects.visible_to(access).order_by()
    return pairs.filter(*(Exists(visible.filter(pk=OuterRef(side))) for side in ("first_id", "second_id")))


access_contradiction = access_by("pk", accessible_contradictions)


def open_contradictions(access: Access) -> QuerySet[Contradiction]:
    """Those of the pairs that nobody settled yet."""
    return accessible_contradictions(access).filter(settled_at=None)


_SHARING_REVISIONS = Revision.objects.filter(changes__visibility=[Entry.Visibility.RESTRICTED, Entry.Visibility.SHARED])


def visible_revisions(access: Access, entry: Entry) -> QuerySet[Revision]:
    """The entry's revisions, the newest first. The caller has checked that the entry itself is visible.

    Who reads it only since it was shared does not learn what it said while it was restricted.
    """
    revisions = Revision.objects.filter(entry=entry)
    if access.knowledge == "restricted" or access.participant_id in (entry.author_id, entry.owner_id):
        return revisions
    shared_at = _SHARING_REVISIONS.filter(entry=entry).aggregate(number=Max("number"))["number"]
    return revisions.filter(number__gt=shared_at or 0)


def sharing_revisions_after(at: OuterRef) -> QuerySet[Revision]:
    """The revisions, inside a query of entries, that shared a restricted one after `at`."""
    return _SHARING_REVISIONS.filter(entry=OuterRef("pk"), created_at__gt=at).order_by()


def was_any_restricted_since(access: Access, at: datetime) -> bool:
    """Whether an entry of the workspace that was shared at `at` is restricted now, or was meanwhile."""
    narrower_visibilities = [Entry.Visibility.SHARED, Entry.Visibility.RESTRICTED]
    revisions = Revision.objects.filter(entry__workspace=access.workspace_id, changes__visibility=narrower_visibilities)
    return revisions.filter(created_at__gt=at).exists()


def restricted_at(access: Access, entry_ids: Collection[int], at: datetime) -> set[int]:
    """The entries among these that the asker could not have read at `at`, since they were shared only afterwards."""
    if access.knowledge == "restricted" or not entry_ids:
        return set()
    shared_later = _SHARING_REVISIONS.filter(entry__in=entry_ids, created_at__gt=at)
    self_only = [access.participant_id]
    return set(
        shared_later.exclude(entry__author__in=self_only)
        .exclude(entry__owner__in=self_only)
        .values_list("entry", flat=True)
    )


MAX_INDEX_TOPICS = 500
"""Topics that an index names at most."""


def topics_by_kind(entries: QuerySet[Entry]) -> tuple[list[dict[str, object]], bool]:
    """`{kind, topics: [{topic, entries}]}` with how many of these entries each has, by kind and then by alphabet;
    whether that is all of them."""
    topic_counts = entries.order_by("kind", "topic").values("kind", "topic").annotate(entries=Count("pk"))
    rows = list(topic_counts[: MAX_INDEX_TOPICS + 1])
    kinds: list[dict[str, object]] = [
        {"kind": kind, "topics": list(group)}
        for kind, group in groupby(rows[:MAX_INDEX_TOPICS], key=lambda row: row["kind"])
    ]
    return kinds, len(rows) <= MAX_INDEX_TOPICS


def count_current_entries(access: Access) -> tuple[int, int]:
    """How many shared and how many restricted entries hold now, among what the asker may read. One query."""
    rows = Entry.objects.visible_to(access).current().order_by().values_list("visibility")
    counts = dict(rows.annotate(number=Count("pk")))
    return counts.get(Entry.Visibility.SHARED, 0), counts.get(Entry.Visibility.RESTRICTED, 0)


Status, Reason = Entry.Status, Entry.Reason
UNUSED_REVIEW_WINDOW = timedelta(days=7)


def review_condition(now: datetime) -> Q:
    """Entries that need a decision: suggestions, those under review, those whose time is over."""
    return Q(status__in=[Status.PROPOSED, Status.NEEDS_REVIEW]) | Q(status=Status.ACTIVE, expires_at__lte=now)


def entries_to_review(access: Access, now: datetime) -> EntryQuerySet:
    """Those that need a decision, among what the asker may read."""
    return Entry.objects.visible_to(access).filter(review_condition(now))


def ordered_review_queue(access: Access, now: datetime) -> EntryQuerySet:
    """Archived as unused in the last week first, then what waits, by reason and then the longest first."""
    is_unused = Q(status=Status.ARCHIVED, reason=Reason.UNUSED, status_since__gt=now - UNUSED_REVIEW_WINDOW)
    entries = entries_to_review(access, now) | Entry.objects.visible_to(access).filter(is_unused)
    section = Case(
        When(is_unused, then=Value(0)),
        When(status=Status.PROPOSED, then=Value(5)),
        When(reason=Reason.WRONG, then=Value(1)),
        When(reason=Reason.SOURCE_GONE, then=Value(3)),
        When(reason__in=[Reason.ASKED, Reason.CONTRADICTION], then=Value(4)),
        default=Value(2),
        output_field=IntegerField(),
    )
    rows = entries.with_related().select_related("supersedes").annotate(section=section)
    return rows.order_by("section", "status_since", "id")
