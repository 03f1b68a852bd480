"""Long threads: of what was said before the newest messages, only where words or meaning lead."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from openvibe.chat.searching.reading import (
    Place,
    Read,
    hits_of,
    older_by_comparing,
    older_by_index,
    older_by_words,
    read_these,
)
from openvibe.search.asking import Asked
from openvibe.search.ranking import standard, worth
from openvibe.search.statistics import Statistics, statistics
from openvibe.search.values import Floats

RARE = 3
"""A term that fewer of the newest messages hold is looked up by itself in all that was said before."""

PAIRED = 6
"""So many of the others, the rarest, are looked up two by two: a message that holds two of them."""

MANY = 300
"""Messages of the thread that may be expected to hold what is looked up, and are read for it."""

TOO_MANY = 4_000
"""Messages of everybody that may hold a term that is looked up by itself."""

BY_WORDS = 60
BY_MEANING = 40
REACH = 2
"""Messages before and after one found, which are looked at with it."""

STRONGEST = 120
"""Of all that was looked at, so many with what stands within reach of them are ranked."""

EXACT = 20_000
"""Up to so many messages, every second pair of a thread can be compared with the question."""

MOSTLY = 0.25
"""Where a thread has a greater share of all vectors, the index of all of them leads to the thread's own soon enough."""


@dataclass(frozen=True, slots=True)
class Known:
    """How many messages of the thread there are, and how many of them hold each term, as far as can be told."""

    messages: int
    holding: Sequence[float]

    def weights(self) -> Floats:
        """What each term is worth."""
        return worth(self.holding, self.messages)


def look_further(
    place: Place, asked: Asked, kinds: Sequence[str], newest: Read, *, since: int, end: int
) -> tuple[Read, Known]:
    """The strongest of the newest messages and of those before `since`, with their neighbours."""
    held = hits_of(asked, newest).sum(axis=0).tolist()
    known = Known(end - 1, [each * (end - 1) / max(len(newest.messages), 1) for each in held])
    seqs: set[int] = set()
    if words := words_to_look_up(asked, held, looked_at=len(newest.messages), older=since - 1):
        seqs.update(older_by_words(place, asked, kinds, words, known.weights().tolist(), since, BY_WORDS))
    if end > EXACT or end > MOSTLY * _everybody().vectors:
        seqs.update(older_by_index(place, asked, since, BY_MEANING))
    else:
        seqs.update(older_by_comparing(place, asked, since, BY_MEANING))
    near = sorted({seq + step for seq in seqs for step in range(-REACH, REACH + 1) if 0 < seq + step < since})
    if not near:
        return newest, known
    older = read_these(place, asked, kinds, near)
    there = hits_of(asked, older).sum(axis=0).tolist()
    known = Known(
        known.messages, [max(all_, one + more) for all_, one, more in zip(known.holding, held, there, strict=True)]
    )
    return strongest(older.and_also(newest), asked, known), known


def words_to_look_up(asked: Asked, held: Sequence[int], *, looked_at: int, older: int) -> str:
    """A tsquery: rare terms each by itself, the next ones two by two, as long as not too many messages are expected
    to hold them. Empty when there is nothing to look up."""
    everybody = _everybody()
    wanted: list[str] = []
    others: list[tuple[float, str]] = []
    for term, count in zip(asked.terms, held, strict=True):
        if not term.is_indexed:
            continue
        if count < RARE and everybody.of(term.text) <= TOO_MANY:
            wanted.append(term.text)
        else:
            others.append((max(count, 1) / max(looked_at, 1), term.text))
    pairs = combinations(sorted(others)[:PAIRED], 2)
    left = float(MANY)
    for share, pair in sorted((one[0] * other[0], f"({one[1]} & {other[1]})") for one, other in pairs):
        left -= share * older
        if left < 0:
            break
        wanted.append(pair)
    return " | ".join(wanted)


def strongest(read: Read, asked: Asked, known: Known) -> Read:
    """Those that hold the weightiest words or are nearest in meaning, and what stands within reach of them."""
    score = _score(read, asked, known)
    if len(score) <= STRONGEST * (2 * REACH + 1):
        return read
    best = np.argpartition(-score, STRONGEST)[:STRONGEST]
    keep: NDArray[np.bool_] = np.zeros(len(score), np.bool_)
    for step in range(-REACH, REACH + 1):
        keep[(best + step).clip(0, len(score) - 1)] = True
    return read.only(keep)


def _score(read: Read, asked: Asked, known: Known) -> Floats:
    score = standard(hits_of(asked, read) @ known.weights())
    for similarity in (read.own, read.pair):
        if similarity is not None:
            score = score + standard(similarity)
    return score


def _everybody() -> Statistics:
    return statistics("chat_message", "chat_messagevector")
