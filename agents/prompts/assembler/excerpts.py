"""Excerpts of long messages: the passages that bear most on a question, in the order in which they were written."""

import re
from collections.abc import Collection, Sequence
from functools import lru_cache

import numpy as np

from openvibe.engines.llm.offline.extractive_summary import stem_words
from openvibe.engines.llm.tokens import TokenCounter
from openvibe.engines.search.passages import split_passages
from openvibe.engines.search.ranking import z_scores
from openvibe.engines.search.spaces import BUILT_IN_EMBEDDER
from openvibe.engines.search.values import Floats, dot
from openvibe.engines.text.masking import mask_secrets
from openvibe.engines.text.words import query_terms, strip_stop_words

PASSAGE_BYTES = 240
"""Bytes (UTF-8), about 60 tokens: a few sentences, or a short paragraph."""

MAX_PASSAGES = 120
"""The most passages of one message; those of a longer one are longer."""

GAP_MARKER = "[…]"
GAP_TOKENS = 6


def choose_passages(
    text: str, question: str, limit: int, counter: TokenCounter, *, note: str
) -> tuple[int, ...] | None:
    """The passages of the text that bear most on the question and fit `limit` tokens with the `note` that ends an
    excerpt, in their order; None for a text that fits as it is, none where not even one does.

    Cut where lines, sentences or words end. Secrets are masked first, so that no cut leaves half of one.
    """
    safe = mask_secrets(text)
    if counter.count(safe) <= limit:
        return None
    passages = _passages(safe)
    tokens_left = limit - counter.count(note) - GAP_TOKENS
    indices: list[int] = []
    scores = _passage_scores(passages, question)
    for index in np.argsort(-scores, kind="stable").tolist():
        cost = counter.count(passages[index]) + GAP_TOKENS
        if cost > tokens_left or (indices and scores[index] <= 0):
            break
        tokens_left -= cost
        indices.append(index)
    return tuple(sorted(indices))


def join_passages(text: str, indices: Collection[int], note: str) -> str:
    """The text of these passages, in ascending order; `[…]` stands for what is left out, and `note` at the end says so.
    Empty without any.

    Secrets are masked. Raises IndexError for a passage that the text has not got.
    """
    passages = _passages(mask_secrets(text))
    last = -1
    pieces: list[str] = []
    for index in indices:
        if index - last > 1:
            pieces = [*_without_ending_blanks(pieces), GAP_MARKER, "\n"]
        pieces.append(passages[index])
        last = index
    if not pieces:
        return ""
    if last < len(passages) - 1:
        pieces = [*_without_ending_blanks(pieces), GAP_MARKER]
    return f"{''.join(pieces)}\n{note}"


def _without_ending_blanks(pieces: Sequence[str]) -> list[str]:
    """The pieces, the last of them ending in one line break."""
    return [*pieces[:-1], f"{pieces[-1].rstrip()}\n"] if pieces else []


def count_question_words(text: str, question: str) -> int:
    """How many of the telling words of the question the text holds."""
    lowercase_text = text.lower()
    return sum(bool(pattern.search(lowercase_text)) for pattern in _question_patterns(question))


def _passages(safe: str) -> Sequence[str]:
    return split_passages(safe, size=PASSAGE_BYTES, max_passages=MAX_PASSAGES)


def _passage_scores(passages: Sequence[str], question: str) -> Floats:
    """How much each passage bears on the question: words and meaning on one scale, 0 for the average passage.

    The built-in embedder tells them apart whatever the workspace searches with: a hundred passages take it a few
    milliseconds, and no network.
    """
    terms = _question_patterns(question)
    lowercase_passages = [passage.lower() for passage in passages]
    term_matrix = np.array([[bool(term.search(each)) for term in terms] for each in lowercase_passages]).reshape(
        len(lowercase_passages), len(terms)
    )
    by_words = dot(term_matrix, np.log1p(len(lowercase_passages) / (term_matrix.sum(axis=0) + 0.5)))
    by_meaning = dot(BUILT_IN_EMBEDDER.embed(passages), _question_vector(question))
    return z_scores(by_words.astype(np.float32)) + z_scores(by_meaning)


@lru_cache(maxsize=64)
def _question_vector(question: str) -> Floats:
    vector: Floats = BUILT_IN_EMBEDDER.embed([strip_stop_words(question)])[0]
    return vector


@lru_cache(maxsize=64)
def _question_patterns(question: str) -> list[re.Pattern[str]]:
    """Patterns for each telling word: words that begin as it does without its ending; without blanks, what holds it."""
    stems = dict.fromkeys(next(iter(stem_words(term)), term) for term in query_terms(question))
    return [re.compile(rf"(?<![^\W_]){re.escape(stem)}" if stem.isascii() else re.escape(stem)) for stem in stems]
