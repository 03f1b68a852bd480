"""Long threads: of what was said before the newest messages, only where words or meaning lead."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from openvibe.chat.searching.asking import Asked
from openvibe.chat.searching.common import common_words
from openvibe.chat.searching.reading import Place, Read, older_by_meaning, older_by_words, read_these
from openvibe.search.values import Floats

RARE = 3
"""A term that fewer of the newest messages hold is looked up by itself in all that was said before."""

OFTEN = 0.15
"""A term that a greater share of the newest messages hold tells too little to be looked up at all."""

PAIRED = 4
"""So many of the others, the rarest, are looked up two by two: a message that holds two of them."""

TOO_MANY = 4_000
"""Messages of everybody that may hold a term that is looked up by itself."""

BY_WORDS = 150
BY_MEANING = 60
REACH = 3
"""Messages before and after one found, which are looked at with it."""

STRONGEST = 120
"""Of all that was looked at, so many with what stands within reach of them are ranked."""

EF, SCANNED = 80, 2_000


def look_further(
    place: Place, asked: Asked, kinds: Sequence[str], newest: Read, *, since: int, end: int
) -> tuple[Read, list[float]]:
    """The strongest of the newest messages and of those before `since`, with their neighbours, and how many of all
    messages of the thread hold each term, as far as can be told from here."""
    held = asked.hits(newest.messages["bits"].astype(np.int64)).sum(axis=0).tolist()
    seqs: set[int] = set()
    if words := words_to_look_up(asked, held, len(newest.messages)):
        seqs.update(older_by_words(place, kinds, words, since, BY_WORDS))
    seqs.update(older_by_meaning(place, asked, since, BY_MEANING, ef=EF, scanned=SCANNED))
    near = sorted({seq + step for seq in seqs for step in range(-REACH, REACH + 1) if 0 < seq + step < since})
    older = read_these(place, asked, kinds, near) if near else None
    everything = newest if older is None else older.followed_by(newest)
    found = asked.hits(everything.messages["bits"].astype(np.int64)).sum(axis=0).tolist()
    scale = (end - 1) / max(len(newest.messages), 1)
    frequencies = [max(each * scale, float(all_)) for each, all_ in zip(held, found, strict=True)]
    return strongest(everything, asked, frequencies, end - 1), frequencies


def words_to_look_up(asked: Asked, held: Sequence[int], looked_at: int) -> str:
    """A tsquery: the rare terms each by itself, the next ones two by two. Empty when there is nothing to look up."""
    common = common_words()
    alone: list[str] = []
    paired: list[tuple[int, str]] = []
    for term, count in zip(asked.terms, held, strict=True):
        if not term.is_indexed:
            continue
        if count < RARE and common.get(term.text.strip("'"), 0) <= TOO_MANY:
            alone.append(term.text)
        elif count <= OFTEN * looked_at:
            paired.append((count, term.text))
    best = [text for _, text in sorted(paired)[:PAIRED]]
    return " | ".join([*alone, *(f"({one} & {other})" for one, other in combinations(best, 2))])


def strongest(read: Read, asked: Asked, frequencies: Sequence[float], population: int) -> Read:
    """Those that hold the weightiest words or are nearest in meaning, and what stands within reach of them."""
    if len(read.messages) <= STRONGEST * (2 * REACH + 1):
        return read
    score = _standard(asked.hits(read.messages["bits"].astype(np.int64)) @ weights_of(frequencies, population))
    for similarity in (read.own, read.pair):
        if similarity is not None:
            score = score + _standard(similarity)
    best = np.argpartition(-score, STRONGEST)[:STRONGEST]
    keep: NDArray[np.bool_] = np.zeros(len(score), np.bool_)
    for step in range(-REACH, REACH + 1):
        keep[(best + step).clip(0, len(score) - 1)] = True
    return read.only(keep)


def weights_of(frequencies: Sequence[float], population: int) -> Floats:
    holding = np.asarray(frequencies, np.float32)
    weights: Floats = np.log1p((np.maximum(population - holding, 0) + 0.5) / (holding + 0.5)).astype(np.float32)
    return weights


def _standard(values: Floats) -> Floats:
    spread = np.nanstd(values)
    if not np.isfinite(spread) or spread < 1e-6:
        return np.zeros(len(values), np.float32)
    scores: Floats = np.nan_to_num((values - np.nanmean(values)) / spread)
    return scores
