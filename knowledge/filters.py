"""Which entries a query may answer with: what the asker may read, what holds now, filters of page, API and search.

Most searches have no filters, and every prompt makes some of them: their statements, and those of the prompt beside
them, are compiled once in a process."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any, TypedDict, Unpack

from django.db.models import Q, QuerySet
from django.utils import timezone

from knowledge.expiry import EXPIRING_WITHIN
from knowledge.models import Entry, EntryQuerySet
from openvibe.base.query_cache import CompiledQuery, array_literal
from openvibe.chat.models import asker_values, placeholder_access
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
        lookups["tags__contains"] = [lookups.pop("tag").lower().lstrip("#")]
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


@dataclass(frozen=True, slots=True)
class EntryScope:
    """What the asker may read and `now` (UTC) holds; with those whose time is over when `include_expired`.

    `filtered`: the entries to choose among instead, for searches with filters; they decide by themselves.
    """

    access: Access
    now: datetime
    include_expired: bool = False
    filtered: EntryQuerySet | None = None

    def matching_ids(self, ids: Collection[int]) -> list[int]:
        """Which of these are, by id."""
        if self.filtered is not None:
            return sorted(self.filtered.filter(pk__in=ids).values_list("pk", flat=True))
        rows = _compiled_ids(*self._shape).rows(*asker_values(self.access), array_literal(ids), now=self.now)
        return sorted(pk for (pk,) in rows)

    def load(self, ids: Collection[int]) -> dict[int, Entry]:
        """Those of these that are, by id, with all that pages and prompts show beside them."""
        if self.filtered is not None:
            return self.filtered.with_related().in_bulk(ids)
        statement = _compiled_entries(*self._shape)
        entries = statement.objects(*asker_values(self.access), array_literal(ids), now=self.now)
        return {entry.pk: entry for entry in entries}

    @property
    def _shape(self) -> tuple[Access, bool]:
        return self.access.shape, self.include_expired


def readable_ids(access: Access, ids: Collection[int]) -> set[int]:
    """Which of these the asker may read, by id, whether or not they hold."""
    if not ids or access.knowledge == "none":
        return set()
    return {pk for (pk,) in _compiled_readable_ids(access.shape).rows(*asker_values(access), array_literal(ids))}


def newest_topics(access: Access, most: int, *, now: datetime) -> list[tuple[str, str, str]]:
    """Visibility, kind and topic of the newest `most` entries that the asker may read and that hold at `now` (UTC)."""
    if access.knowledge == "none":
        return []
    rows = _compiled_topics(access.shape, most).rows_with_custom_plan(*asker_values(access), now=now)
    return [(visibility, kind, topic) for visibility, kind, topic in rows]


def filter_current(entries: EntryQuerySet, *, include_expired: bool, now: datetime) -> EntryQuerySet:
    """Those that hold at `now`; with those whose time is over when `include_expired`."""
    if not include_expired:
        return entries.current(now)
    expired = Q(status=Entry.Status.NEEDS_REVIEW, reason=Entry.Reason.EXPIRED)
    return entries.filter(Q(status=Entry.Status.ACTIVE) | expired)


@cache
def _compiled_ids(shape: Access, include_expired: bool) -> CompiledQuery:
    return CompiledQuery(lambda *asked: _in_scope(shape, include_expired, *asked).values_list("pk"), 5)


@cache
def _compiled_entries(shape: Access, include_expired: bool) -> CompiledQuery:
    return CompiledQuery(lambda *asked: _in_scope(shape, include_expired, *asked).with_related(), 5)


@cache
def _compiled_readable_ids(shape: Access) -> CompiledQuery:
    return CompiledQuery(
        lambda *asked: _visible_entries(shape, *asked[:4]).filter(pk__any_of=asked[4]).order_by().values_list("pk"), 5
    )


@cache
def _compiled_topics(shape: Access, most: int) -> CompiledQuery:
    """A plan for any workspace would read the entries of all from the newest on, and for a small one never stop."""

    def statement(*asker: int) -> QuerySet[Any, Any]:
        current = _visible_entries(shape, *asker).current(timezone.now())
        return current.order_by("-id").values_list("visibility", "kind", "topic")[:most]

    return CompiledQuery(statement, 4)


def _in_scope(shape: Access, include_expired: bool, *values: int) -> EntryQuerySet:
    *asker, ids = values
    seen = _visible_entries(shape, *asker)
    return filter_current(seen.filter(pk__any_of=ids), include_expired=include_expired, now=timezone.now()).order_by()


def _visible_entries(shape: Access, *asker: int) -> EntryQuerySet:
    return Entry.objects.visible_to(placeholder_access(shape, *asker))
