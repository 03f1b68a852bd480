"""Whether a text is nearer to a query than chance brings unrelated ones: standard deviations above their mean. Pure."""

from __future__ import annotations

from functools import lru_cache
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from openvibe.engines.search.values import Floats

CHANCE = 0.01
"""How often one of all texts may come nearer by chance: once in a hundred queries."""


class ChanceLevel(NamedTuple):
    """Cosines of a query with texts that have nothing to do with it: their mean, in the language in which they come
    nearest, and their standard deviation, which is the embedder's."""

    mean: float
    deviation: float

    def z_scores(self, similarity: ArrayLike) -> Floats:
        """The number of standard deviations above the mean each of these cosines is."""
        return np.asarray((np.asarray(similarity) - self.mean) / self.deviation, np.float32)


@lru_cache(maxsize=1_024)
def min_z_score(corpus_size: int) -> float:
    """Standard deviations above the mean that none of so many unrelated texts reaches: the more there are, the
    farther out the farthest of them is."""
    return NormalDist().inv_cdf(1 - CHANCE / max(corpus_size, 1))
