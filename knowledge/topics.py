"""The index of what is known: topics by kind, without contents."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby

from django.db.models import Count, QuerySet

from knowledge.models import Entry

INDEXED = 500
"""Topics that an index names at most."""


@dataclass(frozen=True, slots=True)
class Topic:
    topic: str
    entries: int


@dataclass(frozen=True, slots=True)
class IndexedKind:
    kind: str
    topics: tuple[Topic, ...]


def topics_by_kind(entries: QuerySet[Entry]) -> tuple[tuple[IndexedKind, ...], bool]:
    """Topics with how many of these entries each has, by kind and then by alphabet; whether that is all of them."""
    counted = entries.order_by("kind", "topic").values_list("kind", "topic").annotate(count=Count("pk"))
    rows = list(counted[: INDEXED + 1])
    kinds = tuple(
        IndexedKind(kind, tuple(Topic(topic, count) for _, topic, count in group))
        for kind, group in groupby(rows[:INDEXED], key=lambda row: row[0])
    )
    return kinds, len(rows) <= INDEXED
