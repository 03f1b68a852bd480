"""BM25; and score fusion: BM25 and cosine similarities as z-scores, added; in a conversation smoothed over the
neighbours. Pure.

Three kinds of evidence are brought to the same scale and added: the words shared (BM25), the likeness in meaning, and
the likeness of the text together with the one before it. In a conversation what is said around a text counts too,
as much as the scores themselves show it: where they rise and fall in stretches, as when people stay with a subject,
whole stretches are lifted; where they look like noise, each text stands for itself. A text that stands out far keeps
its rank either way. Surroundings fade with the tokens in between, since a short remark says less about what stands
beyond it than a page, and end where the talk paused."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

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


_VECTOR_BLUR_TOKENS: Final = 100
"""Tokens. A vector is an average of a text's words, so it says less about a long text: at this length 0.7 as much."""

_NEIGHBOUR_HALF_LIFE_TOKENS: Final = 250
"""Tokens. So far away a neighbour counts half."""

_MAX_PAUSE_SECONDS: Final = 7_200
"""What was said after a longer pause belongs to another talk."""

_SCATTERED_WEIGHT: Final = 0.5
"""How much of the surroundings counts where several pieces are asked for, which lie scattered."""

_NAMED_WEIGHT: Final = 0.6
_PERSON_WEIGHT: Final = 0.1
"""Standard deviations by which a text gains that is said by somebody the question names; by a person in a thread with
assistants: these repeat what people say."""

_EXACT_WEIGHT: Final = 100.0
"""What a text gains that holds what was asked for as it stands: more than anything else could add up to."""

_DATED_WEIGHT: Final = 3.0
"""What the score of a text gains that was said in the days which the question names. Added last: all that was said then
is lifted, and what stands around it is not."""

_LINK_WEIGHT: Final = 0.5
"""The share of the score of one of the best texts by which another gains that says more of a name in it."""

_LENGTH_WEIGHT: Final = 0.25
"""Standard deviations by which a text of a conversation gains for each that its length (logarithm) stands out: "ok" and
"see you" answer nothing. After Singhal, Buckley and Mitra, "Pivoted Document Length Normalization" (1996): what is
normalised by length prefers short texts more than they are relevant."""

_MIN_LAG: Final = 2
_MAX_LAG: Final = 8
"""Texts. How far away scores are compared with each other; those next to each other share a vector, so they would
always agree."""

_FULL_AUTOCORRELATION: Final = 0.03
"""The correlation from which on surroundings count in full."""

_OWN_WEIGHT: Final = 0.05
_OUTLIER_WEIGHT: Final = 0.3
"""What a text's own score adds, and the square of it: little for most, all for one far above the others."""


def rank(
    candidates: Candidates,
    *,
    document_frequencies: Sequence[float] | None = None,
    corpus_size: int | None = None,
    use_neighbours: bool = True,
    is_scattered: bool = False,
) -> Floats:
    """A score for each candidate (n); higher bears more on the question. Scores of two questions do not compare.

    `document_frequencies`: how many texts hold each term, out of `corpus_size`; of the candidates when not given.
    `use_neighbours`: the candidates are of one conversation, so what stands around them counts; False for texts that
    stand alone. `is_scattered`: the question asks for several pieces.
    """
    return rank_with_stretches(
        candidates,
        document_frequencies=document_frequencies,
        corpus_size=corpus_size,
        use_neighbours=use_neighbours,
        is_scattered=is_scattered,
    )[0]


def rank_with_stretches(
    candidates: Candidates,
    *,
    document_frequencies: Sequence[float] | None = None,
    corpus_size: int | None = None,
    use_neighbours: bool = True,
    is_scattered: bool = False,
) -> tuple[Floats, float]:
    """Scores as `rank` returns them; and from 0 to 1 how far they rise and fall in stretches, as where people stay with
    a subject, 0 for texts that stand alone."""
    if not len(candidates):
        return np.zeros(0, np.float32), 0.0
    vector_weight = 1 / np.sqrt(1 + float(np.median(candidates.tokens)) / _VECTOR_BLUR_TOKENS)
    score = z_scores(bm25(candidates, document_frequencies, corpus_size))
    for similarity in (candidates.similarity, candidates.pair_similarity):
        if similarity is not None:
            score = score + vector_weight * z_scores(similarity)
    score = _add_speaker_weights(score, candidates)
    if use_neighbours:
        score = score + _LENGTH_WEIGHT * z_scores(np.log(np.maximum(candidates.words, 1)).astype(np.float32))
    score = z_scores(score)
    strength = 0.0
    if use_neighbours:
        strength = _stretch_strength(score, candidates)
        own = _OWN_WEIGHT * score + _OUTLIER_WEIGHT * np.square(np.maximum(score, 0))
        weight = _SCATTERED_WEIGHT if is_scattered else 1.0
        score = own + weight * _neighbour_scores(score, candidates, strength)
    if candidates.dated is not None:
        score = score + _DATED_WEIGHT * candidates.dated
    if candidates.is_exact is not None:
        score = score + _EXACT_WEIGHT * candidates.is_exact
    return score.astype(np.float32), strength


def lift_linked(scores: Floats, links: Mapping[int, Collection[int]], strength: float) -> Floats:
    """The scores with texts lifted (places) that hold a rare name out of one of the best: by so much of the score of
    that one, the less the more the conversation goes in `strength` stretches, whose texts bear more than names do."""
    lifted = scores.copy()
    for source, places in links.items():
        for place in places:
            if place != source:
                gain = _LINK_WEIGHT * (1 - strength) * max(float(scores[source]), 0.0)
                lifted[place] = max(lifted[place], scores[place] + gain)
    return lifted


def _add_speaker_weights(score: Floats, candidates: Candidates) -> Floats:
    for is_theirs, weight in ((candidates.by_named, _NAMED_WEIGHT), (candidates.by_person, _PERSON_WEIGHT)):
        if is_theirs is not None:
            score = score + is_theirs.astype(np.float32) * weight
    return score


def z_scores(values: Floats) -> Floats:
    """Z-scores; what is missing counts as average, and so does everything where nothing differs."""
    finite = np.isfinite(values)
    if not finite.any():
        return np.zeros(len(values), np.float32)
    mean, deviation = values[finite].mean(), values[finite].std()
    return np.where(finite, (values - mean) / (deviation if deviation > 1e-6 else np.inf), 0).astype(np.float32)


def _stretch_strength(scores: Floats, candidates: Candidates) -> float:
    return min(max(_autocorrelation(scores, candidates.positions) / _FULL_AUTOCORRELATION, 0.0), 1.0)


def _neighbour_scores(scores: Floats, candidates: Candidates, strength: float) -> Floats:
    """The gain or loss of each text by those around it, nothing where they tell nothing."""
    if not strength:
        return np.zeros(len(scores), np.float32)
    decay = _decay(candidates).tolist()
    before = _decayed_sums(scores.tolist(), decay)
    after = _decayed_sums(scores[::-1].tolist(), [1.0, *decay[:0:-1]])[::-1]
    return strength * z_scores(np.asarray(before) + np.asarray(after) - scores)


def _decay(candidates: Candidates) -> NDArray[np.float64]:
    """How much of what stands before each text (n) reaches it: by the tokens from middle to middle, those of texts
    that are no candidates taken as the average; nothing after a pause."""
    tokens = candidates.tokens
    distance = np.zeros(len(tokens))
    distance[1:] = (tokens[1:] + tokens[:-1]) / 2 + (np.diff(candidates.positions) - 1) * tokens.mean()
    decay: NDArray[np.float64] = 0.5 ** (distance / _NEIGHBOUR_HALF_LIFE_TOKENS)
    if candidates.seconds is not None:
        decay[1:][np.abs(np.diff(candidates.seconds)) > _MAX_PAUSE_SECONDS] = 0.0
    return decay


def _decayed_sums(scores: Iterable[float], decay: Iterable[float]) -> list[float]:
    """Each score with what is left of those before it."""
    steps = zip(scores, decay, strict=True)
    return [each for each, _ in accumulate(steps, lambda last, step: (last[0] * step[1] + step[0], 0.0))]


def _autocorrelation(scores: Floats, positions: NDArray[np.int64]) -> float:
    """The correlation of scores with those a few texts away, less what chance makes of noise: 0 or below there."""
    product_sum, pair_count = 0.0, 0
    for step in range(1, min(_MAX_LAG, len(scores) - 1) + 1):
        lag = positions[step:] - positions[:-step]
        in_range = (lag >= _MIN_LAG) & (lag <= _MAX_LAG)
        product_sum += float(dot(scores[step:] * scores[:-step], in_range))
        pair_count += int(np.count_nonzero(in_range))
    return product_sum / pair_count - pair_count**-0.5 if pair_count else 0.0
