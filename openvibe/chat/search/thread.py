"""Search in one thread: words and meaning, with neighbours of a good message, into a number of tokens."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from itertools import chain
from typing import Any, cast

import numpy as np
from django.utils import timezone
from numpy.typing import NDArray

from openvibe.chat.models import Message
from openvibe.chat.search.rows import (
    Author,
    Texts,
    load_texts,
    name_tokens,
    read_messages,
    read_name_holders,
    visible_last_seq,
)
from openvibe.engines.search.dated import date_weights
from openvibe.engines.search.query import Query, parse_query, parse_terms
from openvibe.engines.search.ranking import lift_linked, rank_with_stretches
from openvibe.engines.search.selection import select
from openvibe.engines.search.values import Candidates, Floats, has_vectors
from openvibe.engines.text.names import find_names
from openvibe.engines.text.stop_phrases import asks_for_several
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
    selection_rank: int
    """How many were chosen before it: a search for fewer tokens finds those of the lowest ranks."""
    is_neighbour: bool
    """Whether it holds none of the words and is no nearer in meaning than most: it stands beside one that does."""
    is_unfinished: bool = False


@dataclass(frozen=True, slots=True)
class MessageSearchResult:
    """`hits`, the best first, cost `tokens` together. Whether words, and whether vectors, had a say in it."""

    hits: Sequence[MessageHit] = ()
    tokens: int = 0
    by_words: bool = False
    by_vectors: bool = False


MAX_FULL_SCAN_MESSAGES = 4_000
"""A thread of so many messages is looked at as a whole."""

_SECONDS_UNTIL_2000 = datetime(2000, 1, 1, tzinfo=UTC).timestamp()

LINK_SOURCES, MAX_FOLLOWED_NAMES, RARE_NAME_MESSAGES = 3, 12, 3
"""The best messages whose names are followed, how many names, and the most messages that hold one: who is named
everywhere leads nowhere."""

RECENT_MESSAGES = 300
"""The number of messages, the newest, that are looked at one by one in a longer thread; those before only where words
or meaning lead."""

NEIGHBOUR_DISTANCE = 4
"""Messages before and after one found, which are looked at with it."""

MAX_EXACT_SCAN_MESSAGES = 40_000
"""The length of a thread up to which every second pair of its messages can be compared with the question."""

SEARCHED_KINDS = (Message.Kind.TEXT, Message.Kind.DIVE_RESULT)


def find_messages(
    access: Access,
    question: str,
    *,
    thread_id: int,
    budget: int,
    before: int | None = None,
    exclude_seqs: Collection[int] = (),
    max_hits: int | None = None,
    kinds: Sequence[str] = SEARCHED_KINDS,
    overhead: int = 0,
    max_message_tokens: int | None = None,
    asked_at: datetime | None = None,
) -> MessageSearchResult:
    """Messages of a thread that bear on the question, within `budget` tokens, the best first.

    Only what the asker sees, never what is deleted or being written. `before` is a seq: only what was said earlier;
    `exclude_seqs` are seqs. Each message costs its tokens, its author's name's, and `overhead`; `max_message_tokens` is
    the most that one may cost without it, for callers who cut longer ones. `asked_at`: the time, in the asker's zone,
    from which "yesterday" and "in March" count; now in the zone of the request when not given. Nothing in a question is
    an operator. At most eight short statements, whatever the length of the thread.
    """
    last_seq = visible_last_seq(access, thread_id)
    if last_seq is None or budget <= 0:
        return MessageSearchResult()
    query = parse_query(access.workspace_id, question)
    if query.is_empty:
        return MessageSearchResult()
    visible_kinds = [kind for kind in kinds if access.reads_dive_results or kind != Message.Kind.DIVE_RESULT]
    end = min(before or last_seq + 1, last_seq + 1)
    messages, authors, document_frequencies = _read_candidates(thread_id, query, visible_kinds, end)
    if exclude_seqs:
        messages = messages[~np.isin(messages["seq"], np.fromiter(exclude_seqs, np.int64))]
    if not len(messages):
        return MessageSearchResult()
    candidates = _build_candidates(messages, authors, query, max_message_tokens)
    seconds = messages["microseconds"] / 1e6 + _SECONDS_UNTIL_2000
    dated = date_weights(question, asked_at or timezone.localtime(), seconds)
    candidates = replace(candidates, dated=dated)
    corpus_size = None if document_frequencies is None else end - 1
    scores, strength = rank_with_stretches(
        candidates,
        document_frequencies=document_frequencies,
        corpus_size=corpus_size,
        is_scattered=asks_for_several(question),
    )
    chosen = partial(select, candidates=candidates, budget=budget, overhead=overhead, max_hits=max_hits)
    texts: Texts = {}
    indices = chosen(scores)
    if strength < 1 and (candidates.is_exact is None or not candidates.is_exact.any()):
        best: list[int] = np.argsort(-scores, kind="stable")[:LINK_SOURCES].tolist()
        texts = load_texts([cast(int, candidates.keys[index]) for index in {*best, *indices}])
        if links := _name_links(thread_id, question, candidates, best, texts):
            scores = lift_linked(scores, links, strength)
            indices = chosen(scores)
    if missing := [pk for index in indices if (pk := cast(int, candidates.keys[index])) not in texts]:
        texts |= load_texts(missing)
    return _build_result(candidates, scores, indices, budget, overhead, max_message_tokens, texts)


def _name_links(
    thread_id: int, question: str, candidates: Candidates, best: Sequence[int], texts: Texts
) -> Mapping[int, Collection[int]]:
    """The places of what holds a rare name out of one of the best, by the place of that one: what is asked of
    somebody's sister is told elsewhere of Thekla. One statement, none where no name is said."""
    bodies = {index: texts[key][4] for index in best if (key := cast(int, candidates.keys[index])) in texts}
    names_by_source = {index: find_names(body, question) for index, body in bodies.items()}
    names = list(dict.fromkeys(chain.from_iterable(names_by_source.values())))[:MAX_FOLLOWED_NAMES]
    term_by_name = {name: terms[0] for name, terms in zip(names, parse_terms(*names), strict=True) if len(terms) == 1}
    if not term_by_name:
        return {}
    terms = list(term_by_name.values())
    holders = read_name_holders(thread_id, candidates.positions.tolist(), terms)
    places = {seq: place for place, seq in enumerate(candidates.positions.tolist())}
    places_by_name = {
        name: [places[seq] for seq, held in holders if held >> bit & 1] for bit, name in enumerate(term_by_name)
    }
    return {
        source: [
            place
            for name in source_names
            if len(places_by_name.get(name, ())) <= RARE_NAME_MESSAGES
            for place in places_by_name.get(name, ())
        ]
        for source, source_names in names_by_source.items()
    }


def _read_candidates(
    thread_id: int, query: Query, kinds: Sequence[str], end: int
) -> tuple[NDArray[Any], Mapping[int, Author], list[float] | None]:
    """The messages that come into question, and, where these are not all, about how many of all hold each term."""
    since = 1 if end <= MAX_FULL_SCAN_MESSAGES + 1 else end - RECENT_MESSAGES
    use_index = end > MAX_EXACT_SCAN_MESSAGES
    messages, authors = read_messages(
        thread_id, query, kinds, since=since, before=end, distance=NEIGHBOUR_DISTANCE, use_index=use_index
    )
    if since == 1:
        return messages, authors, None
    hits, is_recent = query.hits(messages["held"].astype(np.int64)), messages["seq"] >= since
    recent_counts = hits[is_recent].sum(axis=0)
    frequencies = recent_counts * (end - 1) / max(np.count_nonzero(is_recent), 1)
    return messages, authors, np.maximum(frequencies, hits.sum(axis=0)).tolist()


def _build_candidates(
    messages: NDArray[Any], authors: Mapping[int, Author], query: Query, max_message_tokens: int | None
) -> Candidates:
    ids, which = np.unique(messages["author"], return_inverse=True)
    names = np.array([authors[author] for author in ids.tolist()], np.int64).reshape(-1, 3)[which]
    tokens = messages["tokens"].astype(np.int64) + names[:, 0]
    has_vector = query.embedding is not None
    return Candidates(
        keys=messages["id"].tolist(),
        positions=messages["seq"],
        tokens=tokens if max_message_tokens is None else np.minimum(tokens, max_message_tokens),
        words=tokens,
        hits=query.hits(messages["held"].astype(np.int64)),
        similarity=messages["similarity"] if has_vector else None,
        pair_similarity=messages["pair_similarity"] if has_vector else None,
        fingerprints=messages["fingerprint"],
        seconds=messages["microseconds"] / 1e6,
        by_named=names[:, 1] != 0,
        by_person=names[:, 2] != 0,
        is_exact=query.is_exact(messages["held"].astype(np.int64)),
    )


def _build_result(
    candidates: Candidates,
    scores: Floats,
    indices: Sequence[int],
    budget: int,
    overhead: int,
    max_message_tokens: int | None,
    texts: Texts,
) -> MessageSearchResult:
    is_neighbour = _neighbour_mask(candidates)
    ids: Sequence[int] = cast("Sequence[int]", candidates.keys)
    hits: list[MessageHit] = []
    hit_tokens = 0
    for index in indices:
        row = texts.get(ids[index])
        if row is None:
            continue
        message_id, seq, thread_id, kind, body, tokens, author_id, name, author_kind, is_unfinished, at = row
        tokens += name_tokens(name)
        cost = overhead + (tokens if max_message_tokens is None else min(tokens, max_message_tokens))
        if hit_tokens + cost > budget:
            continue  # it grew since it was chosen
        hit_tokens += cost
        hits.append(
            MessageHit(
                *(message_id, seq, thread_id, kind, body, tokens, author_id, name, author_kind, at),
                score=float(scores[index]),
                selection_rank=len(hits),
                is_neighbour=bool(is_neighbour[index]),
                is_unfinished=is_unfinished,
            )
        )
    hits.sort(key=lambda hit: -hit.score)
    by_words, by_vectors = bool(candidates.hits.any()), has_vectors(candidates.similarity)
    return MessageSearchResult(hits, hit_tokens, by_words=by_words, by_vectors=by_vectors)


def _neighbour_mask(candidates: Candidates) -> NDArray[np.bool_]:
    """A mask of the candidates that neither hold a word nor are nearer in meaning than most."""
    holds_none: NDArray[np.bool_] = ~np.asarray(candidates.hits.any(axis=1))
    if not has_vectors(candidates.similarity):
        return holds_none
    threshold = np.nanmean(candidates.similarity) + np.nanstd(candidates.similarity)
    return holds_none & ~(candidates.similarity > threshold)
