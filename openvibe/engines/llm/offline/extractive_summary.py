"""Extraction without a model: passages of a prompt that bear on a question (BM25), and an extractive summary. Pure.

Passages are short windows of sentences, ranked with a share of the neighbours' score: what stands next to a good
passage is often its other half. A summary is the sentences that say most of what a text is about. Deterministic."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

from openvibe.engines.llm import tokens

_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)?")
_SENTENCE_END = re.compile(r"(?<=[.!?。！？…])\s+|(?<=[。！？])")
_SUFFIX_TEXT = "ations ation ingly ments ment ings ness edly ing ied ies ed es ly s"  # longest first
_SUFFIXES = tuple(_SUFFIX_TEXT.split())
_STOP_WORD_TEXT = """
    a about after all also am an and any are as at be because been before being but by can could did do does done
    for from get give had has have he her him his how i if in into is it its just let like may me might more most my
    no not of on one or our out over please say she should so some tell than that the their them then there these they
    this those to too up us very was we were what when where which who whom why will with would yes you your hi hello
    hey thanks thank think said says know summarize summarise summary discuss discussed
    describe explain mention mentioned talk talked opinion"""
_STOP_WORDS = frozenset(_STOP_WORD_TEXT.split())
_K1, _B = 1.2, 0.6
_COVERAGE_BONUS = 1.0  # the most a passage gains by sharing many different words
_NEIGHBOUR_SHARE = 0.15
_MIN_PASSAGE_WORDS = 4  # shorter passages are interjections, quoted only when nothing bears more on the question
_MIN_SCORE_RATIO = 0.3  # of the best score; weaker passages are not quoted


@dataclass(frozen=True)
class Passage:
    """A text that may be quoted. `position` is its place in the prompt, `score` how much it bears on the question."""

    text: str
    author: str
    reference: str
    position: int
    score: float = 0.0


def stem_words(text: str) -> list[str]:
    """The content words of a text, lower case and lightly stemmed, in order."""
    words = (word.group().lower().replace("’", "'").removesuffix("'s") for word in _WORD.finditer(text))
    return [_stem(word) for word in words if word not in _STOP_WORDS and (len(word) > 1 or not word.isascii())]


def best_passages(
    passages: Sequence[Passage], question: Sequence[str], *, max_passages: int, max_characters: int
) -> list[Passage]:
    """The passages, up to `max_passages`, that bear on the question, in prompt order, of about `max_characters` at
    most."""
    terms = sorted(set(question))
    windows = [window for passage in passages for window in _windows(passage, max_characters)]
    if not terms or not windows:
        return []
    scores = _add_neighbour_scores(_bm25([stem_words(f"{w.author} {w.text}") for w in windows], terms))
    if max(scores) <= 0:
        return []
    windows_with_scores = [replace(window, score=score) for window, score in zip(windows, scores, strict=True)]
    ranked_windows = sorted(enumerate(windows_with_scores), key=lambda pair: (-pair[1].score, pair[0]))
    score_by_passage: dict[str, int] = {}
    for index, window in ranked_windows:
        if len(score_by_passage) == max_passages or window.score < _MIN_SCORE_RATIO * max(scores):
            break
        if len(window.text.split()) >= _MIN_PASSAGE_WORDS or window.score == max(scores):
            score_by_passage.setdefault(window.text, index)
    return [windows_with_scores[index] for index in sorted(score_by_passage.values())]


def _bm25(windows: Sequence[Sequence[str]], terms: Sequence[str]) -> list[float]:
    counts = [Counter(window) for window in windows]
    mean_length = sum(map(len, windows)) / len(windows) or 1.0
    document_frequency = {term: sum(term in count for count in counts) for term in terms}
    idf = {term: math.log(1 + (len(windows) - df + 0.5) / (df + 0.5)) for term, df in document_frequency.items()}
    scores = []
    for window, count in zip(windows, counts, strict=True):
        norm = _K1 * (1 - _B + _B * len(window) / mean_length)
        matched_terms = [term for term in terms if count[term]]
        score = sum(idf[w] * count[w] * (_K1 + 1) / (count[w] + norm) for w in matched_terms)
        scores.append(score * (1 + _COVERAGE_BONUS * (len(matched_terms) - 1) / len(terms)) if matched_terms else 0.0)
    return scores


def _add_neighbour_scores(scores: Sequence[float]) -> list[float]:
    padded_scores = [0.0, *scores, 0.0]
    return [
        own + _NEIGHBOUR_SHARE * (padded_scores[index] + padded_scores[index + 2]) for index, own in enumerate(scores)
    ]


def _windows(passage: Passage, max_characters: int) -> list[Passage]:
    """Runs of whole sentences of at most about `max_characters`; a longer sentence is cut at a space."""
    runs: list[str] = []
    for sentence in split_sentences(passage.text, max_characters):
        if runs and len(runs[-1]) + len(sentence) < max_characters:
            runs[-1] += f" {sentence}"
        else:
            runs.append(sentence)
    return [replace(passage, text=run) for run in runs]


def split_sentences(text: str, max_characters: int) -> list[str]:
    """The sentences of a text, those longer than `max_characters` in pieces."""
    pieces: list[str] = []
    for sentence in filter(None, _SENTENCE_END.split(text)):
        start = 0
        while len(sentence) - start > max_characters:
            space = sentence.rfind(" ", start + max_characters // 2, start + max_characters)
            end = space if space > 0 else start + max_characters
            pieces.append(sentence[start:end].strip())
            start = end
        pieces.append(sentence[start:].strip())
    return [piece for piece in pieces if piece]


@lru_cache(maxsize=16_384)
def _stem(word: str) -> str:
    stem = word
    for suffix in _SUFFIXES:
        if word.endswith(suffix) and len(word) - len(suffix) >= 3 and not word.endswith("ss"):
            stem = word.removesuffix(suffix) + ("y" if suffix in ("ies", "ied") else "")
            break
    if len(stem) > 3 and stem[-1] == stem[-2] and stem[-1] not in "lsz":
        stem = stem[:-1]
    return stem.removesuffix("e") if len(stem) > 3 else stem


_TRANSCRIPT_LINE = re.compile(r"^\[(?P<when>[^\]|\n]*) \| (?P<role>[^\]|\n]*) \| (?P<who>[^\]\n]*)\] (?P<text>.*)$")
_DECISION = re.compile(
    r"(?i)\b(?:decid|agree|must|never|always|only|because|deadline|constraint|require|instead|not\b|error|fail|fix"
    r"|open question|next step|todo|approv|reject|promis|will|done|change|remember)\w*"
)
_FACT = re.compile(r"\d|https?://|[\w./-]+\.\w{1,5}\b|`")
_DECISION_BONUS, _FACT_BONUS = 0.35, 0.25
_MAX_SENTENCE_CHARACTERS = 420  # characters of one sentence
_MIN_SENTENCE_WORDS = 3


class _ScoredSentence(NamedTuple):
    position: int
    speaker: str
    text: str
    score: float

    @property
    def line(self) -> str:
        return f"{self.speaker}: {self.text}" if self.speaker else self.text


def extractive_summary(text: str, max_tokens: int, focus: str = "") -> str:
    """Whole sentences of the text, each once and in their order, their speakers in front, of at most `max_tokens`.

    Lines may begin with `[time | role | speaker] `. What shares words with the `focus` takes up to half of the tokens
    before the rest. Where not even one sentence fits, the beginning of the best.
    """
    ranked_sentences = _rank_sentences(text)
    chosen_sentences: list[_ScoredSentence] = []
    token_count = 0
    for sentences, limit in (
        (_focused_sentences(ranked_sentences, focus), max_tokens // 2),
        (ranked_sentences, max_tokens),
    ):
        for sentence in sentences:
            cost = tokens.count_tokens(sentence.line) + 1
            if token_count + cost <= limit and sentence not in chosen_sentences:
                chosen_sentences.append(sentence)
                token_count += cost
    while chosen_sentences and tokens.count_tokens(_join_sentences(chosen_sentences)) > max_tokens:
        chosen_sentences.pop()
    if chosen_sentences or not ranked_sentences:
        return _join_sentences(chosen_sentences)
    return tokens.truncate_to_tokens(ranked_sentences[0].line, max_tokens, tokens.counter_for("offline")).strip()


def _focused_sentences(sentences: Sequence[_ScoredSentence], focus: str) -> list[_ScoredSentence]:
    """Those that share words with the focus, by how much they bear on it (BM25)."""
    terms = sorted(set(stem_words(focus)))
    if not terms or not sentences:
        return []
    scores = _bm25([stem_words(sentence.line) for sentence in sentences], terms)
    ranked = sorted(zip(scores, sentences, strict=True), key=lambda pair: (-pair[0], pair[1].position))
    return [sentence for score, sentence in ranked if score > 0]


def key_sentences(text: str, max_sentences: int) -> list[str]:
    """The key sentences of the text, at most `max_sentences`, each once, the one that says most of what it is about
    first."""
    return [sentence.text for sentence in _rank_sentences(text)[:max_sentences]]


def _rank_sentences(text: str) -> list[_ScoredSentence]:
    """The sentences of the text, each once, the highest score first."""
    sentences_by_text: dict[str, tuple[str, list[str]]] = {}
    speaker = ""
    for line in text.split("\n"):
        match = _TRANSCRIPT_LINE.match(line)
        if match:
            speaker = "" if match["role"] == "summary" else match["who"]
        for sentence in split_sentences(match["text"] if match else line, _MAX_SENTENCE_CHARACTERS):
            sentences_by_text.setdefault(" ".join(sentence.split()), (speaker, stem_words(sentence)))
    term_counts = Counter(term for _, terms in sentences_by_text.values() for term in set(terms))
    max_count = max(term_counts.values(), default=1)
    scored_sentences = (
        _ScoredSentence(position, speaker, sentence, _sentence_score(sentence, terms, term_counts, max_count))
        for position, (sentence, (speaker, terms)) in enumerate(sentences_by_text.items())
    )
    return sorted(scored_sentences, key=lambda sentence: (-sentence.score, sentence.position))


def _sentence_score(sentence: str, terms: Sequence[str], term_counts: Counter[str], max_count: int) -> float:
    """How much of what the whole is about the sentence is about, and whether it decides or states something."""
    if not terms:
        return 0.0
    score: float = sum(term_counts[term] / max_count for term in set(terms)) / math.sqrt(len(terms))
    score += _DECISION_BONUS * bool(_DECISION.search(sentence)) + _FACT_BONUS * bool(_FACT.search(sentence))
    return score if len(terms) >= _MIN_SENTENCE_WORDS else score / 4


def _join_sentences(sentences: Sequence[_ScoredSentence]) -> str:
    return "\n".join(sentence.line for sentence in sorted(sentences))
