"""One search: words and meaning, what stands around a good message, into a number of tokens."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from openvibe.chat.models import Message
from openvibe.chat.searching.older import Known, look_further
from openvibe.chat.searching.reading import Place, Read, authors_of, name_cost, place_of, read_stretch, texts_of
from openvibe.chat.searching.values import FoundMessage, FoundMessages
from openvibe.search.asking import Asked, asked
from openvibe.search.ranking import rank
from openvibe.search.selection import select
from openvibe.search.values import Candidates, Floats
from openvibe.workspaces.access import Access

WHOLE = 2_000
"""A thread of so many messages is looked at as a whole."""

SPAN = 300
"""Of a longer one the newest so many are looked at one by one; those before only where words or meaning lead."""

SAID = (Message.Kind.TEXT, Message.Kind.DIVE_RESULT)


def find_messages(
    access: Access,
    question: str,
    *,
    thread_id: int,
    budget: int,
    before: int | None = None,
    leave_out: Collection[int] = (),
    without_author: int | None = None,
    most: int | None = None,
    kinds: Sequence[str] = SAID,
    overhead: int = 0,
    longest: int | None = None,
) -> FoundMessages:
    """Messages of a thread that bear on the question, within `budget` tokens, the best first.

    Only what the asker sees, never what is deleted or being written. `before` is a seq: only what was said earlier;
    `leave_out` are seqs. Each message costs its tokens, its author's name's, and `overhead`; `longest` is the most that
    one may cost without it, for callers who cut longer ones. Nothing in a question is an operator. At most eight short
    statements, whatever the length of the thread.
    """
    place = place_of(access, thread_id)
    if place is None or budget <= 0:
        return FoundMessages()
    wanted = asked(place.workspace_id, question)
    if wanted.is_empty:
        return FoundMessages()
    seen = [kind for kind in kinds if access.reads_dive_results or kind != Message.Kind.DIVE_RESULT]
    end = min(before or place.last_seq + 1, place.last_seq + 1)
    read, known = _looked_at(place, wanted, seen, end)
    read = _without(read, leave_out, without_author)
    if not len(read.messages):
        return FoundMessages()
    candidates = _candidates(read, wanted, longest)
    scores = rank(
        candidates,
        frequencies=known.holding if known else None,
        population=known.messages if known else None,
    )
    chosen = select(scores, candidates, budget=budget, overhead=overhead, most=most)
    return _found(candidates, scores, chosen, budget, overhead, longest)


def _looked_at(place: Place, wanted: Asked, kinds: Sequence[str], end: int) -> tuple[Read, Known | None]:
    """What comes into question, and, where that is not all there is, what is known of the rest."""
    since = 1 if end <= WHOLE + 1 else end - SPAN
    newest = read_stretch(place, wanted, kinds, since, end)
    if since == 1:
        return newest, None
    return look_further(place, wanted, kinds, newest, since=since, end=end)


def _without(read: Read, seqs: Collection[int], author_id: int | None) -> Read:
    keep = np.ones(len(read.messages), np.bool_)
    if seqs:
        keep &= ~np.isin(read.messages["seq"], np.fromiter(seqs, np.int64))
    if author_id is not None:
        keep &= read.messages["author"] != author_id
    return read if keep.all() else read.only(keep)


def _candidates(read: Read, wanted: Asked, longest: int | None) -> Candidates:
    messages = read.messages
    authors, which = np.unique(messages["author"], return_inverse=True)
    known = authors_of(wanted, authors.tolist())
    named = [known.get(author, (0, 0)) for author in authors.tolist()]
    names = np.array([cost for cost, _ in named], np.int64)[which]
    bits = messages["bits"].astype(np.int64) | np.array([held for _, held in named], np.int64)[which]
    tokens = messages["tokens"].astype(np.int64) + names
    return Candidates(
        keys=messages["id"].tolist(),
        orders=messages["seq"].astype(np.int64),
        tokens=tokens if longest is None else np.minimum(tokens, longest),
        words=tokens,
        hits=wanted.hits(bits),
        similarity=read.own,
        pair_similarity=read.pair,
        fingerprints=messages["print"].astype(np.int64),
    )


def _found(
    candidates: Candidates, scores: Floats, chosen: Sequence[int], budget: int, overhead: int, longest: int | None
) -> FoundMessages:
    beside = _beside(candidates)
    texts = texts_of([candidates.keys[index] for index in chosen])  # type: ignore[misc]
    hits: list[FoundMessage] = []
    spent = 0
    for index in chosen:
        row = texts.get(candidates.keys[index])  # type: ignore[call-overload]
        if row is None:
            continue
        message_id, seq, thread_id, kind, body, tokens, author_id, name, author_kind, at = row
        tokens += name_cost(name)
        cost = overhead + (tokens if longest is None else min(tokens, longest))
        if spent + cost > budget:
            continue  # it grew since it was chosen
        spent += cost
        hits.append(
            FoundMessage(
                message_id, seq, thread_id, kind, body, tokens, author_id, name, author_kind, at,
                float(scores[index]), bool(beside[index]),
            )
        )  # fmt: skip
    by_vectors = candidates.similarity is not None and bool(np.isfinite(candidates.similarity).any())
    return FoundMessages(hits, spent, by_words=bool(candidates.hits.any()), by_vectors=by_vectors)


def _beside(candidates: Candidates) -> NDArray[np.bool_]:
    """Which candidates neither hold a word nor are nearer in meaning than most."""
    holds_none: NDArray[np.bool_] = ~np.asarray(candidates.hits.any(axis=1))
    if candidates.similarity is None or not np.isfinite(candidates.similarity).any():
        return holds_none
    near = np.nanmean(candidates.similarity) + np.nanstd(candidates.similarity)
    return holds_none & ~(candidates.similarity > near)
