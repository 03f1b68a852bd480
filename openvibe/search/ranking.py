"""Score fusion: BM25 and cosine similarities as z-scores, added; in a conversation smoothed over the neighbours. Pure.

Three kinds of evidence are brought to the same scale and added: the words shared (BM25), the likeness in meaning, and
the likeness of the text together with the one before it. In a conversation what is said around a text counts too,
as much as the scores themselves show it: where they rise and fall in stretches, as when people stay with a subject,
whole stretches are lifted; where they look like noise, each text stands for itself. A text that stands out far keeps
its rank either way."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Final

import numpy as np
from numpy.typing import NDArray

from openvibe.search.bm25 import bm25
from openvibe.search.values import Candidates, Floats

_VECTOR_BLUR_TOKENS: Final = 100
"""Tokens. A vector is an average of a text's words, so it says less about a long text: at this length 0.7 as much."""

_NEIGHBOUR_HALF_LIFE: Final = 8
"""Texts. So far away a neighbour counts half."""

_MIN_LAG: Final = 2
_MAX_LAG: Final = 8
"""Texts. How far away scores are compared with each other; those next to each other share a vector, so they would
always agree."""

_FULL_AUTOCORRELATION: Final = 0.03
"""From this correlation on, surroundings count in full."""

_OWN_WEIGHT: Final = 0.05
_OUTLIER_WEIGHT: Final = 0.3
"""What a text's own score adds, and the square of it: little for most, all for one far above the others."""


def rank(
    candidates: Candidates,
    *,
    document_frequencies: Sequence[float] | None = None,
    corpus_size: int | None = None,
    use_neighbours: bool = True,
) -> Floats:
    """A score for each candidate (n); higher bears more on the question. Scores of two questions do not compare.

    `document_frequencies`: how many texts hold each term, out of `corpus_size`; of the candidates when not given.
    `use_neighbours`: the candidates are of one conversation, so what stands around them counts; False for texts that
    stand alone.
    """
    if not len(candidates):
        return np.zeros(0, np.float32)
    vector_weight = 1 / np.sqrt(1 + float(np.median(candidates.tokens)) / _VECTOR_BLUR_TOKENS)
    score = z_scores(bm25(candidates, document_frequencies, corpus_size))
    for similarity in (candidates.similarity, candidates.pair_similarity):
        if similarity is not None:
            score = score + vector_weight * z_scores(similarity)
    score = z_scores(score)
    own = _OWN_WEIGHT * score + _OUTLIER_WEIGHT * np.square(np.maximum(score, 0))
    return (own + _neighbour_scores(score, candidates.positions) if use_neighbours else score).astype(np.float32)


def z_scores(values: Floats) -> Floats:
    """Z-scores; what is missing counts as average, and so does everything where nothing differs."""
    finite = np.isfinite(values)
    if not finite.any():
        return np.zeros(len(values), np.float32)
    mean, deviation = values[finite].mean(), values[finite].std()
    return np.where(finite, (values - mean) / (deviation if deviation > 1e-6 else np.inf), 0).astype(np.float32)


def _neighbour_scores(scores: Floats, positions: NDArray[np.int64]) -> Floats:
    """What each text gains or loses by those around it, nothing where they tell nothing."""
    strength = min(max(_autocorrelation(scores, positions) / _FULL_AUTOCORRELATION, 0.0), 1.0)
    if not strength:
        return np.zeros(len(scores), np.float32)
    decay = (0.5 ** (np.diff(positions, prepend=positions[:1]) / _NEIGHBOUR_HALF_LIFE)).tolist()
    before = _decayed_sums(scores.tolist(), decay)
    after = _decayed_sums(scores[::-1].tolist(), [1.0, *decay[:0:-1]])[::-1]
    return strength * z_scores(np.asarray(before) + np.asarray(after) - scores)


def _decayed_sums(scores: Iterable[float], decay: Iterable[float]) -> list[float]:
    """Each score with what is left of those before it."""
    steps = zip(scores, decay, strict=True)
    return [each for each, _ in accumulate(steps, lambda last, step: (last[0] * step[1] + step[0], 0.0))]


def _autocorrelation(scores: Floats, positions: NDArray[np.int64]) -> float:
    """The correlation of scores with those a few texts away, less what chance makes of noise: 0 or below there."""
    product_sum, pair_count = 0.0, 0
    for step in range(1, min(_MAX_LAG, len(scores) - 1) + 1):
        lag = positions[step:] - positions[:-step]
        in_range = (lag >= _MIN_LAG) & (lag <= _MAX_LAG)
        product_sum += float((scores[step:] * scores[:-step]) @ in_range)
        pair_count += int(np.count_nonzero(in_range))
    return product_sum / pair_count - pair_count**-0.5 if pair_count else 0.0
