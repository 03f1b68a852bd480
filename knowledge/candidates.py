"""Which entries come into question for a question: by words and by meaning, a bounded number of them.

Here rows are only found; who may read which, and which hold, is decided where they are read (`knowledge.finding`).
The conditions here leave out what certainly is not wanted, so that the bounded number is not used up by it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np
from django.db import connection
from numpy.typing import NDArray
from psycopg import sql

from openvibe.base.prepared import prepared_rows
from openvibe.search.asking import Asked, bits_of
from openvibe.search.statistics import Statistics, statistics
from openvibe.search.values import Candidates

BY_WORDS = 80
BY_MEANING = 60

MANY = 600
"""Entries that may be expected to hold what is looked up, and are read for it."""

PAIRED = 6
"""So many terms, the rarest, are looked up two by two when they are too frequent to be looked up by themselves."""

EXACT = 4_000
"""Up to so many vectors of a workspace, each is compared with the question."""

_BY_WORDS = sql.SQL("""SELECT id FROM knowledge_entry e WHERE search @@ {words}::tsquery AND {where}
ORDER BY {weight} DESC, id DESC LIMIT {most}""")

_BY_ONE_WORD = sql.SQL("""SELECT id FROM knowledge_entry e WHERE search @@ {words}::tsquery AND {where}
ORDER BY id DESC LIMIT {most}""")

_SIZE = """SELECT count(*) FROM (SELECT FROM knowledge_entryvector WHERE space_id = %s LIMIT %s) counted"""

_BY_COMPARING = sql.SQL("""SELECT id FROM (SELECT e.id, v.own <#> {vector}::halfvec AS far FROM knowledge_entryvector v
JOIN knowledge_entry e ON e.id = v.entry_id WHERE v.space_id = {space} AND v.dimension = {dimension} AND {where}
OFFSET 0) compared ORDER BY far LIMIT {most}""")

# The settings hold for this statement, or to the end of the transaction around it; they touch vector searches alone.
_BY_INDEX = sql.SQL("""SELECT e.id FROM knowledge_entryvector v JOIN knowledge_entry e ON e.id = v.entry_id
WHERE (SELECT set_config('hnsw.ef_search', '80', true) || set_config('hnsw.iterative_scan', 'relaxed_order', true)
|| set_config('hnsw.max_scan_tuples', '3000', true)) IS NOT NULL
AND v.dimension = {dimension} AND v.space_id = {space} AND {where}
ORDER BY v.own::halfvec({dimension}) <=> {vector}::halfvec({dimension}) LIMIT {most}""")

_NUMBERS = sql.SQL("""SELECT e.id, e.tokens, hashtext(e.content), e.held, e.topics,
coalesce(-(v.own <#> %(vector)s::halfvec)::float4, 'NaN')
FROM (SELECT id, tokens, content, {bits} AS held, {topics} AS topics FROM
(SELECT id, tokens, content, search, topic || ' ' || content AS body FROM knowledge_entry
WHERE id = ANY(%(ids)s::bigint[])) asked OFFSET 0) e LEFT JOIN knowledge_entryvector v
ON v.entry_id = e.id AND v.space_id = %(space)s AND v.dimension = %(dimension)s ORDER BY e.id""")


def candidate_ids(asked: Asked, where: sql.Composable, *, workspace_id: int) -> list[int]:
    """Ids of at most 140 entries of the workspace that fulfil `where` (a condition on `e`) and bear on the question
    by their words or their meaning."""
    everybody = _everybody()
    within = sql.SQL("e.workspace_id = {} AND {}").format(workspace_id, where)
    return sorted({*_by_words(asked, within, everybody), *_by_meaning(asked, within, everybody)})


def _by_words(asked: Asked, where: sql.Composable, everybody: Statistics) -> Sequence[int]:
    indexed = [term.text for term in asked.terms if term.is_indexed]
    found: list[int] = []
    if indexed:
        words = words_to_look_up(indexed, everybody)
        weight = sql.SQL(" + ").join(
            sql.SQL("CASE WHEN search @@ {}::tsquery THEN {} ELSE 0 END").format(text, _weight(text, everybody))
            for text in indexed
        )
        rarest = min(indexed, key=everybody.of)
        found = (
            _ids(_BY_WORDS.format(words=words, where=where, weight=weight, most=BY_WORDS))
            if words
            else _ids(_BY_ONE_WORD.format(words=rarest, where=where, most=BY_WORDS))
        )
    for text in (term.text for term in asked.terms if not term.is_indexed):
        holds = sql.SQL("strpos(e.topic || ' ' || e.content, {}) > 0 AND {}").format(text, where)
        found += _ids(sql.SQL("SELECT id FROM knowledge_entry e WHERE {} ORDER BY id DESC LIMIT 40").format(holds))
    return found


def words_to_look_up(lexemes: Sequence[str], everybody: Statistics) -> str:
    """A tsquery: rare words each by itself, the others two by two, as long as not too many entries are expected to
    hold them. Empty when all of them are too frequent."""
    left = float(MANY)
    wanted: list[str] = []
    others: list[str] = []
    for lexeme in sorted(lexemes, key=everybody.of):
        if everybody.of(lexeme) <= left:
            left -= everybody.of(lexeme)
            wanted.append(lexeme)
        else:
            others.append(lexeme)
    texts = max(everybody.texts, 1.0)
    for one, other in combinations(others[:PAIRED], 2):
        left -= everybody.of(one) * everybody.of(other) / texts
        if left >= 0:
            wanted.append(f"({one} & {other})")
    return " | ".join(wanted)


def _weight(lexeme: str, everybody: Statistics) -> float:
    holding = everybody.of(lexeme)
    return round(float(np.log1p((max(everybody.texts - holding, 0) + 0.5) / (holding + 0.5))), 3)


def _by_meaning(asked: Asked, where: sql.Composable, everybody: Statistics) -> Sequence[int]:
    question = asked.question
    if question is None:
        return []
    few = prepared_rows(_SIZE, [question.space_id, EXACT + 1])[0][0] <= EXACT
    statement = _BY_COMPARING if few else _BY_INDEX
    return _ids(
        statement.format(
            vector=asked.vector,
            space=question.space_id,
            dimension=question.dimension,
            where=where,
            most=BY_MEANING,
        )
    )


def _ids(statement: sql.Composed) -> list[int]:
    """Planned each time: the best way to look something up depends on what it is."""
    with connection.cursor() as cursor:
        cursor.execute(statement.as_string())
        return [row[0] for row in cursor.fetchall()]


def numbers_of(asked: Asked, ids: Sequence[int]) -> Candidates:
    """What the ranking needs of these entries. A word in the topic counts three times."""
    question = asked.question
    values: Mapping[str, object] = {
        **asked.values,
        **{f"topic{place}": f"{term.text}:A" for place, term in enumerate(asked.terms) if term.is_indexed},
        "ids": f"{{{','.join(map(str, ids))}}}",
        "vector": asked.vector if question else "[0]",
        "space": question.space_id if question else 0,
        "dimension": question.dimension if question else 0,
    }
    statement = _NUMBERS.format(bits=bits_of(asked.shape), topics=_topics(asked)).as_string()
    rows = prepared_rows(statement, values)
    columns: NDArray[np.int64] = np.array([row[:5] for row in rows], np.int64).reshape(len(rows), 5)
    hits = asked.hits(columns[:, 3]) + 2 * asked.hits(columns[:, 4])
    tokens = columns[:, 1]
    return Candidates(
        keys=columns[:, 0].tolist(),
        orders=columns[:, 0],
        tokens=tokens,
        words=tokens,
        hits=hits,
        similarity=np.array([row[5] for row in rows], np.float32) if question else None,
        fingerprints=columns[:, 2],
    )


def _topics(asked: Asked) -> sql.Composable:
    """Which terms stand in the topic, as bits."""
    held = [
        sql.SQL("CASE WHEN search @@ {}::tsquery THEN {} ELSE 0 END").format(
            sql.Placeholder(f"topic{place}"), 1 << place
        )
        for place, term in enumerate(asked.terms)
        if term.is_indexed
    ]
    return sql.SQL(" | ").join(held) if held else sql.SQL("0")


def frequencies(asked: Asked) -> tuple[list[float], int] | None:
    """How many entries hold each term, of how many; None while the database has not looked at its tables."""
    everybody = _everybody()
    if not everybody.texts or not everybody.holding:
        return None
    return [everybody.of(term.text) for term in asked.terms], int(everybody.texts)


def _everybody() -> Statistics:
    return statistics("knowledge_entry", "knowledge_entryvector")
