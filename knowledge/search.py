"""Hybrid search over entries: the tables searched, their vectors, candidates, the best hits, and similar entries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Unpack

import numpy as np
from django.db import connection
from django.utils import timezone
from numpy.typing import NDArray
from psycopg import sql

from knowledge.filters import EntryCriteria, EntryScope, filter_current, filter_entries
from knowledge.models import Entry, EntryVector
from openvibe.base.locks import LockKind
from openvibe.base.prepared_statements import fetch_prepared
from openvibe.search.calibration import chance_similarity
from openvibe.search.candidates import TextTable, inline_ids_sql
from openvibe.search.indexing import EmbeddableText, VectorTable, embed_pending
from openvibe.search.lexical import cjk_bigrams
from openvibe.search.passages import similarity_with_passages
from openvibe.search.query import Query, parse_query, term_bits_sql
from openvibe.search.values import Candidates
from openvibe.workspaces.access import Access

OVERSAMPLING = 3
"""So many times the entries wanted are looked at more closely, since some of them turn out to be unlike."""


@dataclass(frozen=True, slots=True)
class EntryHit:
    entry: Entry
    score: float


@dataclass(frozen=True, slots=True)
class EntrySearchResult:
    """`hits`, the best first, cost `tokens` together. Whether words, and whether vectors, had a say in it."""

    hits: Sequence[EntryHit] = ()
    tokens: int = 0
    by_words: bool = False
    by_vectors: bool = False


def find_entries(
    access: Access,
    question: str,
    *,
    budget: int | None = None,
    most: int = 20,
    include_expired: bool = False,
    now: datetime | None = None,
    **criteria: Unpack[EntryCriteria],
) -> EntrySearchResult:
    """Entries the asker may read that bear on the question, the best first, at most `most` and `budget` tokens.

    Only those that hold at `now` (UTC, expiry inclusive), unless a `status` or `freshness` is asked for, or
    `include_expired` for those whose time is over as well. Nothing in a question is an operator; a question without
    words finds nothing.
    """
    if access.knowledge == "none" or most <= 0:
        return EntrySearchResult()
    query = parse_query(access.workspace_id, question)
    if query.is_empty:
        return EntrySearchResult()
    now = now or timezone.now()
    any_status = bool(criteria.get("status") or criteria.get("freshness"))
    where = _prefilter_sql(access, include_expired=include_expired or any_status, now=now)
    scope = EntryScope(access, now, include_expired)
    if any(criteria.values()):
        entries = Entry.objects.visible_to(access)
        entries = entries if any_status else filter_current(entries, include_expired=include_expired, now=now)
        entries = filter_entries(entries, now=now, **criteria)
        scope = replace(scope, filtered=entries)
        where = sql.SQL("{} AND e.id IN ({})").format(where, inline_ids_sql(entries))
    candidates, scores = _rank_entries(scope, query, where, most=most, budget=budget)
    if candidates is None:
        return EntrySearchResult()
    entries_by_id = scope.load(scores.keys())
    hits = [EntryHit(entries_by_id[key], score) for key, score in scores.items() if key in entries_by_id]
    return EntrySearchResult(
        hits,
        sum(hit.entry.tokens for hit in hits),
        by_words=bool(candidates.hits.any()),
        by_vectors=candidates.similarity is not None and bool(np.isfinite(candidates.similarity).any()),
    )


def find_entry_ids(access: Access, question: str, *, most: int, now: datetime) -> list[int]:
    """Ids of the entries that `find_entries` finds, those whose time is over as well, the best first; none is read."""
    query = parse_query(access.workspace_id, question)
    if access.knowledge == "none" or query.is_empty:
        return []
    where = _prefilter_sql(access, include_expired=True, now=now)
    return list(_rank_entries(EntryScope(access, now, include_expired=True), query, where, most=most)[1])


def find_similar_entries(access: Access, text: str, *, most: int = 5, exclude_id: int | None = None) -> list[EntryHit]:
    """The entries that hold and are like a text, the most similar first; none where all are about something else.

    `exclude_id` is the id of one left out.
    """
    hits = [hit for hit in find_entries(access, text, most=OVERSAMPLING * most).hits if hit.entry.pk != exclude_id]
    texts = {hit.entry.pk: f"{hit.entry.topic}\n{hit.entry.content}" for hit in hits}
    similar = similar_ids(access.workspace_id, text, texts) if texts else set()
    return [hit for hit in hits if hit.entry.pk in similar][:most]


def _rank_entries(
    scope: EntryScope, query: Query, where: sql.Composable, *, most: int, budget: int | None = None
) -> tuple[Candidates | None, dict[int, float]]:
    """What came into question, and the score of each entry that is to be the answer, by id, the best first."""
    ids = ENTRY_TEXTS.candidate_ids(query, where)
    visible_ids = scope.matching_ids(ids) if ids else []
    if not visible_ids:
        return None, {}
    candidates = load_candidates(query, visible_ids)
    ranked = ENTRY_TEXTS.top_hits(query, candidates, max_hits=most, budget=budget)
    return candidates, {int(candidates.keys[index]): score for index, score in ranked}  # type: ignore[call-overload]  # keys are ids here


def _prefilter_sql(access: Access, *, include_expired: bool, now: datetime) -> sql.Composable:
    """What every entry that is wanted fulfils; the querysets decide."""
    parts: list[sql.Composable] = [sql.SQL("e.workspace_id = {}").format(access.workspace_id)]
    if not include_expired:
        parts.append(
            sql.SQL("e.status = 'active' AND (e.expires_at IS NULL OR e.expires_at > {})").format(now.isoformat())
        )
    if access.knowledge != "restricted":
        own_entries = sql.SQL(" OR e.author_id = {0} OR e.owner_id = {0}").format(access.participant_id)
        parts.append(sql.SQL("(e.visibility = 'shared'{})").format(sql.SQL("") if access.is_agent else own_entries))
    return sql.SQL(" AND ").join(parts)


ENTRY_TEXTS = TextTable(
    table="knowledge_entry",
    text_sql="e.topic || ' ' || e.content",
    vector_table="knowledge_entryvector",
    item_column="entry_id",
)

_CANDIDATE_SQL = sql.SQL("""SELECT e.id, e.tokens, hashtext(e.content), e.held, e.topics,
coalesce(-(v.own <#> %(vector)s::halfvec)::float4, 'NaN'), v.parts
FROM (SELECT id, tokens, content, {bits} AS held, {topics} AS topics FROM
(SELECT id, tokens, content, search, topic || ' ' || content AS body FROM knowledge_entry
WHERE id = ANY(%(ids)s::bigint[])) asked OFFSET 0) e LEFT JOIN knowledge_entryvector v
ON v.entry_id = e.id AND v.space_id = %(space)s AND v.dimension = %(dimension)s ORDER BY e.id""")


def load_candidates(query: Query, ids: Sequence[int]) -> Candidates:
    """What the ranking needs of these entries. A word in the topic counts three times."""
    values: Mapping[str, object] = {
        **query.values,
        **query.vector_parameters,
        **{f"topic{index}": f"{term.text}:A" for index, term in enumerate(query.terms) if term.is_indexed},
        "ids": f"{{{','.join(map(str, ids))}}}",
    }
    statement = _CANDIDATE_SQL.format(bits=term_bits_sql(query.shape), topics=_topic_bits(query)).as_string()
    rows = fetch_prepared(statement, values)
    columns: NDArray[np.int64] = np.array([row[:5] for row in rows], np.int64).reshape(len(rows), 5)
    hits = query.hits(columns[:, 3]) + 2 * query.hits(columns[:, 4])
    tokens = columns[:, 1]
    return Candidates(
        keys=columns[:, 0].tolist(),
        positions=columns[:, 0],
        tokens=tokens,
        words=tokens,
        hits=hits,
        similarity=similarity_with_passages([row[5:] for row in rows], query.embedding.vector)
        if query.embedding
        else None,
        fingerprints=columns[:, 2],
    )


def _topic_bits(query: Query) -> sql.Composable:
    """Which terms stand in the topic, as bits."""
    bits = [
        sql.SQL("CASE WHEN search @@ {}::tsquery THEN {} ELSE 0 END").format(
            sql.Placeholder(f"topic{index}"), 1 << index
        )
        for index, term in enumerate(query.terms)
        if term.is_indexed
    ]
    return sql.SQL(" | ").join(bits) if bits else sql.SQL("0")


MIN_SHARED_WORDS = 0.2
"""A fifth of the telling words of the shorter one."""

MAX_COMPARED_CHARACTERS = 2_000
"""Characters of each text whose words are compared."""

_LANGUAGE_NAMES = """
english german french spanish italian portuguese dutch danish norwegian swedish finnish hungarian russian turkish
"""
_LANGUAGES = _LANGUAGE_NAMES.split()
_STEMS_SQL = """SELECT tsvector_to_array(to_tsvector(language::regconfig, said))
FROM unnest(%s::text[]) WITH ORDINALITY t (said, place), unnest(%s::text[]) WITH ORDINALITY l (language, rank)
ORDER BY place, rank"""


def similar_ids(workspace_id: int, text: str, others: Mapping[int, str]) -> set[int]:
    """Which of the entries (`{id: what it says}`) share a fifth of the telling words with the text, or are nearer to
    it in meaning than unrelated texts come. Without vectors words decide; what says nothing is like nothing."""
    stems_by_language = _stems([text], _LANGUAGES)
    if not any(stems_by_language):
        return set()
    # its own language leaves out the most, since it knows what tells nothing; there a lone word may tell nothing
    own_stems = min(stems_by_language, key=len)
    language = _LANGUAGES[stems_by_language.index(own_stems)]
    by_words = _sharing_words(own_stems, language, others) if own_stems else set()
    return by_words | _nearer_than_chance(workspace_id, text, others)


def _sharing_words(words: frozenset[str], language: str, others: Mapping[int, str]) -> set[int]:
    stems_by_id = zip(others, _stems(list(others.values()), [language]), strict=True)
    return {
        pk
        for pk, other_stems in stems_by_id
        if other_stems and len(words & other_stems) >= MIN_SHARED_WORDS * min(len(words), len(other_stems))
    }


def _nearer_than_chance(workspace_id: int, text: str, others: Mapping[int, str]) -> set[int]:
    embedding = parse_query(workspace_id, text).embedding
    chance = chance_similarity(workspace_id, embedding) if embedding else None
    if embedding is None or chance is None:
        return set()
    rows = EntryVector.objects.filter(
        space_id=embedding.space_id, dimension=embedding.dimension, entry_id__in=others
    ).values_list("entry_id", "own")
    return {pk for pk, own in rows if float(np.asarray(own, np.float32) @ embedding.vector) > chance}


def _stems(texts: Sequence[str], languages: Sequence[str]) -> list[frozenset[str]]:
    """For each text, in each language: its words as that language stems them, without numbers and stop words."""
    with connection.cursor() as cursor:
        cursor.execute(
            _STEMS_SQL,
            [[cjk_bigrams(text[:MAX_COMPARED_CHARACTERS].replace("\x00", " ")) for text in texts], list(languages)],
        )
        return [frozenset(word for word in row[0] if not word.isdecimal()) for row in cursor]


_READ_SQL = "SELECT id, topic, content FROM knowledge_entry WHERE id = ANY(%s)"
_READ_LOCKED_SQL = f"{_READ_SQL} ORDER BY id FOR SHARE"


def embed_pending_entries(space_id: int | None = None, limit: int = 100_000, *, seconds: float | None = None) -> int:
    """Make the vectors of entries that wait, in one space or in all; how many were made. See `embed_pending`."""
    return embed_pending(ENTRY_VECTORS, space_id=space_id, limit=limit, seconds=seconds)


def _load_texts(ids: Sequence[int], locked: bool) -> dict[int, EmbeddableText]:
    with connection.cursor() as cursor:
        cursor.execute(_READ_LOCKED_SQL if locked else _READ_SQL, [list(ids)])
        return {
            item: EmbeddableText(item, f"{topic}: {content}", heading=f"{topic}: ") for item, topic, content in cursor
        }


ENTRY_VECTORS = VectorTable(
    label="knowledge entries",
    vector_table="knowledge_entryvector",
    queue_table="knowledge_entrytoembed",
    item_column="entry_id",
    index_prefix="entry_vector_hnsw",
    lock_kind=LockKind.ENTRY_VECTORS,
    eligible_sql="SELECT id FROM knowledge_entry WHERE workspace_id = %(workspace)s",
    load_texts=_load_texts,
)
