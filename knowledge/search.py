"""Hybrid search over entries: the tables searched, their vectors, candidates, and the best hits, near copies folded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from typing import NamedTuple, Unpack

import numpy as np
from django.db import connection
from django.utils import timezone
from numpy.typing import NDArray
from psycopg import sql

from knowledge.filters import (
    IS_CURRENT_OR_EXPIRED_SQL,
    EntryCriteria,
    EntryScope,
    filter_current,
    filter_entries,
    known_sql,
)
from knowledge.models import Entry
from knowledge.relevance import bears_on, coverage, touches
from openvibe.engines.database.locks import LockKind
from openvibe.engines.search.calibration import chance_level
from openvibe.engines.search.candidates import Corpus, Lookup, standalone_scores, term_idfs
from openvibe.engines.search.indexing import EmbeddableText, VectorTable, embed_pending
from openvibe.engines.search.lexemes import HEADING, exact_term
from openvibe.engines.search.passages import similarity_with_passages
from openvibe.engines.search.query import (
    MAX_QUERY_CHARACTERS,
    Query,
    QueryShape,
    embed_question,
    parse_terms,
    term_bits_sql,
)
from openvibe.engines.search.selection import select
from openvibe.engines.search.significance import ChanceLevel
from openvibe.engines.search.spaces import QueryVector
from openvibe.engines.search.values import Candidates, Floats, dot, has_vectors
from openvibe.engines.text.near_copies import MAX_COMPARED_CHARACTERS, CopiedText, group_near_copies
from openvibe.workspaces.access import Access

SUBJECT_WEIGHT = 0.5
"""What the subject of a conversation weighs in the meaning of a request, which weighs 1."""


class Subject(NamedTuple):
    """What the conversation is about in which something is asked.

    `about` says so, as a title does: its meaning counts, and its words; of `recent` messages only the words.
    """

    about: str = ""
    recent: str = ""


class NearCopy(NamedTuple):
    """An entry that says the same as a hit; `tokens` are those of its content."""

    pk: int
    topic: str
    tokens: int
    is_shared: bool


@dataclass(frozen=True, slots=True)
class EntryHit:
    """`copies` say the same and could have been found instead; the asker may read all of them."""

    entry: Entry
    score: float
    copies: tuple[NearCopy, ...] = ()


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
    subject: Subject | None = None,
    budget: int | None = None,
    most: int = 20,
    include_expired: bool = False,
    now: datetime | None = None,
    **criteria: Unpack[EntryCriteria],
) -> EntrySearchResult:
    """Entries the asker may read that bear on the question, the best first, at most `most` and `budget` tokens.

    `subject`: what the conversation is about; what bears on both is found, the question weighing more. Only entries
    that hold at `now` (UTC, expiry inclusive), unless a `status` or `freshness` is asked for, or `include_expired` for
    those whose time is over as well. Near copies are one hit. Nothing in a question is an operator; a question that
    says nothing, or on which nothing bears, finds nothing.
    """
    may_find = most > 0 and access.knowledge != "none"
    parsed_question = _parse_question(access, question, subject) if may_find else None
    if parsed_question is None:
        return EntrySearchResult()
    now = now or timezone.now()
    scope = EntryScope(access, now, include_expired)
    if any(criteria.values()):
        any_status = bool(criteria.get("status") or criteria.get("freshness"))
        entries = Entry.objects.visible_to(access)
        entries = entries if any_status else filter_current(entries, include_expired=include_expired, now=now)
        scope = replace(scope, filtered=filter_entries(entries, now=now, **criteria))
    rows = _load_candidates(parsed_question, scope)
    ranked_entries, _ = _rank_relevant(parsed_question, rows, most=most, budget=budget)
    hits = _read_hits(scope, ranked_entries)
    return EntrySearchResult(
        hits,
        sum(hit.entry.tokens for hit in hits),
        by_words=bool(rows.candidates.hits.any()),
        by_vectors=has_vectors(rows.candidates.similarity),
    )


def find_usable_entries(
    access: Access, question: str, *, subject: Subject, most: int, most_unusable: int, now: datetime
) -> tuple[Sequence[EntryHit], Sequence[CandidateEntry]]:
    """What `find_entries` finds, and what bears on the question besides but may not be used, the best first. Near
    copies of what may be used are not named."""
    parsed_question = _parse_question(access, question, subject)
    if parsed_question is None:
        return (), ()
    scope = EntryScope(access, now)
    rows = _load_candidates(parsed_question, scope, with_unusable=True)
    ranked_entries, unusable = _rank_relevant(parsed_question, rows, most=most)
    return _read_hits(scope, ranked_entries), [rows.entries[place] for place in unusable[:most_unusable]]


def _read_hits(scope: EntryScope, ranked_entries: Sequence[RankedEntry]) -> list[EntryHit]:
    entries_by_id = scope.load([pk for pk, _, _ in ranked_entries]) if ranked_entries else {}
    return [EntryHit(entries_by_id[pk], score, copies) for pk, score, copies in ranked_entries if pk in entries_by_id]


def find_nearest_entries(access: Access, text: str, *, most: int) -> list[EntryHit]:
    """Entries that hold and are nearest to a text in words or meaning, the nearest first, whether or not they bear on
    it; near copies each by itself."""
    now = timezone.now()
    parsed_question, scope = _parse_question(access, text), EntryScope(access, now)
    if parsed_question is None or access.knowledge == "none":
        return []
    rows = _load_candidates(parsed_question, scope)
    nearest = {rows.entries[place].pk: score for place, score in ENTRIES.top_hits(rows.candidates, max_hits=most)}
    entries_by_id = scope.load(nearest.keys()) if nearest else {}
    return [EntryHit(entries_by_id[pk], score) for pk, score in nearest.items() if pk in entries_by_id]


@dataclass(frozen=True, slots=True)
class Question:
    """A `request` by itself, and the same in the light of what the conversation is about: `query` has the terms of the
    request, then those of the subject, and a vector of both."""

    workspace_id: int
    request: Query
    query: Query

    @property
    def has_subject(self) -> bool:
        return self.query is not self.request

    def chance(self, query: Query) -> ChanceLevel | None:
        """How near unrelated texts come to it; None where there is no vector to say so."""
        return None if query.embedding is None else chance_level(self.workspace_id, query.embedding)


def _parse_question(access: Access, text: str, subject: Subject | None = None) -> Question | None:
    """None where nothing was said."""
    own, *others = parse_terms(text, *(subject or ()))
    exact = exact_term(text[:MAX_QUERY_CHARACTERS])
    if not own and exact is None:
        return None
    request = Query(own, embed_question(access.workspace_id, text), exact)
    query = request
    if subject is not None:
        terms = tuple(term for each in others for term in each)
        query = Query(own + terms, _blend(request.embedding, embed_question(access.workspace_id, subject.about)), exact)
    return Question(access.workspace_id, request, query)


def _blend(request: QueryVector | None, subject: QueryVector | None) -> QueryVector | None:
    """A vector between the two, nearer to the request."""
    if request is None or subject is None or request.space_id != subject.space_id:
        return request
    together = request.vector + SUBJECT_WEIGHT * subject.vector
    length = float(np.sqrt(dot(together, together)))
    return replace(request, vector=(together / max(length, 1e-6)).astype(np.float32))


RankedEntry = tuple[int, float, tuple[NearCopy, ...]]
"""The id of an entry, its score, and the near copies for which it stands."""


def _rank_relevant(
    question: Question, rows: EntryRows, *, most: int, budget: int | None = None
) -> tuple[list[RankedEntry], list[int]]:
    """The entries that are to be the answer, the best first, near copies folded: of those the best established stands
    for the others, and ranks as the one that answers best. Then the places of those that may not be used."""
    is_relevant, scores = _is_relevant(question, rows), np.zeros(len(rows.entries), np.float32)
    order: list[int] = []
    for members in (np.flatnonzero(rows.is_usable), np.flatnonzero(~rows.is_usable)):
        scores[members] = standalone_scores(rows.candidates.take(members))
        relevant = members[is_relevant[members]]
        order += relevant[np.argsort(-scores[relevant], kind="stable")].tolist()
    copies_by_place: dict[int, tuple[NearCopy, ...]] = {}
    unusable: list[int] = []
    for group in group_near_copies(rows.entries[place].text for place in order):
        places = [order[index] for index in group if rows.is_usable[order[index]]]
        if not places:
            unusable.append(order[group[0]])
            continue
        best = max(places, key=lambda place: rows.entries[place].establishment)
        scores[best] = scores[places[0]]
        copies_by_place[best] = tuple(rows.near_copy(place) for place in places if place != best)
    standing = np.array(sorted(copies_by_place), np.intp)
    among = rows.candidates.take(standing)
    max_tokens = int(among.tokens.sum()) if budget is None else budget
    chosen_places: list[int] = standing[select(scores[standing], among, budget=max_tokens, max_hits=most)].tolist()
    chosen_places.sort(key=lambda place: -scores[place])
    return [(rows.entries[place].pk, float(scores[place]), copies_by_place[place]) for place in chosen_places], unusable


def _is_relevant(question: Question, rows: EntryRows) -> NDArray[np.bool_]:
    """Masks of the entries: which bear on the request by itself; and which bear on it in this conversation, and somehow
    by itself. How much a word tells, those say that the asker may use."""
    idfs, own_count = term_idfs(rows.candidates.hits[rows.is_usable]), len(question.request.terms)
    embedding, hits = question.request.embedding, rows.candidates.hits
    corpus_size = ENTRIES.space_size(embedding.space_id) if embedding else len(rows.candidates)
    share, chance = coverage(hits[:, :own_count], idfs[:own_count]), question.chance(question.request)
    relevant = bears_on(share, rows.request_similarity, chance, corpus_size)
    if rows.candidates.is_exact is not None:
        relevant |= rows.candidates.is_exact
    if not question.has_subject:
        return relevant
    whole_share, whole_chance = coverage(hits, idfs), question.chance(question.query)
    in_context = bears_on(whole_share, rows.candidates.similarity, whole_chance, corpus_size)
    return relevant | (in_context & touches(share, rows.request_similarity, chance))


ENTRIES = Corpus(
    table="knowledge_entry",
    vector_table="knowledge_entryvector",
    item_column="entry_id",
    index_prefix="entry_vector_hnsw",
)

_CANDIDATES = """SELECT e.id, e.tokens, hashtext(e.content), e.held, e.topics,
e.topic, e.start, e.is_shared, e.is_known, e.is_usable, e.decided_by, e.standing, e.decided,
coalesce(-(v.own <#> %(vector)s::halfvec)::float4, 'NaN'), v.parts, {request}, {{space_size}}
FROM (SELECT e.id, tokens, content, {bits} AS held, {topics} AS topics, topic, left(content, {length}) AS start,
visibility = 'shared' AS is_shared, {known} AS is_known, {usable} AS is_usable, {decided_by} AS decided_by,
{standing} AS standing, extract(epoch FROM coalesce(decided_at, created_at))::float8 AS decided
FROM knowledge_entry e WHERE id = ANY({{ids}}) OFFSET 0) e LEFT JOIN knowledge_entryvector v
ON v.entry_id = e.id AND v.space_id = %(space)s AND v.dimension = %(dimension)s ORDER BY e.id"""

_DECIDED_BY = "(SELECT label FROM workspaces_participant p WHERE p.id = coalesce(e.decided_by_id, e.author_id))"

_REQUEST_SIMILARITY = "coalesce(-(v.own <#> %(request)s::halfvec)::float4, 'NaN')"

HOLDS_STANDING = 8

_AUTHORITY = """CASE WHEN status = 'active' AND (expires_at IS NULL OR expires_at > %(now)s) THEN 8 ELSE 0 END
+ CASE WHEN visibility = 'shared' THEN 4 ELSE 0 END
+ CASE WHEN source NOT IN ('import', 'suggestion') OR decided_by_id IS NOT NULL THEN 2 ELSE 0 END + is_pinned::int"""
"""How well established an entry is among its copies: that it holds counts most, then that everybody may read it, that
a person stands behind it, and that it is to be kept."""


class CandidateEntry(NamedTuple):
    """An entry that may bear on a question, and what the asker may do with it. `is_known`: the asker may read it,
    whoever reads what an agent answers. `held` and `topics` are bits of the
    terms, `start` the beginning of the content, `decided_at` seconds."""

    pk: int
    tokens: int
    fingerprint: int
    held: int
    topics: int
    topic: str
    start: str
    is_shared: bool
    is_known: bool
    is_usable: bool
    decided_by: str
    standing: int
    decided_at: float
    similarity: float
    passages: bytes | None
    request_similarity: float
    space_size: int | None

    @property
    def text(self) -> CopiedText:
        return CopiedText(self.topic, self.start, self.tokens, self.fingerprint)

    @property
    def holds(self) -> bool:
        """Whether it is active, and its time not over."""
        return self.standing >= HOLDS_STANDING

    @property
    def establishment(self) -> tuple[int, float]:
        """The higher, the better established, then the later decided."""
        return self.standing, self.decided_at


@dataclass(frozen=True, slots=True)
class EntryRows:
    """What ranking and folding need of some entries, row by row. `request_similarity` (n) is the cosine with the
    request alone, None where there are no vectors."""

    entries: Sequence[CandidateEntry]
    candidates: Candidates
    is_usable: NDArray[np.bool_]
    request_similarity: Floats | None

    def near_copy(self, place: int) -> NearCopy:
        row = self.entries[place]
        return NearCopy(row.pk, row.topic, row.tokens, row.is_shared)


def _load_candidates(question: Question, scope: EntryScope, *, with_unusable: bool = False) -> EntryRows:
    """What may bear on the question, of what the scope holds; besides, what it leaves out. A word in the topic counts
    three times, and one of the request twice as much as one of its subject."""
    query, request = question.query, question.request
    values: dict[str, object] = {
        **{f"topic{index}": term.tsquery(HEADING) for index, term in enumerate(query.terms)},
        **scope.values,
    }
    if has_request_vector := bool(question.has_subject and request.embedding):
        values["request"] = request.vector_literal
    usable = scope.condition
    conditions = [usable]
    if with_unusable:
        conditions.append(f"e.workspace_id = %(workspace)s AND {IS_CURRENT_OR_EXPIRED_SQL} AND NOT ({usable})")
    known = known_sql(scope.access) if with_unusable else "TRUE"
    columns = _columns_sql(query.shape, known, usable if with_unusable else "TRUE", has_request_vector)
    candidate_rows = ENTRIES.fetch_candidates(
        columns, query, tuple(conditions), values, is_fixed=scope.filtered is None, lookup=Lookup(scope.filtered_ids)
    )
    rows = [CandidateEntry(*row) for row in candidate_rows]
    content_bits, topics, tokens, keys = (
        np.array([getattr(row, name) for row in rows], np.int64) for name in ("held", "topics", "tokens", "pk")
    )
    hits = query.hits(content_bits) + 2 * query.hits(topics)
    if question.has_subject:
        hits[:, : len(request.terms)] *= 2
    similarity = _similarity([(row.similarity, row.passages) for row in rows], query)
    request_similarity = similarity
    if has_request_vector:
        request_similarity = _similarity([(row.request_similarity, row.passages) for row in rows], request)
    return EntryRows(
        entries=rows,
        candidates=Candidates(
            keys.tolist(), keys, tokens, tokens, hits, similarity, is_exact=query.is_exact(content_bits)
        ),
        is_usable=np.array([row.is_usable for row in rows], np.bool_),
        request_similarity=request_similarity,
    )


@lru_cache(maxsize=512)
def _columns_sql(shape: QueryShape, known: str, usable: str, has_request_vector: bool) -> str:
    statement = sql.SQL(_CANDIDATES).format(
        bits=term_bits_sql(shape),
        topics=_topic_bits(shape),
        request=sql.SQL(_REQUEST_SIMILARITY if has_request_vector else "NULL"),
        length=MAX_COMPARED_CHARACTERS,
        known=sql.SQL(known),
        usable=sql.SQL(usable),
        decided_by=sql.SQL("NULL" if usable == "TRUE" else _DECIDED_BY),
        standing=sql.SQL(_AUTHORITY),
    )
    return statement.as_string()


def _similarity(vectors: Sequence[tuple[float, bytes | None]], query: Query) -> Floats | None:
    """The cosine with each entry, or its nearest passage: `vectors` are cosines and signs of passages."""
    return similarity_with_passages(vectors, query.embedding.vector) if query.embedding else None


def _topic_bits(shape: QueryShape) -> sql.Composable:
    """The terms that stand in the topic, as bits."""
    bits = [
        sql.SQL("CASE WHEN search @@ {}::tsquery THEN {} ELSE 0 END").format(
            sql.Placeholder(f"topic{index}"), 1 << index
        )
        for index in range(shape.terms)
    ]
    return sql.SQL(" | ").join(bits) if bits else sql.SQL("0")


_READ_SQL = "SELECT id, topic, content FROM knowledge_entry WHERE id = ANY(%s)"
_READ_LOCKED_SQL = f"{_READ_SQL} ORDER BY id FOR SHARE"


def embed_pending_entries(space_id: int | None = None, limit: int = 100_000, *, seconds: float | None = None) -> int:
    """Makes the vectors of entries that wait, in one space or in all; returns how many. See `embed_pending`."""
    return embed_pending(ENTRY_VECTORS, space_id=space_id, limit=limit, seconds=seconds)


def _load_texts(ids: Sequence[int], locked: bool) -> dict[int, EmbeddableText]:
    with connection.cursor() as cursor:
        cursor.execute(_READ_LOCKED_SQL if locked else _READ_SQL, [list(ids)])
        return {
            item: EmbeddableText(item, f"{topic}: {content}", heading=f"{topic}: ") for item, topic, content in cursor
        }


ENTRY_VECTORS = VectorTable(
    label="knowledge entries",
    corpus=ENTRIES,
    queue_table="knowledge_entrytoembed",
    lock_kind=LockKind.ENTRY_VECTORS,
    eligible_sql="SELECT id FROM knowledge_entry WHERE workspace_id = %(workspace)s",
    load_texts=_load_texts,
)
