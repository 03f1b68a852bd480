"""The passages of a long message that bear on a request, instead of all of it. Pure and deterministic."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from functools import lru_cache

import numpy as np

from openvibe.base.secrets import mask_secrets
from openvibe.llm.passages import words
from openvibe.llm.tokens import TokenCounter
from openvibe.search.lexical import question_terms, telling_text
from openvibe.search.passages import passages_of
from openvibe.search.ranking import standard
from openvibe.search.spaces import BUILT_IN
from openvibe.search.values import Floats

PASSAGE = 240
"""Bytes (UTF-8), about 60 tokens: a few sentences, or a short paragraph."""

PASSAGES = 120
"""Of one message; those of a longer one are longer."""

GAP = "[…]"
GAP_TOKENS = 6


def excerpt(text: str, question: str, limit: int, counter: TokenCounter, *, note: str) -> str:
    """The text when it fits `limit` tokens, else its passages that bear most on the question, in their order.

    Cut where lines, sentences or words end; `[…]` stands for what is left out, and `note` at the end says so. Secrets
    are masked first, so that no cut leaves half of one. Empty where not even one passage fits.
    """
    safe = mask_secrets(text)
    if counter.count(safe) <= limit:
        return safe
    passages = passages_of(safe, size=PASSAGE, most=PASSAGES)
    room = limit - counter.count(note) - GAP_TOKENS
    chosen: list[int] = []
    scores = _scores(passages, question)
    for place in np.argsort(-scores, kind="stable").tolist():
        cost = counter.count(passages[place]) + GAP_TOKENS
        if cost > room or (chosen and scores[place] <= 0):
            break
        room -= cost
        chosen.append(place)
    return _joined(passages, chosen, note) if chosen else ""


def _scores(passages: Sequence[str], question: str) -> Floats:
    """How much each passage bears on the question: words and meaning on one scale, 0 for the average passage."""
    terms = _terms(question)
    said = [passage.lower() for passage in passages]
    held = np.array([[bool(term.search(each)) for term in terms] for each in said]).reshape(len(said), len(terms))
    by_words = held @ np.log1p(len(said) / (held.sum(axis=0) + 0.5))
    by_meaning = BUILT_IN.embed(passages) @ _meaning(question)
    return standard(by_words.astype(np.float32)) + standard(by_meaning)


@lru_cache(maxsize=64)
def _meaning(question: str) -> Floats:
    vector: Floats = BUILT_IN.embed([telling_text(question)])[0]
    return vector


@lru_cache(maxsize=64)
def _terms(question: str) -> list[re.Pattern[str]]:
    """For each telling word: words that begin as it does without its ending; without blanks, what holds it."""
    stems = dict.fromkeys(next(iter(words(term)), term) for term in question_terms(question))
    return [re.compile(rf"(?<![^\W_]){re.escape(stem)}" if stem.isascii() else re.escape(stem)) for stem in stems]


def _joined(passages: Sequence[str], chosen: Collection[int], note: str) -> str:
    """The chosen passages in their order, with a sign where something is left out."""
    last = -1
    pieces: list[str] = []
    for place in sorted(chosen):
        if place - last > 1:
            pieces.append(f"\n{GAP}\n" if pieces else f"{GAP}\n")
        pieces.append(passages[place])
        last = place
    if last < len(passages) - 1:
        pieces.append(f"\n{GAP}")
    return f"{''.join(pieces)}\n{note}"
