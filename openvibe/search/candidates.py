"""Candidate generation for a query: by full text (tsquery, by document frequency) and by vector (exact or HNSW).

Here rows are only found, a bounded number of them. Who may read which is decided by the condition that the caller
brings along, and again where the texts are read. Document frequencies come from the planner's statistics, read now
and then: they only decide how something is looked up."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, LiteralString

import numpy as np
from django.db import connection
from django.db.models import QuerySet
from numpy.typing import NDArray
from psycopg import sql

from openvibe.base.prepared_statements import fetch_prepared
from openvibe.search.bm25 import idf
from openvibe.search.query import Query
from openvibe.search.ranking import rank
from openvibe.search.selection import select
from openvibe.search.values import Candidates, Floats

STATISTICS_CACHE_SECONDS = 300.0

_SELECT_STATISTICS = """SELECT s.most_common_elems::text::text[], s.most_common_elem_freqs, greatest(c.reltuples, 0)
FROM pg_class c LEFT JOIN pg_stats s ON s.schemaname = current_schema() AND s.tablename = %(texts)s
AND s.attname = 'search' WHERE c.oid = %(texts)s::regclass"""


@dataclass(frozen=True, slots=True)
class TableStatistics:
    """`corpus_size` rows; `document_frequencies`: about how many of all texts hold each of the most frequent lexemes,
    and `max_unlisted_frequency` how many may hold any other. All of it zero until the database has analyzed its tables.
    """

    corpus_size: float = 0.0
    document_frequencies: Mapping[str, float] = field(default_factory=dict)
    max_unlisted_frequency: float = 0.0

    @property
    def is_analyzed(self) -> bool:
        return bool(self.corpus_size and self.document_frequencies)

    def document_frequency(self, lexeme: str) -> float:
        """About how many texts hold it, at most."""
        return self.document_frequencies.get(lexeme.strip("'"), self.max_unlisted_frequency)


_statistics_cache: dict[tuple[str, str], tuple[float, TableStatistics]] = {}


def table_statistics(table: str) -> TableStatistics:
    """Of this table of the whole database, at most minutes old. It has a tsvector called `search`."""
    key = str(connection.settings_dict["NAME"]), table
    read_at, statistics = _statistics_cache.get(key, (None, TableStatistics()))
    now = time.monotonic()
    if read_at is None or now - read_at > STATISTICS_CACHE_SECONDS:
        with connection.cursor() as cursor:
            cursor.execute(_SELECT_STATISTICS, {"texts": table})
            lexemes, frequencies, row_count = cursor.fetchone() or ((), (), 0.0)
        document_frequencies = {
            lexeme: frequency * row_count for lexeme, frequency in zip(lexemes or (), frequencies or (), strict=False)
        }
        statistics = TableStatistics(row_count, document_frequencies, min(document_frequencies.values(), default=0.0))
        _statistics_cache[key] = (now, statistics)
    return statistics


MAX_LEXICAL_HITS = 80
MAX_VECTOR_HITS = 60

MAX_MATCHES = 600
"""Texts that may be expected to hold what is looked up, and are read for it."""

MAX_PAIRED_TERMS = 6
"""So many terms, the rarest, are looked up two by two when they are too frequent to be looked up by themselves."""

MAX_EXACT_SCAN = 4_000
"""Up to so many vectors of a space, each is compared with the question."""

MAX_COUNTED_VECTORS = 20_000
"""Vectors of a space that are counted."""

SPACE_SIZE_CACHE_SECONDS = 60.0
"""How long the count of a space's vectors holds; of a space small enough to be compared whole, for one search."""

_space_sizes: dict[tuple[str, str, int], tuple[float, int]] = {}
"""When the vectors of a space were counted last, and how many there were."""

_NEVER_COUNTED = (-SPACE_SIZE_CACHE_SECONDS, 0)

MIN_COSINE_RATIO = 0.85
MIN_COSINE = 0.25
"""A text that holds none of the words stands for its meaning alone: at least as near as those that hold some, or by
this share of the nearest where none does; and by this cosine in any case, since unrelated texts have one near 0."""

_TEXT_SEARCH = sql.SQL("SELECT id FROM {texts} e WHERE {match} AND {where} ORDER BY {weight}id DESC LIMIT {most}")

_COUNT_VECTORS = sql.SQL("SELECT count(*) FROM (SELECT FROM {vectors} WHERE space_id = %s LIMIT %s) counted")

_EXACT_VECTOR_SEARCH = sql.SQL("""SELECT id FROM (SELECT e.id, v.own <#> {vector}::halfvec AS far FROM {vectors} v
JOIN {texts} e ON e.id = v.{item} WHERE v.space_id = {space} AND v.dimension = {dimension} AND {where}
OFFSET 0) compared ORDER BY far LIMIT {most}""")

# The settings hold for this statement, or to the end of the transaction around it; they touch vector searches alone.
_HNSW_SEARCH = sql.SQL("""SELECT e.id FROM {vectors} v JOIN {texts} e ON e.id = v.{item}
WHERE (SELECT set_config('hnsw.ef_search', '80', true) || set_config('hnsw.iterative_scan', 'relaxed_order', true)
|| set_config('hnsw.max_scan_tuples', '3000', true)) IS NOT NULL
AND v.dimension = {dimension} AND v.space_id = {space} AND {where}
ORDER BY v.own::halfvec({dimension}) <=> {vector}::halfvec({dimension}) LIMIT {most}""")


@dataclass(frozen=True)
class TextTable:
    """A table of texts with a tsvector `search`, called `e` in conditions; `text_sql` is SQL for what a text says.

    `vector_table` is the table of their vectors, which names them in its column `item_column`.
    """

    table: LiteralString
    text_sql: LiteralString
    vector_table: LiteralString
    item_column: LiteralString

    def candidate_ids(self, query: Query, where: sql.Composable) -> list[int]:
        """Ids of a bounded number of texts that fulfil `where` and bear on the question by words or meaning."""
        return sorted({*self._lexical_ids(query, where), *self._vector_ids(query, where)})

    def top_hits(
        self, query: Query, candidates: Candidates, *, max_hits: int, budget: int | None = None
    ) -> list[tuple[int, float]]:
        """Places and scores of those that bear on the question, the best first: at most `max_hits`, `budget` tokens."""
        scores = self.scores(query, candidates)
        relevant = np.flatnonzero(is_relevant(candidates))
        among = candidates.take(relevant)
        max_tokens = int(among.tokens.sum()) if budget is None else budget
        chosen = relevant[select(scores[relevant], among, budget=max_tokens, max_hits=max_hits)]
        return [(index, float(scores[index])) for index in chosen.tolist()]

    def scores(self, query: Query, candidates: Candidates) -> Floats:
        """How well each answers the question (n), by itself: what was said around it does not count."""
        statistics = table_statistics(self.table)
        frequencies = [statistics.document_frequency(term.text) for term in query.terms]
        return rank(
            candidates,
            document_frequencies=frequencies if statistics.is_analyzed else None,
            corpus_size=int(statistics.corpus_size) if statistics.is_analyzed else None,
            use_neighbours=False,
        )

    def idfs(self, query: Query) -> Floats:
        """The inverse document frequency of each term; all the same until the database has analyzed its tables."""
        statistics = table_statistics(self.table)
        frequencies = [statistics.document_frequency(term.text) for term in query.terms]
        return (
            idf(frequencies, statistics.corpus_size)
            if statistics.is_analyzed
            else np.ones(len(frequencies), np.float32)
        )

    def _lexical_ids(self, query: Query, where: sql.Composable) -> list[int]:
        ids: list[int] = []
        for substring in (term.text for term in query.terms if not term.is_indexed):
            match = sql.SQL("strpos({}, {}) > 0").format(sql.SQL(self.text_sql), substring)
            ids += self._fetch_ids(_TEXT_SEARCH, where, MAX_LEXICAL_HITS // 2, match=match, weight=sql.SQL(""))
        lexemes = [term.text for term in query.terms if term.is_indexed]
        if not lexemes:
            return ids
        statistics = table_statistics(self.table)
        weight: sql.Composable = sql.SQL("")
        if tsquery := build_tsquery(lexemes, statistics):
            weight = sql.SQL("{} DESC, ").format(_idf_sum(lexemes, statistics))
        else:
            tsquery = min(lexemes, key=statistics.document_frequency)
        match = sql.SQL("search @@ {}::tsquery").format(tsquery)
        return [*ids, *self._fetch_ids(_TEXT_SEARCH, where, MAX_LEXICAL_HITS, match=match, weight=weight)]

    def _vector_ids(self, query: Query, where: sql.Composable) -> list[int]:
        if query.embedding is None:
            return []
        statement = _HNSW_SEARCH if self._is_large_space(query.embedding.space_id) else _EXACT_VECTOR_SEARCH
        literals = {name: sql.Literal(value) for name, value in query.vector_parameters.items()}
        return self._fetch_ids(statement, where, MAX_VECTOR_HITS, **literals)

    def space_size(self, space_id: int) -> int:
        """How many vectors a space has, as counted for the last search in it; at most a minute ago."""
        key = str(connection.settings_dict["NAME"]), self.vector_table, space_id
        counted_at, size = _space_sizes.get(key, _NEVER_COUNTED)
        return size if time.monotonic() - counted_at < SPACE_SIZE_CACHE_SECONDS else self._count_vectors(space_id)

    def _is_large_space(self, space_id: int) -> bool:
        """Whether a space has more vectors than are compared one by one. One that did is counted again after a minute,
        a smaller one each time."""
        key = str(connection.settings_dict["NAME"]), self.vector_table, space_id
        counted_at, size = _space_sizes.get(key, _NEVER_COUNTED)
        if size <= MAX_EXACT_SCAN or time.monotonic() - counted_at >= SPACE_SIZE_CACHE_SECONDS:
            size = self._count_vectors(space_id)
        return size > MAX_EXACT_SCAN

    def _count_vectors(self, space_id: int) -> int:
        statement = _COUNT_VECTORS.format(vectors=sql.Identifier(self.vector_table)).as_string()
        size = int(fetch_prepared(statement, [space_id, MAX_COUNTED_VECTORS])[0][0])
        _space_sizes[str(connection.settings_dict["NAME"]), self.vector_table, space_id] = time.monotonic(), size
        return size

    def _fetch_ids(self, statement: sql.SQL, where: sql.Composable, most: int, **parts: sql.Composable) -> list[int]:
        """Planned each time: the best way to look something up depends on what it is."""
        composed = statement.format(
            texts=sql.Identifier(self.table),
            vectors=sql.Identifier(self.vector_table),
            item=sql.Identifier(self.item_column),
            where=where,
            most=most,
            **parts,
        )
        with connection.cursor() as cursor:
            cursor.execute(composed.as_string())
            return [row[0] for row in cursor.fetchall()]


def build_tsquery(lexemes: Sequence[str], statistics: TableStatistics) -> str:
    """A tsquery: rare words each by itself, the others two by two, as long as not too many texts are expected to
    hold them. Empty when all of them are too frequent."""
    remaining = float(MAX_MATCHES)
    lookups: list[str] = []
    frequent: list[str] = []
    for lexeme in sorted(lexemes, key=statistics.document_frequency):
        if statistics.document_frequency(lexeme) <= remaining:
            remaining -= statistics.document_frequency(lexeme)
            lookups.append(lexeme)
        else:
            frequent.append(lexeme)
    corpus_size = max(statistics.corpus_size, 1.0)
    for first, second in combinations(frequent[:MAX_PAIRED_TERMS], 2):
        remaining -= statistics.document_frequency(first) * statistics.document_frequency(second) / corpus_size
        if remaining >= 0:
            lookups.append(f"({first} & {second})")
    return " | ".join(lookups)


def is_relevant(candidates: Candidates) -> NDArray[np.bool_]:
    """Which bear on the question at all: they hold a word of it, or are near enough in meaning."""
    has_term: NDArray[np.bool_] = np.asarray(candidates.hits.any(axis=1))
    cosine = candidates.similarity
    if cosine is None or not np.isfinite(cosine).any():
        return has_term
    cosine_with_terms = cosine[has_term & np.isfinite(cosine)]
    min_cosine = (
        float(cosine_with_terms.mean()) if len(cosine_with_terms) else MIN_COSINE_RATIO * float(np.nanmax(cosine))
    )
    return has_term | (cosine >= max(min_cosine, MIN_COSINE))


def inline_ids_sql(rows: QuerySet[Any]) -> sql.Composable:
    """The ids of a queryset as SQL, its values written out."""
    statement, values = rows.order_by().values("pk").query.sql_with_params()
    template = statement.replace("{", "{{").replace("}", "}}").replace("%s", "{}")
    return sql.SQL(template).format(*map(sql.Literal, values))


def _idf_sum(lexemes: Sequence[str], statistics: TableStatistics) -> sql.Composed:
    """The idf of all lexemes that a text holds, added up."""
    return sql.SQL(" + ").join(
        sql.SQL("CASE WHEN search @@ {}::tsquery THEN {} ELSE 0 END").format(
            lexeme, round(float(idf(statistics.document_frequency(lexeme), statistics.corpus_size)), 3)
        )
        for lexeme in lexemes
    )
