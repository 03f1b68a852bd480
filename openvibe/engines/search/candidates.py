"""Candidate generation for a query: by full text (tsquery, by document frequency) and by vector (exact or HNSW).

Here rows are only found, a bounded number of them. Who may read which is decided by the condition that the caller
brings along, and again where the texts are read. The planner's statistics, read now and then, count the words of all
texts there are: they only decide how something is looked up. How rare a word is to the ranking, the candidates tell,
which the asker may read: a count of all would tell of what she may not (Wang and others, "Side-Channel Attacks on
Shared Search Indexes", 2017)."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import combinations
from typing import Any, LiteralString, NamedTuple

import numpy as np
from django.core.exceptions import EmptyResultSet
from django.db import connection
from django.db.models import QuerySet
from numpy.typing import NDArray
from psycopg import sql

from openvibe.engines.database.prepared_statements import fetch_prepared, fetch_unprepared
from openvibe.engines.search.lexemes import Term
from openvibe.engines.search.query import Query, QueryShape
from openvibe.engines.search.ranking import idf, rank
from openvibe.engines.search.selection import select
from openvibe.engines.search.values import Candidates, Floats, has_vectors

STATISTICS_CACHE_SECONDS = 30.0
"""Reading them takes less than a search. By those from before an import, several times as many texts are read."""

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

    def document_frequency(self, lexeme: str) -> float:
        """The number of texts that hold it, about, at most."""
        return self.document_frequencies.get(lexeme, self.max_unlisted_frequency)

    def term_frequency(self, term: Term, *, unlisted: float | None = None) -> float:
        """The number of texts that hold a term, about, at most; `unlisted`: of a lexeme that is not among the most
        frequent."""
        rarest = self.max_unlisted_frequency if unlisted is None else unlisted
        frequency = self.document_frequencies.get
        return sum(
            min(max(frequency(operand.lexeme, rarest) for operand in place) for place in phrase)
            for phrase in term.alternatives
        )


_statistics_cache: dict[tuple[str, str], tuple[float, TableStatistics]] = {}


def table_statistics(table: str) -> TableStatistics:
    """Statistics of this table of the whole database, at most half a minute old. It has a tsvector called `search`."""
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
"""Texts of all that may be expected to hold what is looked up, all of it together. In threads of 11,000 messages, 2,000
found not a tenth of a percent more and took a fifth longer."""

MAX_READ_MATCHES = 4_000
"""Texts that are read when more do after all."""

MAX_PAIRED_TERMS = 6
"""The number of terms, the rarest, that are looked up two by two when they are too frequent to be looked up by
themselves."""

MAX_EXACT_SCAN = 4_000
"""The number of vectors of a space up to which each is compared with the question."""

MIN_INDEXED_SHARE = 0.02
"""All workspaces share an HNSW index, of which a search reads the 3,000 nearest: where a space has a smaller share of
all texts, hardly any of its own are among them, and so each is compared, too."""

MAX_FILTERED_SCAN = 1_000
"""The number of texts, the newest that a filter leaves, that are compared one by one as well."""

MAX_COUNTED_VECTORS = 20_000
"""Vectors of a space that are counted."""

SPACE_SIZE_CACHE_SECONDS = 60.0
"""How long the count of a large space's vectors holds; a small space is counted by each search in it."""

_space_sizes: dict[tuple[str, str, int], tuple[float, int]] = {}
"""The time at which the vectors of a space were counted last, and how many there were."""

MIN_CORPUS_SIZE = 30
"""The least number of texts the candidates are taken for at least: a word that all of three hold is no frequent one
yet."""

MIN_COSINE_RATIO = 0.85
MIN_COSINE = 0.25
"""A text that holds none of the words stands for its meaning alone: at least as near as those that hold some, or by
this share of the nearest where none does; and by this cosine in any case, since unrelated texts have one near 0."""

# The words are looked up first, whatever else is asked: a plan made for any words would begin elsewhere.
_BY_RARE_WORDS = """SELECT id FROM (SELECT * FROM {texts} WHERE search @@ %(words)s::tsquery LIMIT {max_reads}) e
WHERE {condition} ORDER BY {weight} DESC, id DESC LIMIT {most}"""

_BY_FREQUENT_WORD = """SELECT id FROM {texts} e WHERE search @@ %(words)s::tsquery AND {condition}
ORDER BY id DESC LIMIT {most}"""

_BY_COMPARING = """SELECT id FROM (SELECT e.id, v.own <#> %(vector)s::halfvec AS far FROM {vectors} v
JOIN {texts} e ON e.id = v.{item} WHERE v.space_id = %(space)s AND v.dimension = %(dimension)s AND {condition}
OFFSET 0) compared ORDER BY far LIMIT {most}"""

# The settings hold for this statement, or to the end of the transaction around it; they touch vector searches alone.
_HNSW_SETTINGS = """(SELECT set_config('hnsw.ef_search', '80', true)
|| set_config('hnsw.iterative_scan', 'relaxed_order', true) || set_config('hnsw.max_scan_tuples', '3000', true))"""

# Inside CASE no other index serves: the plan is HNSW for all values, whatever the planner takes them to leave.
_BY_INDEX = """SELECT v.{item} FROM {vectors} v WHERE {settings} IS NOT NULL AND v.dimension = {dimension}
AND CASE WHEN v.space_id = %(space)s THEN (SELECT {condition} FROM {texts} e WHERE e.id = v.{item}) END
ORDER BY v.own::halfvec({dimension}) <=> %(vector)s::halfvec({dimension}) LIMIT {most}"""

# HNSW goes through its nearest in vain where a filter leaves few texts: these are compared, and it is left out.
_FILTERED_SQL = """WITH filtered(id) AS MATERIALIZED ({filtered_ids} LIMIT {compared})
(SELECT {item} FROM {vectors} WHERE {item} = ANY(ARRAY(TABLE filtered))
AND space_id = %(space)s AND dimension = %(dimension)s ORDER BY own <#> %(vector)s::halfvec LIMIT {most})"""
_HNSW_SETTINGS_IF_MANY = """CASE WHEN (SELECT count(*) FROM filtered) = {compared} THEN {settings} END"""

_EXACT_WEIGHT = 1_000_000.0
"""More than all words together: what stands there as it was asked for is among the texts that are ranked."""

_IS_VALID_INDEX = "SELECT FROM pg_index WHERE indexrelid = to_regclass(%s) AND indisvalid"

_SPACE_SIZE = """SELECT count(*) FROM (SELECT FROM {vectors} WHERE space_id = %(space)s LIMIT {most}) counted"""


class WordLookup(NamedTuple):
    """A tsquery for the terms of a question. `are_rare`: it is expected to match few texts of all."""

    tsquery: str
    are_rare: bool


class Lookup(NamedTuple):
    """How texts are looked up: for each condition so many by words (`rare_words_only`: not by words that many texts
    hold) and so many by meaning.

    `filtered_ids`: where the conditions may leave few texts, a SELECT of the ids of these; its first 1,000 are compared
    one by one, whatever else is found. `is_large`: whether vectors are found by the HNSW index, where it stands; None:
    as the size of the space says. Else `nearest` is run, a SELECT of ids with `{condition}` and `{most}`.
    """

    filtered_ids: str = ""
    nearest: LiteralString = _BY_COMPARING
    is_large: bool | None = None
    max_lexical_hits: int = MAX_LEXICAL_HITS
    max_vector_hits: int = MAX_VECTOR_HITS
    rare_words_only: bool = False


@dataclass(frozen=True)
class Corpus:
    """A table of texts with a tsvector `search`, called `e` in conditions.

    `vector_table` is the table of their vectors, which names them in its column `item_column`; `index_prefix` begins
    the names of its HNSW indexes, which end in the dimension.
    """

    table: LiteralString
    vector_table: LiteralString
    item_column: LiteralString
    index_prefix: LiteralString

    def fetch_candidates(
        self,
        columns: str,
        query: Query,
        conditions: tuple[str, ...],
        values: Mapping[str, object],
        *,
        is_fixed: bool = True,
        lookup: Lookup = Lookup(),  # noqa: B008  # never changed
    ) -> list[tuple[Any, ...]]:
        """Rows of a bounded number of texts that fulfil one of the conditions and bear on the question by words or
        meaning: so many for each condition. One statement.

        `columns`: a SELECT whose `{ids}` are those of the texts. Its last column is the size of the space, None where
        that is known. `values`: of the placeholders in `columns` and `conditions`, besides those of the query.
        `is_fixed`: the conditions are the same for the next search.
        """
        words = self._word_lookup(query)
        if words and lookup.rare_words_only and not words.are_rare:
            words = None
        space_id = query.embedding.space_id if query.embedding else None
        by_index = False
        if space_id is not None:
            is_large = self._is_large_space(space_id) if lookup.is_large is None else lookup.is_large
            by_index = is_large and self.has_index(query.dimension)
        if by_index:
            lookup = lookup._replace(nearest=_BY_INDEX)
        are_rare = words.are_rare if words else None
        statement = _candidates_statement(self, columns, conditions, query.shape, are_rare, query.dimension, lookup)
        has_generic_plan = is_fixed and are_rare is not False
        values = {**query.values, **query.vector_parameters, **self._word_values(query, words), **values}
        rows = (fetch_prepared if has_generic_plan else fetch_unprepared)(statement, values)
        if rows and space_id is not None and not by_index and lookup.is_large is None:
            self._record_space_size(space_id, rows[0][-1])
        return rows

    def _word_lookup(self, query: Query) -> WordLookup | None:
        """What to look up so that about MAX_MATCHES texts of all match; the rarest word where all match more."""
        terms = [*query.terms, *([query.exact] if query.exact else [])]
        if not terms:
            return None
        statistics = table_statistics(self.table)
        if tsquery := build_tsquery(terms, statistics, MAX_MATCHES):
            return WordLookup(tsquery, True)
        return WordLookup(min(terms, key=statistics.term_frequency).text, False)

    def _word_values(self, query: Query, lookup: WordLookup | None) -> dict[str, object]:
        """Values of the placeholders in `_BY_RARE_WORDS`: squares, so that two rare words outweigh one and any number
        of frequent ones. A word too rare for the statistics is taken for the rarest."""
        if lookup is None:
            return {}
        statistics = table_statistics(self.table)
        frequencies = [statistics.term_frequency(term, unlisted=0.0) for term in query.terms]
        weights = np.square(idf(frequencies, statistics.corpus_size)).tolist()
        exact = {"exact_weight": _EXACT_WEIGHT} if query.exact else {}
        return {
            "words": lookup.tsquery,
            **exact,
            **{f"weight{index}": round(each, 3) for index, each in enumerate(weights)},
        }

    def top_hits(self, candidates: Candidates, *, max_hits: int) -> list[tuple[int, float]]:
        """Places and scores of those that bear on the question, the best first."""
        scores, relevant = standalone_scores(candidates), np.flatnonzero(is_relevant(candidates))
        among = candidates.take(relevant)
        indices = relevant[select(scores[relevant], among, budget=int(among.tokens.sum()), max_hits=max_hits)]
        return [(index, float(scores[index])) for index in indices.tolist()]

    def has_index(self, dimension: int) -> bool:
        """Whether the HNSW index of this dimension stands; many texts at once take it away until they have vectors."""
        return bool(fetch_prepared(_IS_VALID_INDEX, [self.index_name(dimension)]))

    def index_name(self, dimension: int) -> str:
        """The name of the HNSW index of this dimension."""
        return f"{self.index_prefix}_{dimension}"

    def space_size(self, space_id: int) -> int:
        """How many vectors a space has, as counted by the last search in it; at most a minute ago."""
        return self._last_count(space_id)[1]

    def _is_large_space(self, space_id: int) -> bool:
        """Whether a space has more vectors than are compared one by one: by its size, and its share of all texts."""
        counted_at, size = self._last_count(space_id)
        if size < 0 or (size > MAX_EXACT_SCAN and time.monotonic() - counted_at >= SPACE_SIZE_CACHE_SECONDS):
            statement = sql.SQL(_SPACE_SIZE).format(vectors=sql.Identifier(self.vector_table), most=MAX_COUNTED_VECTORS)
            ((size,),) = fetch_prepared(statement.as_string(), {"space": space_id})
            self._record_space_size(space_id, size)
        share = MIN_INDEXED_SHARE * table_statistics(self.table).corpus_size
        return size > min(max(MAX_EXACT_SCAN, share), MAX_COUNTED_VECTORS - 1)

    def _last_count(self, space_id: int) -> tuple[float, int]:
        return _space_sizes.get((str(connection.settings_dict["NAME"]), self.vector_table, space_id), (0.0, -1))

    def _record_space_size(self, space_id: int, size: int) -> None:
        _space_sizes[str(connection.settings_dict["NAME"]), self.vector_table, space_id] = time.monotonic(), size


@lru_cache(maxsize=512)
def _candidates_statement(
    corpus: Corpus,
    columns: str,
    conditions: tuple[str, ...],
    shape: QueryShape,
    has_rare_words: bool | None,
    dimension: int,
    lookup: Lookup,
) -> str:
    """`has_rare_words`: None where no words are looked up; `dimension`: 0 where no vectors are."""
    parts: list[sql.Composable] = []
    weights = [(f"term{index}", f"weight{index}") for index in range(shape.terms)]
    if shape.has_exact:
        weights.append(("exact", "exact_weight"))
    weight = sql.SQL(" + ").join(
        sql.SQL("CASE WHEN search @@ {}::tsquery THEN {}::float4 ELSE 0 END").format(
            sql.Placeholder(tsquery), sql.Placeholder(value)
        )
        for tsquery, value in weights
    )
    names = {
        "texts": sql.Identifier(corpus.table),
        "vectors": sql.Identifier(corpus.vector_table),
        "item": sql.Identifier(corpus.item_column),
        "dimension": sql.Literal(dimension),
        "settings": sql.SQL(_HNSW_SETTINGS),
    }
    if is_filtered := bool(dimension and lookup.filtered_ids and lookup.nearest == _BY_INDEX):
        names["settings"] = sql.SQL(_HNSW_SETTINGS_IF_MANY).format(
            settings=names["settings"], compared=MAX_FILTERED_SCAN
        )
    for condition in map(sql.SQL, conditions):
        if has_rare_words:
            parts.append(
                sql.SQL(_BY_RARE_WORDS).format(
                    **names,
                    condition=condition,
                    weight=weight,
                    max_reads=MAX_READ_MATCHES,
                    most=lookup.max_lexical_hits,
                )
            )
        elif has_rare_words is not None:
            parts.append(sql.SQL(_BY_FREQUENT_WORD).format(**names, condition=condition, most=lookup.max_lexical_hits))
        if dimension:
            parts.append(sql.SQL(lookup.nearest).format(**names, condition=condition, most=lookup.max_vector_hits))
    texts = sql.SQL(" UNION ").join(sql.SQL("({})").format(part) for part in parts or [sql.SQL("SELECT NULL::bigint")])
    if is_filtered:
        filtered_texts = sql.SQL(_FILTERED_SQL).format(
            **names, filtered_ids=sql.SQL(lookup.filtered_ids), compared=MAX_FILTERED_SCAN, most=lookup.max_vector_hits
        )
        texts = sql.SQL("{} UNION {}").format(filtered_texts, texts)
    ids = sql.SQL("ARRAY({})").format(texts)
    size: sql.Composable = sql.SQL("NULL")
    if dimension and lookup.nearest == _BY_COMPARING:
        size = sql.SQL("({})").format(sql.SQL(_SPACE_SIZE).format(**names, most=MAX_COUNTED_VECTORS))
    return sql.SQL(columns).format(ids=ids, space_size=size).as_string()


def build_tsquery(terms: Sequence[Term], statistics: TableStatistics, max_matches: float) -> str:
    """A tsquery: rare terms each by itself, the others two by two, as long as not too many texts are expected to
    hold them. Empty when all of them are too frequent."""
    remaining = max_matches
    lookups: list[str] = []
    frequent: list[Term] = []
    for term in sorted(terms, key=statistics.term_frequency):
        if statistics.term_frequency(term) <= remaining:
            remaining -= statistics.term_frequency(term)
            lookups.append(term.text)
        else:
            frequent.append(term)
    corpus_size = max(statistics.corpus_size, 1.0)
    for first, second in combinations(frequent[:MAX_PAIRED_TERMS], 2):
        remaining -= statistics.term_frequency(first) * statistics.term_frequency(second) / corpus_size
        if remaining >= 0:
            lookups.append(f"(({first.text}) & ({second.text}))")
    return " | ".join(dict.fromkeys(lookups))


def standalone_scores(candidates: Candidates) -> Floats:
    """How well each answers the question (n), by itself: what was said around it does not count."""
    return rank(
        candidates,
        document_frequencies=_document_frequencies(candidates.hits),
        corpus_size=_corpus_size(candidates.hits),
        use_neighbours=False,
    )


def term_idfs(hits: NDArray[np.uint8]) -> Floats:
    """The inverse document frequency of each term of the question, by which of these texts hold it (n × terms)."""
    return idf(_document_frequencies(hits), _corpus_size(hits))


def _document_frequencies(hits: NDArray[np.uint8]) -> list[int]:
    """How many texts hold each term; a term that none holds counts as the rarest."""
    counts: list[int] = np.maximum(np.count_nonzero(hits, axis=0), 1).tolist()
    return counts


def _corpus_size(hits: NDArray[np.uint8]) -> int:
    return max(len(hits), MIN_CORPUS_SIZE)


def is_relevant(candidates: Candidates) -> NDArray[np.bool_]:
    """A mask of those that bear on the question at all: they hold a word of it, or are near enough in meaning."""
    has_term: NDArray[np.bool_] = np.asarray(candidates.hits.any(axis=1))
    if candidates.is_exact is not None:
        has_term |= candidates.is_exact
    cosine = candidates.similarity
    if not has_vectors(cosine):
        return has_term
    cosine_with_terms = cosine[has_term & np.isfinite(cosine)]
    min_cosine = (
        float(cosine_with_terms.mean()) if len(cosine_with_terms) else MIN_COSINE_RATIO * float(np.nanmax(cosine))
    )
    return has_term | (cosine >= max(min_cosine, MIN_COSINE))


def inline_ids_sql(rows: QuerySet[Any]) -> str:
    """The ids of a queryset as SQL, its values written out, for a statement that is run with values of its own."""
    try:
        statement, values = rows.values("pk").query.sql_with_params()
    except EmptyResultSet:  # Django knows already that there are none
        return "SELECT NULL::bigint"
    literals = (sql.Literal(value).as_string().replace("%", "%%") for value in values)
    return statement % tuple(literals)
