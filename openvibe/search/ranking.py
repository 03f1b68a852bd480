"""How much each candidate bears on a question: words and meaning in one number. Pure: no Django, no database.

Three kinds of evidence are brought to the same scale and added: the words shared (BM25), the likeness in meaning, and
the likeness of the text together with the one before it. In a conversation what is said around a text counts too,
as much as the scores themselves show it: where they rise and fall in stretches, as when people stay with a subject,
whole stretches are lifted; where they look like noise, each text stands for itself. A text that stands out far keeps
its rank either way.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from openvibe.search.values import Candidates, Floats

_K1: Final = 1.2
_B: Final = 0.5  # half the usual strength: in a chat a longer message is seldom mere padding
"""Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond" (2009)."""

_BLUR: Final = 100
"""Tokens. A vector is an average of a text's words, so it says less about a long text: at this length 0.7 as much."""

_HALF: Final = 8
"""Texts. So far away a neighbour counts half."""

_NEAR: Final = 2
_FAR: Final = 8
"""Texts. How far away scores are compared with each other; those next to each other share a vector, so they would
always agree."""

_CLEAR: Final = 0.03
"""From this correlation on, surroundings count in full."""

_OWN: Final = 0.05
_OUTSTANDING: Final = 0.3
"""What a text's own score adds, and the square of it: little for most, all for one far above the others."""


def rank(
    candidates: Candidates,
    *,
    frequencies: Sequence[float] | None = None,
    population: int | None = None,
    ordered: bool = True,
) -> Floats:
    """A score for each candidate (n); higher bears more on the question. Scores of two questions do not compare.

    `frequencies`: how many texts hold each term, out of `population`; of the candidates when not given. `ordered`:
    the candidates are of one conversation, so what stands around them counts; False for texts that stand alone.
    """
    if not len(candidates):
        return np.zeros(0, np.float32)
    meaning = 1 / np.sqrt(1 + float(np.median(candidates.tokens)) / _BLUR)
    score = standard(_bm25(candidates, frequencies, population))
    for similarity in (candidates.similarity, candidates.pair_similarity):
        if similarity is not None:
            score = score + meaning * standard(similarity)
    score = standard(score)
    own = _OWN * score + _OUTSTANDING * np.square(np.maximum(score, 0))
    return (own + _surroundings(score, candidates.orders) if ordered else score).astype(np.float32)


def _bm25(candidates: Candidates, frequencies: Sequence[float] | None, population: int | None) -> Floats:
    hits = candidates.hits.astype(np.float32)
    holding = np.count_nonzero(hits, axis=0) if frequencies is None else np.asarray(frequencies, np.float32)
    many = len(candidates) if frequencies is None or population is None else population
    weights = worth(holding, many)
    length = candidates.words / max(float(candidates.words.mean()), 1.0)
    norm = (_K1 * (1 - _B + _B * length)).astype(np.float32)
    scores: Floats = (hits * (_K1 + 1) / (hits + norm[:, None])) @ weights
    return scores


def worth(holding: ArrayLike, many: float) -> Floats:
    """What a term says that `holding` of `many` texts hold: the rarer, the more. Of one term or of several."""
    held = np.asarray(holding, np.float32)
    return np.asarray(np.log1p((np.maximum(many - held, 0) + 0.5) / (held + 0.5)), np.float32)


def standard(values: Floats) -> Floats:
    """Z-scores; what is missing counts as average, and so does everything where nothing differs."""
    known = np.isfinite(values)
    if not known.any():
        return np.zeros(len(values), np.float32)
    average, spread = values[known].mean(), values[known].std()
    return np.where(known, (values - average) / (spread if spread > 1e-6 else np.inf), 0).astype(np.float32)


def _surroundings(scores: Floats, orders: NDArray[np.int64]) -> Floats:
    """What each text gains or loses by those around it, nothing where they tell nothing."""
    share = min(max(_persistence(scores, orders) / _CLEAR, 0.0), 1.0)
    if not share:
        return np.zeros(len(scores), np.float32)
    fading = (0.5 ** (np.diff(orders, prepend=orders[:1]) / _HALF)).tolist()
    before = _carried(scores.tolist(), fading)
    after = _carried(scores[::-1].tolist(), [1.0, *fading[:0:-1]])[::-1]
    return share * standard(np.asarray(before) + np.asarray(after) - scores)


def _carried(scores: Iterable[float], fading: Iterable[float]) -> list[float]:
    """Each score with what is left of those before it."""
    steps = zip(scores, fading, strict=True)
    return [each for each, _ in accumulate(steps, lambda last, step: (last[0] * step[1] + step[0], 0.0))]


def _persistence(scores: Floats, orders: NDArray[np.int64]) -> float:
    """The correlation of scores with those a few texts away, less what chance makes of noise: 0 or below there."""
    alike, pairs = 0.0, 0
    for step in range(1, min(_FAR, len(scores) - 1) + 1):
        apart = orders[step:] - orders[:-step]
        near = (apart >= _NEAR) & (apart <= _FAR)
        alike += float((scores[step:] * scores[:-step]) @ near)
        pairs += int(np.count_nonzero(near))
    return alike / pairs - pairs**-0.5 if pairs else 0.0
