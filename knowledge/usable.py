"""The entries that a search may answer with: which of those found they are, and the chosen of them, whole.

Most searches have no filters, and every prompt makes some of them: their statements, and those of the prompt beside
them, are written once in a process.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any

from django.db.models import Q, QuerySet
from django.utils import timezone

from knowledge.models import Entry, EntryQuerySet
from openvibe.base.compiled import Compiled, array
from openvibe.workspaces.access import Access


@dataclass(frozen=True, slots=True)
class Usable:
    """What the asker may read and `now` (UTC) holds; with those whose time is over when `lapsed`.

    `narrowed`: the entries to choose among instead, for searches with filters; they decide by themselves.
    """

    access: Access
    now: datetime
    lapsed: bool = False
    narrowed: EntryQuerySet | None = None

    def ids(self, ids: Collection[int]) -> list[int]:
        """Which of these are, by id."""
        if self.narrowed is not None:
            return sorted(self.narrowed.filter(pk__in=ids).values_list("pk", flat=True))
        return sorted(pk for (pk,) in _numbers(*self._shape).rows(*self._asker, array(ids), now=self.now))

    def whole(self, ids: Collection[int]) -> dict[int, Entry]:
        """Those of these that are, by id, with all that pages and prompts show beside them."""
        if self.narrowed is not None:
            return self.narrowed.with_people().in_bulk(ids)
        found: list[Entry] = _entries(*self._shape).objects(*self._asker, array(ids), now=self.now)
        return {entry.pk: entry for entry in found}

    @property
    def _asker(self) -> tuple[int, int]:
        return _asker(self.access)

    @property
    def _shape(self) -> tuple[Access, bool]:
        return self.access.shape, self.lapsed


def readable(access: Access, ids: Collection[int]) -> set[int]:
    """Which of these the asker may read, by id, whether or not they hold."""
    if not ids or access.knowledge == "none":
        return set()
    return {pk for (pk,) in _readable(access.shape).rows(*_asker(access), array(ids))}


def newest_topics(access: Access, most: int, *, now: datetime) -> list[tuple[str, str, str]]:
    """Visibility, kind and topic of the newest `most` entries that the asker may read and that hold at `now` (UTC)."""
    if access.knowledge == "none":
        return []
    rows = _topics(access.shape, most).rows_planned_now(*_asker(access), now=now)
    return [(visibility, kind, topic) for visibility, kind, topic in rows]


def standing(entries: EntryQuerySet, *, lapsed: bool, now: datetime) -> EntryQuerySet:
    """Those that hold at `now`; with those whose time is over when `lapsed`."""
    if not lapsed:
        return entries.holding(now)
    expired = Q(status=Entry.Status.NEEDS_REVIEW, reason=Entry.Reason.EXPIRED)
    return entries.filter(Q(status=Entry.Status.ACTIVE) | expired)


def _asker(access: Access) -> tuple[int, int]:
    return access.workspace_id, access.participant_id


@cache
def _numbers(shape: Access, lapsed: bool) -> Compiled:
    return Compiled(lambda *asked: _chosen(shape, lapsed, *asked).values_list("pk"), 3)


@cache
def _entries(shape: Access, lapsed: bool) -> Compiled:
    return Compiled(lambda *asked: _chosen(shape, lapsed, *asked).with_people(), 3)


@cache
def _readable(shape: Access) -> Compiled:
    return Compiled(lambda *asked: _seen(shape, *asked[:2]).filter(pk__any_of=asked[2]).order_by().values_list("pk"), 3)


@cache
def _topics(shape: Access, most: int) -> Compiled:
    """A plan for any workspace would read the entries of all from the newest on, and for a small one never stop."""

    def statement(workspace_id: int, participant_id: int) -> QuerySet[Any, Any]:
        held = _seen(shape, workspace_id, participant_id).holding(timezone.now())
        return held.order_by("-id").values_list("visibility", "kind", "topic")[:most]

    return Compiled(statement, 2)


def _chosen(shape: Access, lapsed: bool, workspace_id: int, participant_id: int, ids: int) -> EntryQuerySet:
    seen = _seen(shape, workspace_id, participant_id)
    return standing(seen.filter(pk__any_of=ids), lapsed=lapsed, now=timezone.now()).order_by()


def _seen(shape: Access, workspace_id: int, participant_id: int) -> EntryQuerySet:
    return Entry.objects.visible_to(shape.held_by(workspace_id, participant_id))
