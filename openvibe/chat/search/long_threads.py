"""Search in long threads: of what came before the newest messages, only what words or vectors lead to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from openvibe.chat.search.rows import (
    MessageColumns,
    ThreadScope,
    older_by_exact_scan,
    older_by_index,
    older_by_words,
    read_seqs,
    term_hits,
)
from openvibe.search.bm25 import idf
from openvibe.search.candidates import TableStatistics, table_statistics
from openvibe.search.query import Query
from openvibe.search.values import Floats

RARE_TERM_MESSAGES = 10
"""A term that fewer of the newest messages hold is looked up by itself in all that was said before."""

MAX_PAIRED_TERMS = 6
"""Where no vectors tell the meaning, so many of the others, the rarest, are looked up two by two."""

MAX_MATCHES = 150
"""Messages of the thread that may be expected to hold what is looked up, and are read for it."""

MAX_TERM_MESSAGES = 4_000
"""Messages of everybody that may hold a term that is looked up by itself."""

LEXICAL_CANDIDATES = 25
VECTOR_CANDIDATES = 20
NEIGHBOUR_DISTANCE = 4
"""Messages before and after one found, which are looked at with it."""

MAX_EXACT_SCAN_MESSAGES = 40_000
"""Up to so many messages, every second pair of a thread can be compared with the question."""


@dataclass(frozen=True, slots=True)
class TermStatistics:
    """How many messages of the thread there are, and how many of them hold each term, as far as can be told."""

    messages: int
    document_frequency: Sequence[float]

    def idf(self) -> Floats:
        """What each term is worth."""
        return idf(self.document_frequency, self.messages)


def search_older_messages(
    thread: ThreadScope, query: Query, kinds: Sequence[str], newest: MessageColumns, *, since: int, end: int
) -> tuple[MessageColumns, TermStatistics]:
    """The newest messages, those before `since` that words or meaning lead to, and what stands around these."""
    recent_counts = term_hits(query, newest).sum(axis=0).tolist()
    term_statistics = TermStatistics(
        end - 1, [each * (end - 1) / max(len(newest.messages), 1) for each in recent_counts]
    )
    seqs: set[int] = set()
    if words := build_lexical_query(
        query, recent_counts, recent_messages=len(newest.messages), older_messages=since - 1
    ):
        seqs.update(
            older_by_words(thread, query, kinds, words, term_statistics.idf().tolist(), since, LEXICAL_CANDIDATES)
        )
    if end > MAX_EXACT_SCAN_MESSAGES:
        seqs.update(older_by_index(thread, query, since, VECTOR_CANDIDATES))
    else:
        seqs.update(older_by_exact_scan(thread, query, since, VECTOR_CANDIDATES))
    nearby_seqs = sorted(
        {
            seq + step
            for seq in seqs
            for step in range(-NEIGHBOUR_DISTANCE, NEIGHBOUR_DISTANCE + 1)
            if 0 < seq + step < since
        }
    )
    if not nearby_seqs:
        return newest, term_statistics
    older = read_seqs(thread, query, kinds, nearby_seqs)
    older_counts = term_hits(query, older).sum(axis=0).tolist()
    term_statistics = TermStatistics(
        term_statistics.messages,
        [
            max(all_, one + more)
            for all_, one, more in zip(term_statistics.document_frequency, recent_counts, older_counts, strict=True)
        ],
    )
    return older.merge(newest), term_statistics


def build_lexical_query(
    query: Query, recent_counts: Sequence[int], *, recent_messages: int, older_messages: int
) -> str:
    """A tsquery: rare terms each by itself; without vectors the next ones two by two, as long as not too many messages
    are expected to hold them. Empty when there is nothing to look up."""
    corpus = _corpus_statistics()
    clauses: list[str] = []
    common_terms: list[tuple[float, str]] = []
    for term, count in zip(query.terms, recent_counts, strict=True):
        if not term.is_indexed:
            continue
        if count < RARE_TERM_MESSAGES and corpus.document_frequency(term.text) <= MAX_TERM_MESSAGES:
            clauses.append(term.text)
        else:
            common_terms.append((max(count, 1) / max(recent_messages, 1), term.text))
    pairs = () if query.embedding else combinations(sorted(common_terms)[:MAX_PAIRED_TERMS], 2)
    remaining_matches = float(MAX_MATCHES)
    for share, pair in sorted((one[0] * other[0], f"({one[1]} & {other[1]})") for one, other in pairs):
        remaining_matches -= share * older_messages
        if remaining_matches < 0:
            break
        clauses.append(pair)
    return " | ".join(clauses)


def _corpus_statistics() -> TableStatistics:
    return table_statistics("chat_message")
