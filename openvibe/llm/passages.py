"""Choosing the passages of a prompt that bear on a question, by the words they share. Pure and deterministic.

The ranking is BM25 over short windows of sentences, with a share of the neighbours' score: what stands next to
a good passage is often its other half.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)?")
_SENTENCE_END = re.compile(r"(?<=[.!?。！？…])\s+|(?<=[。！？])")
_ENDING_TEXT = "ations ation ingly ments ment ings ness edly ing ied ies ed es ly s"  # longest first
_ENDINGS = tuple(_ENDING_TEXT.split())
_STOP_WORD_TEXT = """
    a about after all also am an and any are as at be because been before being but by can could did do does done
    for from get give had has have he her him his how i if in into is it its just let like may me might more most my
    no not of on one or our out over please say she should so some tell than that the their them then there these they
    this those to too up us very was we were what when where which who whom why will with would yes you your hi hello
    hey thanks thank think said says know summarize summarise summary discuss discussed
    describe explain mention mentioned talk talked opinion"""
_STOP_WORDS = frozenset(_STOP_WORD_TEXT.split())
_SATURATION, _LENGTH_WEIGHT = 1.2, 0.6
_COVERAGE = 1.0  # the most a passage gains by sharing many different words
_NEIGHBOUR_SHARE = 0.15
_FEWEST_WORDS = 4  # shorter passages are interjections, quoted only when nothing bears more on the question
_WEAKEST = 0.3  # of the best score; weaker passages are not quoted


@dataclass(frozen=True)
class Passage:
    """A text that may be quoted. `position` is its place in the prompt, `score` how much it bears on the question."""

    text: str
    author: str
    reference: str
    position: int
    score: float = 0.0


def words(text: str) -> list[str]:
    """The content words of a text, lower case and lightly stemmed, in order."""
    found = (word.group().lower().replace("’", "'").removesuffix("'s") for word in _WORD.finditer(text))
    return [_stem(word) for word in found if word not in _STOP_WORDS and (len(word) > 1 or not word.isascii())]


def best_passages(passages: Sequence[Passage], question: Sequence[str], *, most: int, characters: int) -> list[Passage]:
    """At most `most` passages that bear on the question, in prompt order, each cut to about `characters`."""
    asked = sorted(set(question))
    windows = [window for passage in passages for window in _windows(passage, characters)]
    if not asked or not windows:
        return []
    scores = _with_neighbours(_bm25([words(f"{w.author} {w.text}") for w in windows], asked))
    if max(scores) <= 0:
        return []
    scored = [replace(window, score=score) for window, score in zip(windows, scores, strict=True)]
    ranked = sorted(enumerate(scored), key=lambda pair: (-pair[1].score, pair[0]))
    chosen: dict[str, int] = {}
    for at, window in ranked:
        if len(chosen) == most or window.score < _WEAKEST * max(scores):
            break
        if len(window.text.split()) >= _FEWEST_WORDS or window.score == max(scores):
            chosen.setdefault(window.text, at)
    return [scored[at] for at in sorted(chosen.values())]


def _bm25(windows: Sequence[Sequence[str]], asked: Sequence[str]) -> list[float]:
    counts = [Counter(window) for window in windows]
    average = sum(map(len, windows)) / len(windows) or 1.0
    weights = {}
    for word in asked:
        having = sum(word in count for count in counts)
        weights[word] = math.log(1 + (len(windows) - having + 0.5) / (having + 0.5))
    scores = []
    for window, count in zip(windows, counts, strict=True):
        norm = _SATURATION * (1 - _LENGTH_WEIGHT + _LENGTH_WEIGHT * len(window) / average)
        shared = [word for word in asked if count[word]]
        score = sum(weights[w] * count[w] * (_SATURATION + 1) / (count[w] + norm) for w in shared)
        scores.append(score * (1 + _COVERAGE * (len(shared) - 1) / len(asked)) if shared else 0.0)
    return scores


def _with_neighbours(scores: Sequence[float]) -> list[float]:
    padded = [0.0, *scores, 0.0]
    return [own + _NEIGHBOUR_SHARE * (padded[at] + padded[at + 2]) for at, own in enumerate(scores)]


def _windows(passage: Passage, characters: int) -> list[Passage]:
    """Runs of whole sentences of at most about `characters`; a longer sentence is cut at a space."""
    runs: list[str] = []
    for sentence in sentences(passage.text, characters):
        if runs and len(runs[-1]) + len(sentence) < characters:
            runs[-1] += f" {sentence}"
        else:
            runs.append(sentence)
    return [replace(passage, text=run) for run in runs]


def sentences(text: str, characters: int) -> list[str]:
    """The sentences of a text, those longer than `characters` in pieces."""
    pieces: list[str] = []
    for sentence in filter(None, _SENTENCE_END.split(text)):
        start = 0
        while len(sentence) - start > characters:
            space = sentence.rfind(" ", start + characters // 2, start + characters)
            end = space if space > 0 else start + characters
            pieces.append(sentence[start:end].strip())
            start = end
        pieces.append(sentence[start:].strip())
    return [piece for piece in pieces if piece]


def _stem(word: str) -> str:
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3 and not word.endswith("ss"):
            stem = word.removesuffix(ending)
            stem = f"{stem}y" if ending in ("ies", "ied") else stem
            break
    else:
        stem = word
    if len(stem) > 3 and stem[-1] == stem[-2] and stem[-1] not in "lsz":
        stem = stem[:-1]
    return stem.removesuffix("e") if len(stem) > 3 else stem
