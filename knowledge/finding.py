"""Entries that bear on a question: one search for prompts, tools, pages and the API."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import numpy as np
from django.utils import timezone
from psycopg import sql

from knowledge.candidates import ENTRIES, numbers_of
from knowledge.likeness import alike
from knowledge.models import Entry
from knowledge.narrowing import narrowed
from knowledge.usable import Usable, standing
from openvibe.search.asking import Asked, asked
from openvibe.search.candidates import written_out
from openvibe.search.values import Candidates
from openvibe.workspaces.access import Access

LOOKED_AT = 3
"""So many times the entries wanted are looked at more closely, since some of them turn out to be unlike."""


@dataclass(frozen=True, slots=True)
class FoundEntry:
    entry: Entry
    score: float


@dataclass(frozen=True, slots=True)
class FoundEntries:
    """`hits`, the best first, cost `tokens` together. Whether words, and whether vectors, had a say in it."""

    hits: Sequence[FoundEntry] = ()
    tokens: int = 0
    by_words: bool = False
    by_vectors: bool = False


def find_entries(
    access: Access, question: str, *, budget: int | None = None, most: int = 20, topic: str = "", tag: str = "",
    status: str | None = None, owner_id: int | None = None, kind: str = "", source: str = "", freshness: str = "",
    lapsed: bool = False, now: datetime | None = None,
) -> FoundEntries:  # fmt: skip
    """Entries the asker may read that bear on the question, the best first, at most `most` and `budget` tokens.

    Only those that hold at `now` (UTC, expiry inclusive), unless `status` or `freshness` ask for others, or `lapsed`
    for those whose time is over as well. The filters are those of `knowledge.narrowing`. Nothing in a question is an
    operator; a question without words finds nothing.
    """
    if access.knowledge == "none" or most <= 0:
        return FoundEntries()
    wanted = asked(access.workspace_id, question)
    if wanted.is_empty:
        return FoundEntries()
    now = now or timezone.now()
    filters = {
        "topic": topic, "tag": tag, "status": status or "", "owner_id": owner_id, "kind": kind, "source": source,
        "freshness": freshness,
    }  # fmt: skip
    beyond = lapsed or bool(status or freshness)
    where = _certainly(access, is_lapsed_wanted=beyond, now=now)
    usable = Usable(access, now, lapsed)
    if any(filters.values()):
        entries = Entry.objects.visible_to(access)
        entries = entries if status or freshness else standing(entries, lapsed=lapsed, now=now)
        entries = narrowed(entries, now=now, **filters)  # type: ignore[arg-type]
        usable = replace(usable, narrowed=entries)
        where = sql.SQL("{} AND e.id IN ({})").format(where, written_out(entries))
    candidates, best = _best_of(usable, wanted, where, most=most, budget=budget)
    if candidates is None:
        return FoundEntries()
    read = usable.whole(best.keys())
    hits = [FoundEntry(read[key], score) for key, score in best.items() if key in read]
    return FoundEntries(
        hits,
        sum(hit.entry.tokens for hit in hits),
        by_words=bool(candidates.hits.any()),
        by_vectors=candidates.similarity is not None and bool(np.isfinite(candidates.similarity).any()),
    )


def entries_bearing(access: Access, question: str, *, most: int, now: datetime) -> list[int]:
    """Ids of the entries that `find_entries` finds, those whose time is over as well, the best first; none is read."""
    wanted = asked(access.workspace_id, question)
    if access.knowledge == "none" or wanted.is_empty:
        return []
    where = _certainly(access, is_lapsed_wanted=True, now=now)
    return list(_best_of(Usable(access, now, lapsed=True), wanted, where, most=most)[1])


def similar_entries(access: Access, text: str, *, most: int = 5, without: int | None = None) -> list[FoundEntry]:
    """The entries that hold and are like a text, the most similar first; none where all are about something else.

    `without` is the id of one left out.
    """
    found = [hit for hit in find_entries(access, text, most=LOOKED_AT * most).hits if hit.entry.pk != without]
    said = {hit.entry.pk: f"{hit.entry.topic}\n{hit.entry.content}" for hit in found}
    similar = alike(access.workspace_id, text, said) if said else set()
    return [hit for hit in found if hit.entry.pk in similar][:most]


def _best_of(
    usable: Usable, wanted: Asked, where: sql.Composable, *, most: int, budget: int | None = None
) -> tuple[Candidates | None, dict[int, float]]:
    """What came into question, and the score of each entry that is to be the answer, by id, the best first."""
    ids = ENTRIES.candidate_ids(wanted, where)
    seen = usable.ids(ids) if ids else []
    if not seen:
        return None, {}
    candidates = numbers_of(wanted, seen)
    best = ENTRIES.best_of(wanted, candidates, most=most, budget=budget)
    return candidates, {int(candidates.keys[place]): score for place, score in best}  # type: ignore[call-overload]  # keys are ids here


def _certainly(access: Access, *, is_lapsed_wanted: bool, now: datetime) -> sql.Composable:
    """What every entry that is wanted fulfils; the querysets decide."""
    parts: list[sql.Composable] = [sql.SQL("e.workspace_id = {}").format(access.workspace_id)]
    if not is_lapsed_wanted:
        parts.append(
            sql.SQL("e.status = 'active' AND (e.expires_at IS NULL OR e.expires_at > {})").format(now.isoformat())
        )
    if access.knowledge != "restricted":
        mine = sql.SQL(" OR e.author_id = {0} OR e.owner_id = {0}").format(access.participant_id)
        parts.append(sql.SQL("(e.visibility = 'shared'{})").format(sql.SQL("") if access.is_agent else mine))
    return sql.SQL(" AND ").join(parts)
