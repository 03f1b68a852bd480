"""What the planner knows of all messages: which words very many of them hold, how many have vectors. Read now and
then: it only decides how something is looked up."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from django.db import connection

REMEMBERED_SECONDS = 300.0

_READ = """SELECT s.most_common_elems::text::text[], s.most_common_elem_freqs, greatest(c.reltuples, 0),
(SELECT greatest(reltuples, 0) FROM pg_class WHERE oid = 'chat_messagevector'::regclass)
FROM pg_class c LEFT JOIN pg_stats s ON s.schemaname = current_schema() AND s.tablename = 'chat_message'
AND s.attname = 'search' WHERE c.oid = 'chat_message'::regclass"""


@dataclass(frozen=True, slots=True)
class Statistics:
    """`holding`: about how many messages hold each of the most frequent lexemes. All of it zero until the database
    has looked at its tables."""

    vectors: float = 0.0
    holding: Mapping[str, float] = field(default_factory=dict)


_known: dict[str, tuple[float, Statistics]] = {}


def statistics() -> Statistics:
    """Of the whole database, at most minutes old."""
    name = str(connection.settings_dict["NAME"])
    read_at, found = _known.get(name, (None, Statistics()))
    now = time.monotonic()
    if read_at is None or now - read_at > REMEMBERED_SECONDS:
        found = _read()
        _known[name] = (now, found)
    return found


def _read() -> Statistics:
    with connection.cursor() as cursor:
        cursor.execute(_READ)
        row = cursor.fetchone()
    if row is None:
        return Statistics()
    words, shares, messages, vectors = row
    return Statistics(vectors, {word: share * messages for word, share in zip(words or (), shares or (), strict=False)})
