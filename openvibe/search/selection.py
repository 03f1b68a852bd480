"""Choosing, within a number of tokens, the candidates that bear most on a question. Pure: no Django, no database."""

from __future__ import annotations

import numpy as np

from openvibe.search.values import Candidates, Floats


def select(
    scores: Floats, candidates: Candidates, *, budget: int, overhead: int = 0, most: int | None = None
) -> list[int]:
    """Indexes of the chosen candidates, the best first.

    They cost at most `budget` tokens, each its own tokens and `overhead`; one that does not fit any more is passed
    over for a shorter one. `most` bounds how many.
    """
    chosen: list[int] = []
    left = budget
    costs = candidates.tokens + overhead
    for index in np.argsort(-scores, kind="stable").tolist():
        if most is not None and len(chosen) >= most:
            break
        if costs[index] <= left:
            chosen.append(index)
            left -= int(costs[index])
    return chosen
