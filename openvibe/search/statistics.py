"""What the planner knows of a table of texts: which words very many of them hold, how many have vectors. Read now and
then: it only decides how something is looked up."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from django.db import connection

REMEMBERED_SECONDS = 300.0

_READ = """SELECT s.most_common_elems::text::text[], s.most_common_elem_freqs, greatest(c.reltuples, 0)
FROM pg_class c LEFT JOIN pg_stats s ON s.schemaname = current_schema() AND s.tablename = %(texts)s
AND s.attname = 'search' WHERE c.oid = %(texts)s::regclass"""


@dataclass(frozen=True, slots=True)
class Statistics:
    """`texts` rows; `holding`: about how many of all texts hold each of the most frequent lexemes, and
    `at_most` how many may hold any other. All of it zero until the database has looked at its tables."""

    texts: float = 0.0
    holding: Mapping[str, float] = field(default_factory=dict)
    at_most: float = 0.0

    def of(self, lexeme: str) -> float:
        """About how many texts hold it, at most."""
        return self.holding.get(lexeme.strip("'"), self.at_most)


_known: dict[tuple[str, str], tuple[float, Statistics]] = {}


def statistics(texts: str) -> Statistics:
    """Of this table of the whole database, at most minutes old. It has a tsvector called `search`."""
    name = str(connection.settings_dict["NAME"]), texts
    read_at, found = _known.get(name, (None, Statistics()))
    now = time.monotonic()
    if read_at is None or now - read_at > REMEMBERED_SECONDS:
        found = _read(texts)
        _known[name] = (now, found)
    return found


def _read(texts: str) -> Statistics:
    with connection.cursor() as cursor:
        cursor.execute(_READ, {"texts": texts})
        row = cursor.fetchone()
    if row is None:
        return Statistics()
    words, shares, rows = row
    holding = {word: share * rows for word, share in zip(words or (), shares or (), strict=False)}
    return Statistics(rows, holding, min(holding.values(), default=0.0))
