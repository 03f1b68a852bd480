"""Long texts split into passages, each kept as a binary-quantized vector; the similarity of the best passage. Pure.

One vector says little about a single fact in a long text, those of its passages do. A passage is kept by the signs of
its vector alone, one bit a number: enough to tell which passage is near a query, and a long message's fit beside its
other vectors."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise
from math import ceil
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from openvibe.engines.search.values import Floats, dot

PASSAGE_BYTES: Final = 120
"""Bytes (UTF-8) of a passage, about 30 tokens: longer ones blur again what single facts they hold."""

MAX_PASSAGES: Final = 24
"""Passages of one text; those of a longer one are longer."""

MAX_WHOLE_TEXT_BYTES: Final = 320
"""Bytes. A text up to here is compared as a whole."""

_SENTENCE_END = re.compile(r"\n\s*|(?<=[.!?…])\s+|(?<=[。！？])")
_WHITESPACE = re.compile(r"\s+")
_SIGNS_OF_BYTE: Final = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).astype(np.float32) * 2 - 1


def is_long(text: str) -> bool:
    """Whether passages of the text say more than the text as a whole."""
    return _byte_length(text) > MAX_WHOLE_TEXT_BYTES


def split_passages(text: str, *, size: int = PASSAGE_BYTES, max_passages: int = MAX_PASSAGES) -> list[str]:
    """The text in at most `max_passages` passages of about `size` bytes each; put together they are the text.

    Cut where a line or sentence ends, else between words, else anywhere.
    """
    count = min(max_passages, ceil(_byte_length(text) / size))
    if count < 2:
        return [text] if text else []
    ends, blanks = ([match.end() for match in boundary.finditer(text)] for boundary in (_SENTENCE_END, _WHITESPACE))
    step = len(text) / count
    tolerance = (step - 1) / 2
    cuts = [0, *(_nearest_boundary(ends, blanks, step * number, tolerance) for number in range(1, count)), len(text)]
    return [text[start:end] for start, end in pairwise(cuts) if start < end]


def binary_quantize(vectors: Floats) -> bytes | None:
    """Vectors (passages × dimension) one after the other, a bit a number: 1 above zero; whole bytes a vector.

    Those of all zeros are left out; None when none is left.
    """
    nonzero = vectors[vectors.any(axis=1)]
    return np.packbits(nonzero > 0, axis=1).tobytes() if len(nonzero) else None


def best_passage_similarity(signs: bytes, sizes: NDArray[np.int64], question: Floats) -> Floats:
    """The cosine, about, of the question with the nearest passage of each text (n).

    `signs`: those of all texts, as `binary_quantize` gives them, one after the other; `sizes` (n): how many bytes of
    them are each text's, never 0. `question`: a vector of unit length.
    """
    width = ceil(len(question) / 8)
    if not len(sizes):
        return np.zeros(0, np.float32)
    columns = np.ascontiguousarray(np.frombuffer(signs, np.uint8).reshape(-1, width).T)
    byte_scores = dot(np.pad(question, (0, 8 * width - len(question))).reshape(width, 8), _SIGNS_OF_BYTE.T)
    similarity = np.zeros(columns.shape[1], np.float32)
    for column, scores in zip(columns, byte_scores.astype(np.float32), strict=True):
        similarity += scores[column]
    starts = np.cumsum(sizes) // width
    best = np.maximum.reduceat(similarity, np.concatenate(([0], starts[:-1])))
    return np.asarray(best / np.sqrt(len(question)), np.float32)


def similarity_with_passages(texts: Sequence[Sequence[Any]], question: Floats) -> Floats:
    """The cosine of the question with each text (n), or with its nearest passage where that is nearer.

    `texts`: of each its cosine and the signs of its passages, None where it has none.
    """
    cosines = np.array([similarity for similarity, _ in texts], np.float32)
    with_signs = [index for index, (_, signs) in enumerate(texts) if signs]
    signs = [each for _, each in texts if each]
    best = best_passage_similarity(b"".join(signs), np.array([len(each) for each in signs], np.int64), question)
    cosines[with_signs] = np.maximum(cosines[with_signs], best)
    return cosines


def _byte_length(text: str) -> int:
    return len(text.encode(errors="replace"))


def _nearest_boundary(ends: list[int], blanks: list[int], ideal: float, tolerance: float) -> int:
    """The boundary nearest to where a cut should be."""
    for boundaries in (ends, blanks):
        index = bisect_left(boundaries, ideal)
        either_side = boundaries[max(index - 1, 0) : index + 1]
        nearest = min(either_side, key=lambda boundary: abs(boundary - ideal), default=None)
        if nearest is not None and abs(nearest - ideal) <= tolerance:
            return nearest
    return round(ideal)
