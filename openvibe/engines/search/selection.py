"""Greedy selection of the best candidates within a token budget, duplicates left out. Pure: no Django, no database."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from openvibe.engines.search.values import Candidates, Floats

_COST_EXPONENT: Final = 0.5
"""Power of its cost by which a candidate's score is divided, where lengths differ by a factor of e or more."""

_BASE_PERCENTILE: Final = 25
"""Percentile of all scores from which on a score is worth its tokens: the rest bears on nothing."""

_COST_OFFSET: Final = 10  # tokens; among texts this short, cost decides nothing
_MIN_DUPLICATE_LENGTH: Final = 12  # words or tokens; shorter texts are often said twice without being a repetition


def select(
    scores: Floats, candidates: Candidates, *, budget: int, overhead: int = 0, max_hits: int | None = None
) -> list[int]:
    """Indexes of the chosen candidates in the order of choice: a smaller budget takes the first of them.

    They cost at most `budget` tokens, each its own tokens and `overhead`; one that does not fit any more is passed
    over for a shorter one. `max_hits` bounds how many. Of texts with the same fingerprint only the best is chosen.
    The highest score comes first; where the budget is what bounds the choice and lengths differ widely, the highest
    for its cost: two short texts may stand instead of one long.
    """
    costs = candidates.tokens + overhead
    order = np.argsort(-scores, kind="stable")
    indices, is_full = _choose_greedily(order.tolist(), costs, candidates, budget, max_hits)
    if is_full:
        efficiency = _score_per_cost(scores, costs)
        indices, _ = _choose_greedily(np.lexsort((-scores, -efficiency)).tolist(), costs, candidates, budget, max_hits)
    return indices


def _score_per_cost(scores: Floats, costs: NDArray[np.int64]) -> NDArray[np.float64]:
    """What stands above the lowest quarter of all scores, for its cost: the more, the more the costs differ."""
    above = (scores - np.percentile(scores, _BASE_PERCENTILE)).astype(np.float64)
    exponent = _COST_EXPONENT * min(1.0, float(np.log(np.maximum(costs, 1)).std()))
    return np.where(above > 0, above / (costs + _COST_OFFSET) ** exponent, above)


def _choose_greedily(
    order: Iterable[int], costs: NDArray[np.int64], candidates: Candidates, budget: int, max_hits: int | None
) -> tuple[list[int], bool]:
    """What is taken, walking in this order, and whether anything was passed over because it cost too much."""
    prices_by_index, lengths = costs.tolist(), candidates.words.tolist()
    fingerprints = None if candidates.fingerprints is None else candidates.fingerprints.tolist()
    indices: list[int] = []
    fingerprints_taken: set[int] = set()
    is_full, remaining, cheapest = False, budget, min(prices_by_index, default=0)
    for index in order:
        if len(indices) == max_hits or (is_full and remaining < cheapest):
            break
        if (
            fingerprints is not None
            and lengths[index] >= _MIN_DUPLICATE_LENGTH
            and fingerprints[index] in fingerprints_taken
        ):
            continue
        if prices_by_index[index] > remaining:
            is_full = True
            continue
        indices.append(index)
        remaining -= prices_by_index[index]
        if fingerprints is not None:
            fingerprints_taken.add(fingerprints[index])
    return indices, is_full
