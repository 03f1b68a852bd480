"""Choosing, within a number of tokens, the candidates that bear most on a question. Pure: no Django, no database."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from openvibe.search.values import Candidates, Floats

_THRIFT: Final = 0.5
"""Power of its cost by which a candidate's score is divided, where lengths differ by a factor of e or more."""

_SMALL: Final = 10  # tokens; among texts this short, cost decides nothing
_SAYS_SOMETHING: Final = 12  # words or tokens; shorter texts are often said twice without being a repetition


def select(
    scores: Floats, candidates: Candidates, *, budget: int, overhead: int = 0, most: int | None = None
) -> list[int]:
    """Indexes of the chosen candidates, the highest score first.

    They cost at most `budget` tokens, each its own tokens and `overhead`; one that does not fit any more is passed
    over for a shorter one. `most` bounds how many. Of texts with the same fingerprint only the best is chosen. Where
    the budget is what bounds the choice and lengths differ widely, two short texts may stand instead of one long.
    """
    costs = candidates.tokens + overhead
    order = np.argsort(-scores, kind="stable")
    chosen, is_full = _chosen(order.tolist(), costs, candidates, budget, most)
    if is_full:
        worth = _worth_for_its_cost(scores, costs)
        chosen, _ = _chosen(np.lexsort((-scores, -worth)).tolist(), costs, candidates, budget, most)
    return sorted(chosen, key=lambda index: -float(scores[index]))


def _worth_for_its_cost(scores: Floats, costs: NDArray[np.int64]) -> NDArray[np.float64]:
    """What stands above the middle of all scores, for its cost: the more, the more the costs differ."""
    above = (scores - np.median(scores)).astype(np.float64)
    power = _THRIFT * min(1.0, float(np.log(np.maximum(costs, 1)).std()))
    return np.where(above > 0, above / (costs + _SMALL) ** power, above)


def _chosen(
    order: Iterable[int], costs: NDArray[np.int64], candidates: Candidates, budget: int, most: int | None
) -> tuple[list[int], bool]:
    """What is taken, walking in this order, and whether anything was passed over because it cost too much."""
    prices, words = costs.tolist(), candidates.words.tolist()
    prints = None if candidates.fingerprints is None else candidates.fingerprints.tolist()
    chosen: list[int] = []
    said: set[int] = set()
    is_full, left, cheapest = False, budget, min(prices, default=0)
    for index in order:
        if len(chosen) == most or (is_full and left < cheapest):
            break
        if prints is not None and words[index] >= _SAYS_SOMETHING and prints[index] in said:
            continue
        if prices[index] > left:
            is_full = True
            continue
        chosen.append(index)
        left -= prices[index]
        if prints is not None:
            said.add(prints[index])
    return chosen, is_full
