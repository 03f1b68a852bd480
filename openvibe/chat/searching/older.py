"""Long threads: of what was said before the newest messages, only where words or meaning lead."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

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
from openvibe.search.ranking import worth
from openvibe.search.statistics import Statistics, statistics
from openvibe.search.values import Floats

RARE = 10
"""A term that fewer of the newest messages hold is looked up by itself in all that was said before."""

PAIRED = 6
"""Where no vectors tell the meaning, so many of the others, the rarest, are looked up two by two."""

MANY = 150
"""Messages of the thread that may be expected to hold what is looked up, and are read for it."""

TOO_MANY = 4_000
"""Messages of everybody that may hold a term that is looked up by itself."""

BY_WORDS = 25
BY_MEANING = 20
REACH = 4
"""Messages before and after one found, which are looked at with it."""

EXACT = 40_000
"""Up to so many messages, every second pair of a thread can be compared with the question."""


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
    """The newest messages, those before `since` that words or meaning lead to, and what stands around these."""
    held = hits_of(asked, newest).sum(axis=0).tolist()
    known = Known(end - 1, [each * (end - 1) / max(len(newest.messages), 1) for each in held])
    seqs: set[int] = set()
    if words := words_to_look_up(asked, held, looked_at=len(newest.messages), older=since - 1):
        seqs.update(older_by_words(place, asked, kinds, words, known.weights().tolist(), since, BY_WORDS))
    if end > EXACT:
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
    return older.and_also(newest), known


def words_to_look_up(asked: Asked, held: Sequence[int], *, looked_at: int, older: int) -> str:
    """A tsquery: rare terms each by itself; without vectors the next ones two by two, as long as not too many messages
    are expected to hold them. Empty when there is nothing to look up."""
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
    pairs = () if asked.question else combinations(sorted(others)[:PAIRED], 2)
    left = float(MANY)
    for share, pair in sorted((one[0] * other[0], f"({one[1]} & {other[1]})") for one, other in pairs):
        left -= share * older
        if left < 0:
            break
        wanted.append(pair)
    return " | ".join(wanted)


def _everybody() -> Statistics:
    return statistics("chat_message")
