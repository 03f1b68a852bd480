"""Search in one thread: words and meaning, with neighbours of a good message, into a number of tokens."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from openvibe.chat.models import Message
from openvibe.chat.search.long_threads import TermStatistics, search_older_messages
from openvibe.chat.search.rows import (
    MessageColumns,
    ThreadScope,
    find_thread_scope,
    load_author_terms,
    load_texts,
    name_tokens,
    read_range,
)
from openvibe.search.query import Query, parse_query
from openvibe.search.ranking import rank
from openvibe.search.selection import select
from openvibe.search.values import Candidates, Floats
from openvibe.workspaces.access import Access


@dataclass(frozen=True, slots=True)
class MessageHit:
    """One message found. `tokens`: what "name: body" costs (o200k_base, the name counted by itself)."""

    message_id: int
    seq: int
    thread_id: int
    kind: str
    body: str
    tokens: int
    author_id: int
    author_name: str
    author_kind: str
    at: datetime
    score: float
    is_neighbour: bool
    """It holds none of the words and is no nearer in meaning than most: it stands beside one that does."""


@dataclass(frozen=True, slots=True)
class MessageSearchResult:
    """`hits`, the best first, cost `tokens` together. Whether words, and whether vectors, had a say in it."""

    hits: Sequence[MessageHit] = ()
    tokens: int = 0
    by_words: bool = False
    by_vectors: bool = False


MAX_FULL_SCAN_MESSAGES = 2_000
"""A thread of so many messages is looked at as a whole."""

RECENT_MESSAGES = 300
"""Of a longer one the newest so many are looked at one by one; those before only where words or meaning lead."""

SEARCHED_KINDS = (Message.Kind.TEXT, Message.Kind.DIVE_RESULT)


def find_messages(
    access: Access,
    question: str,
    *,
    thread_id: int,
    budget: int,
    before: int | None = None,
    exclude_seqs: Collection[int] = (),
    exclude_author_id: int | None = None,
    max_hits: int | None = None,
    kinds: Sequence[str] = SEARCHED_KINDS,
    overhead: int = 0,
    max_message_tokens: int | None = None,
) -> MessageSearchResult:
    """Messages of a thread that bear on the question, within `budget` tokens, the best first.

    Only what the asker sees, never what is deleted or being written. `before` is a seq: only what was said earlier;
    `exclude_seqs` are seqs. Each message costs its tokens, its author's name's, and `overhead`; `max_message_tokens`
    is the most that
    one may cost without it, for callers who cut longer ones. Nothing in a question is an operator. At most eight short
    statements, whatever the length of the thread.
    """
    thread = find_thread_scope(access, thread_id)
    if thread is None or budget <= 0:
        return MessageSearchResult()
    query = parse_query(thread.workspace_id, question)
    if query.is_empty:
        return MessageSearchResult()
    visible_kinds = [kind for kind in kinds if access.reads_dive_results or kind != Message.Kind.DIVE_RESULT]
    end = min(before or thread.last_seq + 1, thread.last_seq + 1)
    read, term_statistics = _read_candidates(thread, query, visible_kinds, end)
    read = _exclude(read, exclude_seqs, exclude_author_id)
    if not len(read.messages):
        return MessageSearchResult()
    candidates = _build_candidates(read, query, max_message_tokens)
    scores = rank(
        candidates,
        document_frequencies=term_statistics.document_frequency if term_statistics else None,
        corpus_size=term_statistics.messages if term_statistics else None,
    )
    selected = select(scores, candidates, budget=budget, overhead=overhead, max_hits=max_hits)
    return _build_result(candidates, scores, selected, budget, overhead, max_message_tokens)


def _read_candidates(
    thread: ThreadScope, query: Query, kinds: Sequence[str], end: int
) -> tuple[MessageColumns, TermStatistics | None]:
    """What comes into question, and, where that is not all there is, what is known of the rest."""
    since = 1 if end <= MAX_FULL_SCAN_MESSAGES + 1 else end - RECENT_MESSAGES
    newest = read_range(thread, query, kinds, since, end)
    if since == 1:
        return newest, None
    return search_older_messages(thread, query, kinds, newest, since=since, end=end)


def _exclude(read: MessageColumns, seqs: Collection[int], author_id: int | None) -> MessageColumns:
    keep = np.ones(len(read.messages), np.bool_)
    if seqs:
        keep &= ~np.isin(read.messages["seq"], np.fromiter(seqs, np.int64))
    if author_id is not None:
        keep &= read.messages["author"] != author_id
    return read if keep.all() else read.only(keep)


def _build_candidates(read: MessageColumns, query: Query, max_message_tokens: int | None) -> Candidates:
    messages = read.messages
    authors, which = np.unique(messages["author"], return_inverse=True)
    author_terms = load_author_terms(query, authors.tolist())
    terms_by_author = [author_terms.get(author, (0, 0)) for author in authors.tolist()]
    names = np.array([cost for cost, _ in terms_by_author], np.int64)[which]
    bits = (
        messages["bits"].astype(np.int64) | np.array([name_bits for _, name_bits in terms_by_author], np.int64)[which]
    )
    tokens = messages["tokens"].astype(np.int64) + names
    return Candidates(
        keys=messages["id"].tolist(),
        positions=messages["seq"].astype(np.int64),
        tokens=tokens if max_message_tokens is None else np.minimum(tokens, max_message_tokens),
        words=tokens,
        hits=query.hits(bits),
        similarity=read.own_similarity,
        pair_similarity=read.pair_similarity,
        fingerprints=messages["print"].astype(np.int64),
    )


def _build_result(
    candidates: Candidates,
    scores: Floats,
    selected: Sequence[int],
    budget: int,
    overhead: int,
    max_message_tokens: int | None,
) -> MessageSearchResult:
    is_neighbour = _neighbour_mask(candidates)
    texts = load_texts([candidates.keys[index] for index in selected])  # type: ignore[misc]
    hits: list[MessageHit] = []
    spent = 0
    for index in selected:
        row = texts.get(candidates.keys[index])  # type: ignore[call-overload]
        if row is None:
            continue
        message_id, seq, thread_id, kind, body, tokens, author_id, name, author_kind, at = row
        tokens += name_tokens(name)
        cost = overhead + (tokens if max_message_tokens is None else min(tokens, max_message_tokens))
        if spent + cost > budget:
            continue  # it grew since it was chosen
        spent += cost
        hits.append(
            MessageHit(
                message_id,
                seq,
                thread_id,
                kind,
                body,
                tokens,
                author_id,
                name,
                author_kind,
                at,
                float(scores[index]),
                bool(is_neighbour[index]),
            )
        )
    by_vectors = candidates.similarity is not None and bool(np.isfinite(candidates.similarity).any())
    return MessageSearchResult(hits, spent, by_words=bool(candidates.hits.any()), by_vectors=by_vectors)


def _neighbour_mask(candidates: Candidates) -> NDArray[np.bool_]:
    """Which candidates neither hold a word nor are nearer in meaning than most."""
    holds_none: NDArray[np.bool_] = ~np.asarray(candidates.hits.any(axis=1))
    if candidates.similarity is None or not np.isfinite(candidates.similarity).any():
        return holds_none
    threshold = np.nanmean(candidates.similarity) + np.nanstd(candidates.similarity)
    return holds_none & ~(candidates.similarity > threshold)
