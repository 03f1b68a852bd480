"""Long texts in passages: one vector says little about a single fact in a long text, those of its passages do.

A passage is kept by the signs of its vector alone, one bit a number: enough to tell which passage is near a question,
and a long message's fit beside its other vectors. Pure: no Django, no database.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise
from math import ceil
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from openvibe.search.values import Floats

PASSAGE: Final = 120
"""Bytes (UTF-8) of a passage, about 30 tokens: longer ones blur again what single facts they hold."""

MOST: Final = 24
"""Passages of one text; those of a longer one are longer."""

LONG: Final = 320
"""Bytes. A text up to here is compared as a whole."""

_END = re.compile(r"\n\s*|(?<=[.!?…])\s+|(?<=[。！？])")
_BLANK = re.compile(r"\s+")
_BITS: Final = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).astype(np.float32) * 2 - 1


def is_long(text: str) -> bool:
    """Whether passages of the text say more than the text as a whole."""
    return _size(text) > LONG


def passages_of(text: str, *, size: int = PASSAGE, most: int = MOST) -> list[str]:
    """The text in at most `most` passages of about `size` bytes each; put together they are the text.

    Cut where a line or sentence ends, else between words, else anywhere.
    """
    many = min(most, ceil(_size(text) / size))
    if many < 2:
        return [text] if text else []
    ends, blanks = ([match.end() for match in border.finditer(text)] for border in (_END, _BLANK))
    step = len(text) / many
    reach = (step - 1) / 2
    cuts = [0, *(_cut(ends, blanks, step * place, reach) for place in range(1, many)), len(text)]
    return [text[start:end] for start, end in pairwise(cuts) if start < end]


def signs_of(vectors: Floats) -> bytes | None:
    """Vectors (passages × dimension) one after the other, a bit a number: 1 above zero; whole bytes a vector.

    Those of all zeros are left out; None when none is left.
    """
    told = vectors[vectors.any(axis=1)]
    return np.packbits(told > 0, axis=1).tobytes() if len(told) else None


def nearest(signs: bytes, sizes: NDArray[np.int64], question: Floats) -> Floats:
    """About the cosine of the question with the nearest passage of each text (n).

    `signs`: those of all texts, as `signs_of` gives them, one after the other; `sizes` (n): how many bytes of them are
    each text's, never 0. `question`: a vector of unit length.
    """
    width = ceil(len(question) / 8)
    if not len(sizes):
        return np.zeros(0, np.float32)
    columns = np.ascontiguousarray(np.frombuffer(signs, np.uint8).reshape(-1, width).T)
    worth = np.pad(question, (0, 8 * width - len(question))).reshape(width, 8) @ _BITS.T
    likeness = np.zeros(columns.shape[1], np.float32)
    for column, of_byte in zip(columns, worth.astype(np.float32), strict=True):
        likeness += of_byte[column]
    starts = np.cumsum(sizes) // width
    best = np.maximum.reduceat(likeness, np.concatenate(([0], starts[:-1])))
    return np.asarray(best / np.sqrt(len(question)), np.float32)


def with_passages(texts: Sequence[Sequence[Any]], question: Floats) -> Floats:
    """The cosine of the question with each text (n), or with its nearest passage where that is nearer.

    `texts`: of each its cosine and the signs of its passages, None where it has none.
    """
    likeness = np.array([similarity for similarity, _ in texts], np.float32)
    known = [place for place, (_, signs) in enumerate(texts) if signs]
    signs = [each for _, each in texts if each]
    best = nearest(b"".join(signs), np.array([len(each) for each in signs], np.int64), question)
    likeness[known] = np.maximum(likeness[known], best)
    return likeness


def _size(text: str) -> int:
    return len(text.encode(errors="replace"))


def _cut(ends: list[int], blanks: list[int], ideal: float, reach: float) -> int:
    """The border nearest to where a cut should be."""
    for borders in (ends, blanks):
        place = bisect_left(borders, ideal)
        near = [border for border in borders[max(place - 1, 0) : place + 1] if abs(border - ideal) <= reach]
        if near:
            return min(near, key=lambda border: abs(border - ideal))
    return round(ideal)
