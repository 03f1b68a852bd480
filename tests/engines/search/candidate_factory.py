"""Candidates for tests, most columns filled in."""

from collections.abc import Sequence

import numpy as np

from openvibe.engines.search.values import Candidates


def candidates(
    hits: Sequence[Sequence[int]],
    *,
    tokens: Sequence[int] | None = None,
    orders: Sequence[int] | None = None,
    similarity: Sequence[float] | None = None,
    pair_similarity: Sequence[float] | None = None,
    fingerprints: Sequence[int] | None = None,
    seconds: Sequence[float] | None = None,
    by_named: Sequence[bool] | None = None,
    by_person: Sequence[bool] | None = None,
) -> Candidates:
    """Texts of 20 tokens each, said one after the other, unless told otherwise."""
    many = len(hits)
    sizes = np.array(tokens if tokens is not None else [20] * many, np.int64)
    return Candidates(
        keys=range(many),
        positions=np.array(orders if orders is not None else range(1, many + 1), np.int64),
        tokens=sizes,
        words=sizes * 3 // 4,
        hits=np.array(hits, np.uint8).reshape(many, len(hits[0]) if many else 0),
        similarity=None if similarity is None else np.array(similarity, np.float32),
        pair_similarity=None if pair_similarity is None else np.array(pair_similarity, np.float32),
        fingerprints=None if fingerprints is None else np.array(fingerprints, np.int64),
        seconds=None if seconds is None else np.array(seconds, np.float64),
        by_named=None if by_named is None else np.array(by_named, np.bool_),
        by_person=None if by_person is None else np.array(by_person, np.bool_),
    )
