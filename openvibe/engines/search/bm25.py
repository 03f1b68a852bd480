"""BM25 and inverse document frequency. Pure."""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from openvibe.engines.search.values import Candidates, Floats, dot

_K1: Final = 1.2
_B: Final = 0.5  # half the usual strength: in a chat a longer message is seldom mere padding
"""Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond" (2009)."""


def bm25(candidates: Candidates, document_frequencies: Sequence[float] | None, corpus_size: int | None) -> Floats:
    """BM25 of each candidate (n) for the terms of the question; frequencies and size as `ranking.rank` takes them."""
    term_counts = candidates.hits.astype(np.float32)
    document_frequency = (
        np.count_nonzero(term_counts, axis=0)
        if document_frequencies is None
        else np.asarray(document_frequencies, np.float32)
    )
    total = len(candidates) if document_frequencies is None or corpus_size is None else corpus_size
    idfs = idf(document_frequency, total)
    relative_length = candidates.words / max(float(candidates.words.mean()), 1.0)
    norm = (_K1 * (1 - _B + _B * relative_length)).astype(np.float32)
    scores: Floats = dot(term_counts * (_K1 + 1) / (term_counts + norm[:, None]), idfs)
    return scores


def idf(document_frequency: ArrayLike, corpus_size: float) -> Floats:
    """Inverse document frequency of one term or of several: the rarer, the higher, never below 0."""
    frequency = np.asarray(document_frequency, np.float32)
    return np.asarray(np.log1p((np.maximum(corpus_size - frequency, 0) + 0.5) / (frequency + 0.5)), np.float32)
