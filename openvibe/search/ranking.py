"""How much each candidate bears on a question: words and meaning in one number. Pure: no Django, no database."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from openvibe.search.values import Candidates, Floats

# Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond" (2009).
_K1, _B = 1.2, 0.75


def rank(
    candidates: Candidates,
    *,
    frequencies: Sequence[float] | None = None,
    population: int | None = None,
    ordered: bool = True,
) -> Floats:
    """A score for each candidate (n); higher bears more on the question. Scores of two questions do not compare.

    `frequencies`: how many texts hold each term, out of `population`; of the candidates when not given. `ordered`:
    the candidates are of one conversation, so what stands beside a good one gains; False for texts that stand alone.
    """
    if not len(candidates):
        return np.zeros(0, np.float32)
    score = _standard(_bm25(candidates, frequencies, population))
    for similarity in (candidates.similarity, candidates.pair_similarity):
        if similarity is not None:
            score = score + _standard(similarity)
    return (_smoothed(score, candidates.orders) if ordered else score).astype(np.float32)


def _bm25(candidates: Candidates, frequencies: Sequence[float] | None, population: int | None) -> Floats:
    hits = candidates.hits.astype(np.float32)
    holding = (hits > 0).sum(axis=0) if frequencies is None else np.asarray(frequencies, np.float32)
    many = max(len(candidates) if frequencies is None or population is None else population, 1)
    weights = np.log1p((np.maximum(many - holding, 0) + 0.5) / (holding + 0.5))
    length = candidates.words / max(float(candidates.words.mean()), 1.0)
    norm = (_K1 * (1 - _B + _B * length))[:, None]
    scores: Floats = (hits * (_K1 + 1) / (hits + norm)) @ weights.astype(np.float32)
    return scores


def _standard(values: Floats) -> Floats:
    """Z-scores; what is missing counts as average."""
    known = ~np.isnan(values)
    if not known.any():
        return np.zeros(len(values), np.float32)
    spread = float(values[known].std())
    scores: Floats = np.where(known, (values - values[known].mean()) / (spread if spread > 1e-6 else 1.0), 0.0)
    return scores


def _smoothed(scores: Floats, orders: NDArray[np.int64]) -> Floats:
    total = scores.copy()
    for step in (1, 2, 3):
        if step >= len(scores):
            break
        near = orders[step:] - orders[:-step] == step
        share = 0.5**step
        total[step:] += np.where(near, share * scores[:-step], 0)
        total[:-step] += np.where(near, share * scores[step:], 0)
    return total
