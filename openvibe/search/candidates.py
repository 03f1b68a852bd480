"""Which texts of a table come into question for a question: by words and by meaning, a bounded number of them.

Here rows are only found. Who may read which is decided by the condition that whoever asks brings along, and again
where the texts are read.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, LiteralString

import numpy as np
from django.db import connection
from django.db.models import QuerySet
from numpy.typing import NDArray
from psycopg import sql

from openvibe.base.prepared import prepared_rows
from openvibe.search.asking import Asked
from openvibe.search.ranking import rank, worth
from openvibe.search.selection import select
from openvibe.search.statistics import Statistics, statistics
from openvibe.search.values import Candidates

BY_WORDS = 80
BY_MEANING = 60

MANY = 600
"""Texts that may be expected to hold what is looked up, and are read for it."""

PAIRED = 6
"""So many terms, the rarest, are looked up two by two when they are too frequent to be looked up by themselves."""

EXACT = 4_000
"""Up to so many vectors of a space, each is compared with the question."""

REMEMBERED_SECONDS = 60.0
"""How long a space that had more goes on being one that has."""
_had_many_at: dict[tuple[str, str, int], float] = {}

NEAR = 0.85
LEAST = 0.25
"""A text that holds none of the words stands for its meaning alone: at least as near as those that hold some, or by
this share of the nearest where none does; and by this cosine in any case, since unrelated texts have one near 0."""

_BY_WORDS = sql.SQL("""SELECT id FROM {texts} e WHERE search @@ {words}::tsquery AND {where}
ORDER BY {weight} DESC, id DESC LIMIT {most}""")

_BY_ONE_WORD = sql.SQL("""SELECT id FROM {texts} e WHERE search @@ {words}::tsquery AND {where}
ORDER BY id DESC LIMIT {most}""")

_BY_PIECE = sql.SQL("""SELECT id FROM {texts} e WHERE strpos({said}, {piece}) > 0 AND {where}
ORDER BY id DESC LIMIT {most}""")

_SIZE = sql.SQL("SELECT count(*) FROM (SELECT FROM {vectors} WHERE space_id = %s LIMIT %s) counted")

_BY_COMPARING = sql.SQL("""SELECT id FROM (SELECT e.id, v.own <#> {vector}::halfvec AS far FROM {vectors} v
JOIN {texts} e ON e.id = v.{item} WHERE v.space_id = {space} AND v.dimension = {dimension} AND {where}
OFFSET 0) compared ORDER BY far LIMIT {most}""")

# The settings hold for this statement, or to the end of the transaction around it; they touch vector searches alone.
_BY_INDEX = sql.SQL("""SELECT e.id FROM {vectors} v JOIN {texts} e ON e.id = v.{item}
WHERE (SELECT set_config('hnsw.ef_search', '80', true) || set_config('hnsw.iterative_scan', 'relaxed_order', true)
|| set_config('hnsw.max_scan_tuples', '3000', true)) IS NOT NULL
AND v.dimension = {dimension} AND v.space_id = {space} AND {where}
ORDER BY v.own::halfvec({dimension}) <=> {vector}::halfvec({dimension}) LIMIT {most}""")


@dataclass(frozen=True)
class Texts:
    """A table of texts with a tsvector `search`, called `e` in conditions; `said` is SQL for what a text says.

    `vectors` is the table of their vectors, which names them in its column `item`.
    """

    texts: LiteralString
    said: LiteralString
    vectors: LiteralString
    item: LiteralString

    def known(self) -> Statistics:
        return statistics(self.texts)

    def candidate_ids(self, asked: Asked, where: sql.Composable) -> list[int]:
        """Ids of a bounded number of texts that fulfil `where` and bear on the question by words or meaning."""
        return sorted({*self._by_words(asked, where), *self._by_meaning(asked, where)})

    def best_of(
        self, asked: Asked, candidates: Candidates, *, most: int, budget: int | None = None
    ) -> list[tuple[int, float]]:
        """Places and scores of those that bear on the question, the best first: at most `most`, and `budget` tokens.

        For texts that stand alone: what was said around them does not count.
        """
        holding, population = self._frequencies(asked)
        scores = rank(candidates, frequencies=holding, population=population, ordered=False)
        places = np.flatnonzero(bearing(candidates))
        those = candidates.only(places)
        room = int(those.tokens.sum()) if budget is None else budget
        chosen = places[select(scores[places], those, budget=room, most=most)].tolist()
        return [(place, float(scores[place])) for place in chosen]

    def _frequencies(self, asked: Asked) -> tuple[list[float] | None, int | None]:
        """How many texts hold each term, of how many; None while the database has not looked at its tables."""
        known = self.known()
        if not known.texts or not known.holding:
            return None, None
        return [known.of(term.text) for term in asked.terms], int(known.texts)

    def _by_words(self, asked: Asked, where: sql.Composable) -> list[int]:
        found: list[int] = []
        for piece in (term.text for term in asked.terms if not term.is_indexed):
            found += self._ids(_BY_PIECE, where, BY_WORDS // 2, said=sql.SQL(self.said), piece=sql.Literal(piece))
        indexed = [term.text for term in asked.terms if term.is_indexed]
        if not indexed:
            return found
        known = self.known()
        if not (words := words_to_look_up(indexed, known)):
            rarest = sql.Literal(min(indexed, key=known.of))
            return [*found, *self._ids(_BY_ONE_WORD, where, BY_WORDS, words=rarest)]
        weight = sql.SQL(" + ").join(
            sql.SQL("CASE WHEN search @@ {}::tsquery THEN {} ELSE 0 END").format(text, _weight(text, known))
            for text in indexed
        )
        return [*found, *self._ids(_BY_WORDS, where, BY_WORDS, words=sql.Literal(words), weight=weight)]

    def _by_meaning(self, asked: Asked, where: sql.Composable) -> list[int]:
        question = asked.question
        if question is None:
            return []
        return self._ids(
            _BY_INDEX if self._has_many(question.space_id) else _BY_COMPARING,
            where,
            BY_MEANING,
            vector=sql.Literal(asked.vector),
            space=sql.Literal(question.space_id),
            dimension=sql.Literal(question.dimension),
        )

    def _has_many(self, space_id: int) -> bool:
        """Whether a space has more vectors than are compared one by one. One that did is asked again after a minute."""
        now, key = time.monotonic(), (str(connection.settings_dict["NAME"]), self.vectors, space_id)
        if now - _had_many_at.get(key, -REMEMBERED_SECONDS) < REMEMBERED_SECONDS:
            return True
        counting = _SIZE.format(vectors=sql.Identifier(self.vectors)).as_string()
        has_many = bool(prepared_rows(counting, [space_id, EXACT + 1])[0][0] > EXACT)
        if has_many:
            _had_many_at[key] = now
        return has_many

    def _ids(self, statement: sql.SQL, where: sql.Composable, most: int, **parts: sql.Composable) -> list[int]:
        """Planned each time: the best way to look something up depends on what it is."""
        composed = statement.format(
            texts=sql.Identifier(self.texts),
            vectors=sql.Identifier(self.vectors),
            item=sql.Identifier(self.item),
            where=where,
            most=most,
            **parts,
        )
        with connection.cursor() as cursor:
            cursor.execute(composed.as_string())
            return [row[0] for row in cursor.fetchall()]


def words_to_look_up(lexemes: Sequence[str], known: Statistics) -> str:
    """A tsquery: rare words each by itself, the others two by two, as long as not too many texts are expected to
    hold them. Empty when all of them are too frequent."""
    left = float(MANY)
    wanted: list[str] = []
    others: list[str] = []
    for lexeme in sorted(lexemes, key=known.of):
        if known.of(lexeme) <= left:
            left -= known.of(lexeme)
            wanted.append(lexeme)
        else:
            others.append(lexeme)
    texts = max(known.texts, 1.0)
    for one, other in combinations(others[:PAIRED], 2):
        left -= known.of(one) * known.of(other) / texts
        if left >= 0:
            wanted.append(f"({one} & {other})")
    return " | ".join(wanted)


def bearing(candidates: Candidates) -> NDArray[np.bool_]:
    """Which bear on the question at all: they hold a word of it, or are near enough in meaning."""
    holds: NDArray[np.bool_] = np.asarray(candidates.hits.any(axis=1))
    near = candidates.similarity
    if near is None or not np.isfinite(near).any():
        return holds
    with_words = near[holds & np.isfinite(near)]
    enough = float(with_words.mean()) if len(with_words) else NEAR * float(np.nanmax(near))
    return holds | (near >= max(enough, LEAST))


def written_out(rows: QuerySet[Any]) -> sql.Composable:
    """The ids of a queryset as SQL, its values written out."""
    statement, values = rows.order_by().values("pk").query.sql_with_params()
    pieces = statement.split("%s")
    written: list[sql.Composable] = [sql.SQL(pieces[0])]
    for piece, value in zip(pieces[1:], values, strict=True):
        written += [sql.Literal(value), sql.SQL(piece)]
    return sql.Composed(written)


def _weight(lexeme: str, known: Statistics) -> float:
    return round(float(worth(known.of(lexeme), known.texts)), 3)
