"""Candidates as the ranking sees them: columns of numbers, one row a text. Pure: no Django, no database."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]


def dot(left: NDArray[Any], right: NDArray[Any]) -> NDArray[Any]:
    """The matrix product, without a word about floating point.

    OpenBLAS works on a few numbers more than there are and now and then reports what became of those: "invalid value
    encountered in matmul" for a product of finite numbers that is right (numpy issue 24067). Whoever expects NaN in a
    result looks for it there.
    """
    with np.errstate(all="ignore"):
        return np.asarray(np.matmul(left, right))


def has_vectors(similarity: Floats | None) -> TypeGuard[Floats]:
    """Whether any text has a vector to compare: NaN stands for none."""
    return similarity is not None and bool(np.isfinite(similarity).any())


@dataclass(frozen=True, slots=True)
class Candidates:
    """Texts that may bear on a question, one a row, in the order in which they were said.

    `keys` name them to whoever asked (ids, say). `positions` (n, ascending) are their places in the conversation: those
    of texts said one after the other differ by one, which is how neighbours are known. `tokens` (n) is what each
    costs, `words` (n) how long it is, in words or anything proportional to them. `hits` (n × terms) is how often each
    holds each term of the question; 0 and 1 alone will do. `similarity` (n) is the cosine of the question with each
    text, `pair_similarity` (n) with each text together with the one before it; NaN where there is no vector, None
    where there are none at all. `fingerprints` (n), when given, are equal where the texts are, whoever said them.
    `seconds` (n), when given, are when they were said; `by_named` (n) whether the question names who said them, and
    `by_person` (n) whether that is a person rather than an assistant. `is_exact` (n), when given, is whether the text
    holds what was asked for as it stands. `dated` (n), where the question names days, is how far each was said then,
    from 0 to 1.
    """

    keys: Sequence[Hashable]
    positions: NDArray[np.int64]
    tokens: NDArray[np.int64]
    words: NDArray[np.int64]
    hits: NDArray[np.uint8]
    similarity: Floats | None = None
    pair_similarity: Floats | None = None
    fingerprints: NDArray[np.int64] | None = None
    seconds: NDArray[np.float64] | None = None
    by_named: NDArray[np.bool_] | None = None
    by_person: NDArray[np.bool_] | None = None
    is_exact: NDArray[np.bool_] | None = None
    dated: Floats | None = None

    def __post_init__(self) -> None:
        """Raises ValueError when the columns are of different lengths."""
        columns = (getattr(self, field.name) for field in fields(self))
        lengths = {len(column) for column in columns if column is not None}
        if len(lengths) != 1 or self.hits.ndim != 2:
            raise ValueError(f"The columns of candidates differ in length: {sorted(lengths)}.")

    def __len__(self) -> int:
        return len(self.keys)

    def take(self, indexes: NDArray[np.intp]) -> Candidates:
        """The candidates at these places (ascending)."""
        columns = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "keys"}
        rows: dict[str, Any] = {name: None if column is None else column[indexes] for name, column in columns.items()}
        return Candidates(keys=[self.keys[index] for index in indexes.tolist()], **rows)
