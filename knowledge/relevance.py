"""The relevance of entries: which entries bear on a question at all, however many there are to choose from. Pure: no
Django, no database.

Two kinds of evidence are added. Meaning: by how many standard deviations an entry is nearer to the question than texts
that have nothing to do with it. Words: how much of what the question tells the entry holds, rare words telling more.
Together they have to go beyond what the nearest of so many unrelated texts would reach by chance
(`openvibe.engines.search.significance`)."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from openvibe.engines.search.significance import ChanceLevel, min_z_score
from openvibe.engines.search.values import Floats, dot

_WORDS_WEIGHT: Final = 4
"""Standard deviations. What holding all telling words of a question adds to its nearness."""

_MAX_TELLING_TERMS: Final = 4
"""The number of a question's terms, the rarest, that tell as much as all: no entry holds most words of a long one."""

SUFFICIENT_COVERAGE: Final = 2 / 3
"""An entry that holds so much of what a question tells bears on it, whatever its vector says."""

MIN_COVERAGE: Final = 0.3
"""The same where there is no vector to ask: of three words one that is no rarer than the others."""


def coverage(hits: NDArray[np.uint8], idfs: Floats) -> Floats:
    """How much of what a question tells each text holds (n), from 0 to 1.

    `hits` (n × terms) is above 0 where a text holds a term; `idfs` (terms) says how much each tells.
    """
    if not len(idfs):
        return np.zeros(len(hits), np.float32)
    most = float(np.sort(idfs)[-_MAX_TELLING_TERMS:].sum())
    shares: Floats = np.minimum(dot(hits > 0, idfs) / max(most, 1e-6), 1).astype(np.float32)
    return shares


def bears_on(
    share: Floats, similarity: Floats | None, chance: ChanceLevel | None, corpus_size: int
) -> NDArray[np.bool_]:
    """Whether each text bears on a question of which it holds this share (n).

    `similarity` (n): its cosine with the question, NaN where there is no vector; `chance`: that of unrelated texts.
    Where either is missing words decide. `corpus_size`: how many texts there are, of which these are some.
    """
    by_words = share >= MIN_COVERAGE
    if similarity is None or chance is None:
        return np.asarray(by_words)
    evidence = chance.z_scores(similarity) + _WORDS_WEIGHT * share
    return np.where(
        np.isfinite(similarity), (evidence > min_z_score(corpus_size)) | (share >= SUFFICIENT_COVERAGE), by_words
    )


def touches(share: Floats, similarity: Floats | None, chance: ChanceLevel | None) -> NDArray[np.bool_]:
    """Whether each text has anything to do with a question: a word of it, or nearer than one unrelated text comes."""
    has_word = share > 0
    if similarity is None or chance is None:
        return np.asarray(has_word)
    return has_word | (chance.z_scores(similarity) > min_z_score(1))
