"""Words that very many messages hold, whoever wrote them: from the planner's statistics, read now and then."""

from __future__ import annotations

import time
from collections.abc import Mapping

from django.db import connection

REMEMBERED_SECONDS = 300.0

_COMMON = """SELECT s.most_common_elems::text::text[], s.most_common_elem_freqs, c.reltuples
FROM pg_stats s JOIN pg_class c ON c.oid = 'chat_message'::regclass
WHERE s.schemaname = current_schema() AND s.tablename = 'chat_message' AND s.attname = 'search'"""

_known: dict[str, tuple[float, Mapping[str, float]]] = {}


def common_words() -> Mapping[str, float]:
    """About how many messages of the whole database hold each of the most frequent lexemes. At most minutes old."""
    name = str(connection.settings_dict["NAME"])
    read_at, words = _known.get(name, (None, {}))
    now = time.monotonic()
    if read_at is None or now - read_at > REMEMBERED_SECONDS:
        words = _read()
        _known[name] = (now, words)
    return words


def _read() -> Mapping[str, float]:
    with connection.cursor() as cursor:
        cursor.execute(_COMMON)
        row = cursor.fetchone()
    if row is None or not row[0]:
        return {}
    words, shares, messages = row
    return {word: share * messages for word, share in zip(words, shares, strict=False)}
