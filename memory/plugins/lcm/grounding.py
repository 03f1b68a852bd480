"""Whether a text is told by its source: its content words, their order, its names and numbers. Pure; no model is asked.

A content word is *told* where the source has it, a word of the same stem, a compound's part or, in languages that the
built-in embedder knows, a word of about the same meaning: summaries reword. Two content words that follow each other
are *near* where the source has both within NEAR_WORDS content words: true sentences keep together what was said
together, words thrown into a heap do not. What was measured on true and false examples is in the tests."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cache, cached_property
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np

from memory.plugins.lcm.source_lines import line_times, parse_lines
from openvibe.engines.search.embedders import StaticEmbedder
from openvibe.engines.search.values import dot
from openvibe.engines.text.languages import STOP_WORDS_BY_LANGUAGE, detect_language
from openvibe.engines.text.words import cjk_bigrams

NEAR_WORDS: Final = 10
MIN_COSINE: Final = 0.5
"""The cosine from which on two words mean about the same."""

MIN_STEM: Final = 4
"""Letters that two words of one stem share at least."""

_RUSSIAN_TEXT: Final = """
а без бы был была были было быть в вам вас весь во вот все всё вы где да для до его ее её если есть еще ещё же за
здесь и из или им их к как ко когда кто ли мне может мы на надо нам нас не него нее нет ни но ну о об он она они оно
от по под при с со так там тебя тем то тогда того только том ты у уже чем что чтобы эта эти это этого этой этот я
"""
_FUNCTION_WORDS: Final = {**STOP_WORDS_BY_LANGUAGE, "ru": frozenset(_RUSSIAN_TEXT.split())}
FUNCTION_WORDS: Final = frozenset().union(*_FUNCTION_WORDS.values())
"""Words of grammar in eight languages: they stand in any text."""

MIN_FUNCTION_WORDS: Final = 3
"""Words of grammar from which on they tell a language."""

ENDS: Final = frozenset(".!?…")
CLOSERS: Final = frozenset(".!?…)")
COMMAS: Final = frozenset(",;:()")
POLITE: Final = frozenset(["sie", "ihr", "ihre", "ihnen", "ihren", "ihrem"])
"""Words of grammar that German writes with a capital."""

_ARTICLE_TEXT: Final = """
a an the my our their every der den dem des ein eine einem einen einer eines le les un une el los las il gli
uno het een os um uma
"""
ARTICLES: Final = frozenset(_ARTICLE_TEXT.split())
_NEVER_AFTER_TEXT: Final = """
a an the of to in on at for with from by and or but that which who is are was were be been has have had will it
he she they we you i until than as so because not der die das den dem des ein eine einem einen einer im am auf
aus bei mit nach von vor zu zum zur und oder aber dass weil ist sind war wird werden hat haben er sie es wir
ich nicht le la les un une du de à au aux en dans par pour sur avec et ou mais que qui est sont elle ne pas se
el los las una del al y o pero con por para son está no il lo gli uno della di da dal nel e ed che per è sono
non het van op aan met voor naar tot bij maar dat zijn wordt niet
"""
NEVER_AFTER_ARTICLES: Final = frozenset(_NEVER_AFTER_TEXT.split())
"""What follows an article in no language of these, as long as the source does not say so."""

NEXT_BUT_ONE: Final = 0.2
"""What two words count that the source has with one between them; 1 where they follow each other."""

MIN_PAIRS, MIN_ORDER = 7, 0.26
"""Pairs of words from which on their order is looked at, and the least that is order: true summaries reach 0.30, the
same words in any other order 0.25, of short talks, which is hardest."""

MAX_STEPS, MIN_DEVIATIONS = 40, 3
"""Distances at which words are compared with the source, and by how many standard deviations neighbours stand out."""

_TOKEN = re.compile(r"[\w/@#]+(?:[’'.,:/@-][\w/]+)*|[.!?…,;:()]")
_WORD = re.compile(r"[^\W_]+(?:[’'-][^\W_]+)*")
_SENTENCE = re.compile(r"(?<=[.!?…])[\"'”’»)\]]*\s+(?=\W*[^\W_])|(?<=[。！？])|\n+")


def content_words(text: str) -> Iterator[str]:
    """The words of a text that say what it is about, in order, case folded; CJK as pairs of signs."""
    for word in _WORD.findall(cjk_bigrams(unicodedata.normalize("NFKC", text).casefold())):
        bare = word.removesuffix("'s").removesuffix("’s")
        if (
            bare not in FUNCTION_WORDS
            and not _is_contraction(bare)
            and (len(bare) > 1 or not bare.isascii() or bare.isdigit())
        ):
            yield bare


_SCRIPTS: Final = (("ja", "\u3040", "\u30ff"), ("zh", "\u3400", "\u9fff"), ("ko", "\uac00", "\ud7af"))


def guess_language(text: str) -> str:
    """The language of a text by its script or its words of grammar; "" where these do not tell."""
    letters = [sign for sign in text if sign.isalpha()]
    scripts = {name: sum(first <= sign <= last for sign in letters) for name, first, last in _SCRIPTS}
    if 5 * sum(scripts.values()) > len(letters):
        return max(scripts, key=lambda name: scripts[name] if name != "zh" or not scripts["ja"] else 0)
    words = [word.casefold() for word in _WORD.findall(text)]
    if sum(word in _FUNCTION_WORDS["ru"] for word in words) >= MIN_FUNCTION_WORDS:
        return "ru"
    return detect_language(words) if sum(word in FUNCTION_WORDS for word in words) >= MIN_FUNCTION_WORDS else ""


def _is_contraction(word: str) -> bool:
    """`don't`, `l'acompte` in one of its halves: the words of grammar."""
    head, _, tail = word.replace("’", "'").partition("'")
    return bool(tail) and head in FUNCTION_WORDS and (len(tail) <= 2 or tail in FUNCTION_WORDS)


def split_sentences(text: str) -> list[str]:
    """Sentences as they end with a sign or a line, none cut for its length."""
    return [sentence.strip() for sentence in _SENTENCE.split(text) if sentence and sentence.strip()]


class Grounding(NamedTuple):
    """Content words of a text, those of them that its source tells, pairs of told ones that follow each other, and
    those of them that stand near each other and in this order in the source."""

    words: int
    told: int
    pairs: int
    in_order: int

    @property
    def share(self) -> float:
        """The part of the content words that the source tells; none of a text without any."""
        return self.told / self.words if self.words else 0.0


@cache
def _embedder() -> StaticEmbedder:
    return StaticEmbedder()


class SourceWords:
    """The content words of a source, and where they stand in it."""

    def __init__(self, source: str) -> None:
        self._places: dict[str, list[int]] = defaultdict(list)
        place = 0
        for line in parse_lines(source):
            for word in content_words(f"{line.speaker} {line.text}"):
                for part in (
                    {word, *word.replace("’", "'").replace("'", "-").split("-")} if not word.isalnum() else (word,)
                ):
                    self._places[part].append(place)
                place += 1
            place += 1
        for word in content_words(line_times(source)):
            self._places.setdefault(word, [])
        self._neighbours: dict[tuple[str, str], float] = {}
        self._language = guess_language(source)
        for line in parse_lines(source):
            raw = [word.casefold() for word in _TOKEN.findall(line.text) if word not in ENDS and word not in COMMAS]
            for step, nearness in ((2, NEXT_BUT_ONE), (1, 1.0)):
                self._neighbours |= dict.fromkeys(zip(raw, raw[step:], strict=False), nearness)
        self._by_start: dict[str, list[str]] = defaultdict(list)
        for word in self._places:
            self._by_start[word[:MIN_STEM]].append(word)
        self._matches: dict[str, tuple[str, ...]] = {}

    def __bool__(self) -> bool:
        return bool(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def matches(self, word: str) -> tuple[str, ...]:
        """The words of the source that this one stands for."""
        if word not in self._matches:
            self._matches[word] = self._find_matches(word)
        return self._matches[word]

    def matches_literally(self, word: str) -> bool:
        """Whether the source has the word, or one of its stem: names have no synonyms."""
        return word in self._places or any(
            _share_stem(word, other) for other in self._by_start.get(word[:MIN_STEM], ())
        )

    def _find_matches(self, word: str) -> tuple[str, ...]:
        if word in self._places:
            return (word,)
        if not word.isalnum():
            parts = [part for part in re.split(r"['’-]", word) if part in self._places]
            if parts:
                return tuple(parts)
        if any(sign.isdigit() for sign in word):
            return ()
        stems = [other for other in self._by_start.get(word[:MIN_STEM], ()) if _share_stem(word, other)]
        if stems:
            return tuple(stems)
        parts = [other for other in self._places if len(word) >= 8 and len(other) >= 5 and other in word]
        if len(word) >= 5:
            parts += [other for other in self._places if len(other) >= len(word) + 3 and word in other]
        return tuple(parts) or self._synonyms(word)

    def _synonyms(self, word: str) -> tuple[str, ...]:
        """Words of about the same meaning. Only of words that the embedder has whole, or nearly: others' pieces say
        little."""
        words, vectors = self._vectors
        if not words or not word.isalpha() or len(word) < 3:
            return ()
        cosines = dot(vectors, _embedder().embed([word])[0])
        return tuple(words[at] for at in np.flatnonzero(cosines >= MIN_COSINE))

    @cached_property
    def _vectors(self) -> tuple[list[str], np.ndarray]:
        words = [word for word in self._places if word.isalpha() and len(word) >= 3 and self._places[word]]
        return words, _embedder().embed(words) if words else np.zeros((0, 256), np.float32)

    def measure(self, text: str) -> Grounding:
        """How far a text is told by this source."""
        words = told = pairs = in_order = 0
        for sentence in split_sentences(text):
            before: list[int] | None = None
            for word in content_words(sentence):
                words += 1
                matches = self.matches(word)
                told += bool(matches)
                places = sorted(place for match in matches for place in self._places[match])
                if before and places:
                    pairs += 1
                    in_order += _follows(before, places)
                before = places or None
        return Grounding(words, told, pairs, in_order)

    def neighbour_share(self, text: str) -> float:
        """The part of the pairs of words, of any kind, that follow each other here as they do in the source."""
        words = [word.casefold() for word in _TOKEN.findall(text) if word not in ENDS and word not in COMMAS]
        pairs = list(pairwise(words))
        return sum(self._neighbours.get(pair, 0.0) for pair in pairs) / max(len(pairs), 1)

    def is_disordered(self, text: str) -> bool:
        """Whether the words of a text are thrown into a heap: they do not follow each other as they do in the source, a
        sentence's end stands inside of a sentence, an article before a preposition."""
        pairs, known, faults = 0, 0.0, 0
        words = list(_TOKEN.findall(text))
        before, is_start, has_end = "", True, "\n" in text.strip()
        for word in words:
            if word in ENDS or word in COMMAS:
                faults += before in ARTICLES
                before, is_start, has_end = "", word in ENDS or (is_start and not before), has_end or word in ENDS
                continue
            folded = word.casefold()
            nearness = self._neighbours.get((before, folded), 0.0) if before else 0.0
            if folded in _FUNCTION_WORDS.get(self._language, ()):  # Ben is a verb in Dutch
                faults += not is_start and len(word) > 1 and word[0].isupper() and not nearness and folded not in POLITE
            faults += is_start and bool(before == "" and word[0].islower() and pairs)
            if before:
                pairs, known = pairs + 1, known + nearness
                faults += before in ARTICLES and folded in NEVER_AFTER_ARTICLES and not nearness
            before, is_start = folded, False
        if pairs < MIN_PAIRS or guess_language(text) not in ("", self._language):
            return False  # what is said in another language stands in no order of the source
        if has_end and words[-1] not in CLOSERS and "\n" not in text.strip():
            faults += 1
        grounding = self.measure(text)
        order = grounding.in_order / grounding.pairs if grounding.pairs >= 3 else 0.5
        score = known / pairs + 0.25 * order - 0.12 * faults - (0 if has_end else 0.1)
        return score < MIN_ORDER and (faults > 0 or not has_end or not self._is_beyond_chance(text))

    def _is_beyond_chance(self, text: str) -> bool:
        """Whether more of the words follow each other as they do in the source than in the same words set apart."""
        words = [word.casefold() for word in _TOKEN.findall(text) if word not in ENDS and word not in COMMAS]
        steps = range(1, min(len(words), MAX_STEPS))
        shares = [
            sum(self._neighbours.get((words[at], words[(at + step) % len(words)]), 0.0) for at in range(len(words)))
            for step in steps
        ]
        others = shares[1:]
        if len(others) < 3:
            return True
        mean = sum(others) / len(others)
        deviation = (sum((one - mean) ** 2 for one in others) / len(others)) ** 0.5
        return bool(shares[0] - mean >= MIN_DEVIATIONS * max(deviation, 0.3))


def _share_stem(word: str, other: str) -> bool:
    shared = next(
        (at for at, (a, b) in enumerate(zip(word, other, strict=False)) if a != b), min(len(word), len(other))
    )
    return shared >= max(MIN_STEM, 0.6 * max(len(word), len(other)))


def _follows(first: Sequence[int], second: Sequence[int]) -> bool:
    """Whether a place of the second follows one of the first within NEAR_WORDS."""
    for place in first:
        at = bisect_left(second, place)
        if at < len(second) and second[at] - place <= NEAR_WORDS:
            return True
    return False
