"""Filters: which entries a query may answer with: what the asker may read, what holds now, filters of page, API and
search.

Candidates are found by SQL that says the same as the querysets; entries are read through these, in a statement
compiled once in a process."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple, TypedDict, Unpack

from django.db.models import Q
from django.utils import timezone
from psycopg import sql

from knowledge.expiry import EXPIRING_WITHIN
from knowledge.models import Entry, EntryQuerySet
from knowledge.tags import fold_tag
from openvibe.chat.queries import AccessQuery, visibility_of
from openvibe.engines.database.compiled_queries import array_literal
from openvibe.engines.database.prepared_statements import fetch_unprepared
from openvibe.engines.search.candidates import inline_ids_sql
from openvibe.workspaces.access import Access


class EntryCriteria(TypedDict, total=False):
    """What is left out or empty does not narrow; an unknown word finds nothing.

    `topic` is the whole topic whatever its case, `freshness` one of `knowledge.expiry.FRESHNESS_STATES`.
    """

    topic: str
    tag: str
    status: str | None
    owner_id: int | None
    kind: str
    source: str
    freshness: str


def filter_entries(
    entries: EntryQuerySet, *, now: datetime | None = None, **criteria: Unpack[EntryCriteria]
) -> EntryQuerySet:
    """Entries with all of these."""
    lookups: dict[str, Any] = {name: value for name, value in criteria.items() if value not in ("", None)}
    freshness = lookups.pop("freshness", "")
    if "topic" in lookups:
        lookups["topic__iexact"] = lookups.pop("topic")
    if "tag" in lookups:
        lookups["tags__contains"] = [fold_tag(lookups.pop("tag"))]
    entries = entries.filter(**lookups)
    return entries.filter(freshness_condition(freshness, now or timezone.now())) if freshness else entries


def freshness_condition(state: str, now: datetime) -> Q:
    """The rows of which `knowledge.expiry.compute_freshness` says this."""
    is_past = Q(expires_at__lte=now, reason__in=["", Entry.Reason.EXPIRED])
    is_soon = Q(expires_at__gt=now, expires_at__lte=now + EXPIRING_WITHIN)
    is_active_or_reviewed = Q(status__in=[Entry.Status.ACTIVE, Entry.Status.NEEDS_REVIEW])
    match state:
        case "expired":
            return is_active_or_reviewed & is_past
        case "needs_review":
            has_date = Q(expires_at__isnull=False)  # without one `is_past` is neither true nor false
            return Q(status=Entry.Status.NEEDS_REVIEW) & ~(has_date & is_past)
        case "expiring":
            return Q(status=Entry.Status.ACTIVE) & is_soon
        case "fresh":
            return Q(status=Entry.Status.ACTIVE) & (Q(expires_at=None) | Q(expires_at__gt=now + EXPIRING_WITHIN))
        case "proposed" | "superseded" | "archived":
            return Q(status=state)
    return Q(pk__in=[])


IS_CURRENT_SQL = "e.status = 'active' AND (e.expires_at IS NULL OR e.expires_at > %(now)s)"
IS_CURRENT_OR_EXPIRED_SQL = "(e.status = 'active' OR (e.status = 'needs_review' AND e.reason = 'expired'))"
"""`filter_current` as SQL."""

_NEWEST_TOPICS = """SELECT e.visibility, e.kind, e.topic, e.id FROM knowledge_entry e WHERE {visible} AND {current}
ORDER BY e.id DESC LIMIT %(most)s"""

_IS_OPEN_SQL = """(e.source_thread_id IS NULL OR EXISTS (SELECT FROM chat_thread t WHERE t.id = e.source_thread_id
AND (t.access = 'open' OR (t.access = 'agent_restricted'
AND (t.id = ANY(%(listed)s::bigint[]) OR t.parent_id = ANY(%(listed)s::bigint[]))))))"""


def visible_sql(access: Access) -> str:
    """`EntryQuerySet.visible_to` as SQL, for candidates and topics; entries are read through the queryset itself."""
    known = known_sql(access)
    if not access.is_agent or access.knowledge != "restricted":
        return known
    return f"{known} AND (e.visibility = 'shared' OR ARRAY[e.author_id, e.owner_id] @> %(shut_out)s::bigint[])"


def known_sql(access: Access) -> str:
    """Returns the same condition without regard to who reads what an agent answers."""
    if access.knowledge == "none":
        return "FALSE"
    parts = ["e.workspace_id = %(workspace)s"]
    if access.is_agent:
        parts.append(_IS_OPEN_SQL)
    if access.knowledge != "restricted":
        own = "" if access.is_agent else " OR e.author_id = %(asker)s OR e.owner_id = %(asker)s"
        parts.append(f"(e.visibility = 'shared'{own})")
    return " AND ".join(parts)


def asker_sql_values(access: Access) -> dict[str, object]:
    """Values of the placeholders in `visible_sql`."""
    thread_ids = visibility_of(access).threads if access.is_agent else None
    return {
        "workspace": access.workspace_id,
        "asker": access.participant_id,
        "listed": thread_ids,
        "shut_out": access.shut_out or "{}",
    }


@dataclass(frozen=True, slots=True)
class EntryScope:
    """What the asker may read and `now` (UTC) holds; with those whose time is over when `include_expired`.

    `filtered`: the entries to choose among instead, for searches with filters; they decide by themselves.
    """

    access: Access
    now: datetime
    include_expired: bool = False
    filtered: EntryQuerySet | None = None

    @property
    def condition(self) -> str:
        """The same as SQL; its placeholders are in `values`."""
        if self.filtered is not None:
            return f"e.id IN ({inline_ids_sql(self.filtered.order_by())})"
        return f"{visible_sql(self.access)} AND {IS_CURRENT_OR_EXPIRED_SQL if self.include_expired else IS_CURRENT_SQL}"

    @property
    def filtered_ids(self) -> str:
        """SQL of the ids to choose among, the newest first; nothing without filters."""
        return "" if self.filtered is None else inline_ids_sql(self.filtered.order_by("-pk"))

    @property
    def values(self) -> Mapping[str, object]:
        return {**asker_sql_values(self.access), "now": self.now}

    def load(self, ids: Collection[int]) -> dict[int, Entry]:
        """Those of these that are, by id, with all that pages and prompts show beside them."""
        if self.filtered is not None:
            return self.filtered.with_related().in_bulk(ids)
        now = None if self.include_expired else self.now  # it asks for no time then
        entries = _entries_by_id.objects(self.access, array_literal(ids), now=now, include_expired=self.include_expired)
        return {entry.pk: entry for entry in entries}


class EntryTopic(NamedTuple):
    """What an index says of an entry."""

    visibility: str
    kind: str
    topic: str
    entry_id: int


def newest_topics(access: Access, most: int, *, now: datetime) -> list[EntryTopic]:
    """The topics of the newest `most` entries that the asker may read and that hold at `now` (UTC)."""
    if access.knowledge == "none":
        return []
    statement = sql.SQL(_NEWEST_TOPICS).format(visible=sql.SQL(visible_sql(access)), current=sql.SQL(IS_CURRENT_SQL))
    values = {**asker_sql_values(access), "now": now, "most": most}
    return [EntryTopic._make(row) for row in fetch_unprepared(statement.as_string(), values)]


def filter_current(entries: EntryQuerySet, *, include_expired: bool, now: datetime) -> EntryQuerySet:
    """Those that hold at `now`; with those whose time is over when `include_expired`."""
    if not include_expired:
        return entries.current(now)
    expired = Q(status=Entry.Status.NEEDS_REVIEW, reason=Entry.Reason.EXPIRED)
    return entries.filter(Q(status=Entry.Status.ACTIVE) | expired)


@AccessQuery
def _entries_by_id(access: Access, ids: int, *, include_expired: bool) -> EntryQuerySet:
    entries = Entry.objects.visible_to(access).filter(pk__any_of=ids)
    return filter_current(entries, include_expired=include_expired, now=timezone.now()).order_by().with_related()
