"""Near copies: entries that say the same in the same words, but for punctuation, spelling, or a few words more. Pure.

Careful rather than clever: where a telling word, a number or a denial stands in place of another one, two entries say
two things, however much else they share."""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cached_property
from typing import Final

from openvibe.engines.text.words import STOP_WORDS, cjk_bigrams

MIN_COPIED_TOKENS: Final = 12
"""Tokens. Shorter contents are equal by chance: "Behind the house." tells nothing without its topic."""

MAX_COMPARED_CHARACTERS: Final = 2_000
"""Characters. Of longer contents only equal ones are copies."""

_MAX_COMPARED_GROUPS: Final = 40
_MAX_LIKELY_GROUPS: Final = 8
"""A text is compared with so many of the firsts, those that share most with it: a copy shares nearly all."""

_MIN_SHARED_PIECES: Final = 0.6
"""The share of the shorter one that must stand in the other for the two to be compared at all."""

_MAX_ADDED_SHARE: Final = 0.2
"""The share of the longer one's telling words that may be missing in the other."""

_MIN_ORDER_RATIO: Final = 0.75
"""The least share of both that stands in the same order (`difflib`)."""

_ENDINGS: Final = ("s", "es", "d", "ed", "ing")
_MAX_RESPELLED_WORDS: Final = 12
"""The most words in place of others of which it is asked whether they are spelled otherwise: they say something
else."""

_MIN_INFLECTED_LETTERS, _MIN_SPELLED_LETTERS, _MIN_SPELLING_RATIO = 3, 6, 0.85
"""The lengths from which on two words are two forms, or two spellings, of one."""

_DECISIVE_TEXT = """
not no never none neither nor cannot without before after until within over under up down off out more less most least
only except unless
"""
_DECISIVE_WORDS: Final = frozenset(_DECISIVE_TEXT.split())
"""Words that turn a statement around, and tell nothing by themselves."""

_MARK_WORD = r"(?:copy|duplicate|kopie|copie|copia)"
_TOPIC_MARK = re.compile(
    rf"\A{_MARK_WORD} (?:of|\d+)\s*[:–-]?\s*|\s*[–-]?\s*(?:\(\d+\)|\(?\b{_MARK_WORD}(?:\s*#?\d+)?\)?)\Z", re.I
)
_CONTENT_MARK = re.compile(
    rf"\A\(?{_MARK_WORD}\s*#?\d*\)?\s*[:.–-]\s*"
    rf"|(?<=[.!?\n])\s*(?:\(?(?:{_MARK_WORD}|draft|note|variant)?\s*#?\d+\)?)\s*[.!]?\Z|\s*\(\d+\)[.!]?\Z",
    re.I,
)
"""`(2)`, `Copy 3`, a last sentence `Note 4.`: which copy it is, not what it says."""

_TOPIC_NUMBER = re.compile(r"[\s_-]+\d+\Z")
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_NUMBER = re.compile(r"[$€£¥]?\d+(?:[.,:/-]\d+)*%?")


@dataclass(frozen=True)
class CopiedText:
    """What an entry says, as far as it is compared; `fingerprint` is equal where all of the content is."""

    topic: str
    content: str
    tokens: int
    fingerprint: int

    @cached_property
    def numbers(self) -> tuple[str, ...]:
        """The numbers, in any order."""
        return tuple(sorted(_NUMBER.findall(self._text_without_marks)))

    @cached_property
    def words(self) -> list[str]:
        return _WORD.findall(self._text_without_marks.lower().replace("’", "'"))

    @cached_property
    def pieces(self) -> frozenset[str]:
        """What blanks divide: quickly told, and enough to see which texts may be alike."""
        text = f"{self.topic} {self.content}".lower()
        return frozenset((text if text.isascii() else cjk_bigrams(text)).split())

    @cached_property
    def decisive_words(self) -> list[str]:
        return sorted(word for word in self.words if word in _DECISIVE_WORDS or word.endswith("n't"))

    @cached_property
    def topic_words(self) -> frozenset[str]:
        return _telling_words(self._unmarked_topic)

    @cached_property
    def content_words(self) -> frozenset[str]:
        return _telling_words(self._unmarked_content)

    @cached_property
    def capitalized_words(self) -> frozenset[str]:
        """Names and whatever begins a sentence: no spelling of anything else."""
        return frozenset(word.lower() for word in _WORD.findall(self._text_without_marks) if word[0].isupper())

    @property
    def _text_without_marks(self) -> str:
        """Topic and content without what only says which copy it is."""
        return f"{self._unmarked_topic}\n{self._unmarked_content}"

    @cached_property
    def _unmarked_topic(self) -> str:
        topic = _TOPIC_MARK.sub("", self.topic)
        return _TOPIC_NUMBER.sub("", topic) if self.tokens >= MIN_COPIED_TOKENS else topic

    @cached_property
    def _unmarked_content(self) -> str:
        return _CONTENT_MARK.sub("", self.content.strip())


def group_near_copies(texts: Iterable[CopiedText]) -> list[list[int]]:
    """The texts in groups of near copies, as their places in order: most groups hold one. Each text is compared with
    the first of each group, as long as there are not too many; give first what matters most."""
    groups: list[list[int]] = []
    firsts: list[CopiedText] = []
    masks: list[int] = []
    bits: dict[str, int] = {}
    by_fingerprint: dict[int, list[int]] = {}
    for place, text in enumerate(texts):
        is_long = text.tokens >= MIN_COPIED_TOKENS
        group = by_fingerprint.get(text.fingerprint) if is_long else None
        if group is None:
            mask = _piece_mask(text, bits)
            likely = sorted(_likely_copies(mask, masks))
            group = next((groups[index] for index in likely if is_near_copy(firsts[index], text)), None)
            if group is None:
                group = []
                groups.append(group)
                if len(firsts) < _MAX_COMPARED_GROUPS:
                    firsts.append(text)
                    masks.append(mask)
        if is_long:
            by_fingerprint.setdefault(text.fingerprint, group)
        group.append(place)
    return groups


def _piece_mask(text: CopiedText, bits: dict[str, int]) -> int:
    """The text's pieces as a set of bits, one for each piece that was seen: two are compared in a tenth of a set's
    time. None of a content that is too long to be compared."""
    if len(text.content) >= MAX_COMPARED_CHARACTERS:
        return 0
    mask = 0
    for piece in text.pieces:
        mask |= bits.setdefault(piece, 1 << len(bits))
    return mask


def _likely_copies(mask: int, masks: Sequence[int]) -> list[int]:
    """The places of those that share most of the shorter one with the text, at most those that share most."""
    size = mask.bit_count()
    likely = [
        (shared, -place)
        for place, first in enumerate(masks)
        if (shared := (mask & first).bit_count()) and shared >= _MIN_SHARED_PIECES * min(size, first.bit_count())
    ]
    return [-place for _, place in heapq.nlargest(_MAX_LIKELY_GROUPS, likely)]


def is_near_copy(one: CopiedText, other: CopiedText) -> bool:
    """Whether one says what the other says, with at most a few words more. The same answer whichever comes first."""
    if max(len(one.content), len(other.content)) >= MAX_COMPARED_CHARACTERS:
        return False
    return (
        one.numbers == other.numbers
        and one.decisive_words == other.decisive_words
        and not _says_something_else(one, other)
        and SequenceMatcher(None, one.words, other.words, autojunk=False).ratio() >= _MIN_ORDER_RATIO
    )


def _says_something_else(one: CopiedText, other: CopiedText) -> bool:
    """Whether each has a telling word in place of another one, or the content of one has many more."""
    most = max(len(one.content_words), len(other.content_words))
    if abs(len(one.content_words) - len(other.content_words)) > _MAX_ADDED_SHARE * most:
        return True
    names = one.capitalized_words | other.capitalized_words
    return _replaces_words(one.content_words, other.content_words, names) or _replaces_words(
        one.topic_words, other.topic_words, names
    )


def _replaces_words(one: frozenset[str], other: frozenset[str], names: frozenset[str]) -> bool:
    """Whether each has a word that the other has not, and does not only spell otherwise. Ends with the first one."""
    fewer, more = sorted((sorted(one - other), sorted(other - one)), key=lambda words: (len(words), words))
    if len(fewer) > _MAX_RESPELLED_WORDS:
        return True
    for word in fewer:
        spelling = next((each for each in more if _is_same_word(word, each, names)), None)
        if spelling is None:
            return True
        more.remove(spelling)
    return False


def _telling_words(text: str) -> frozenset[str]:
    """Pairs of characters for scripts without blanks."""
    words = _WORD.findall(cjk_bigrams(text.lower().replace("’", "'")))
    return frozenset(word for word in words if word not in STOP_WORDS and not word.isdecimal())


def _is_same_word(word: str, other: str, names: frozenset[str]) -> bool:
    """Whether they are two forms of one word or, where neither is a name, two spellings."""
    shorter, longer = sorted((word, other), key=len)
    if longer.startswith(shorter) and longer[len(shorter) :] in _ENDINGS:
        return len(shorter) >= _MIN_INFLECTED_LETTERS
    return (
        len(shorter) >= _MIN_SPELLED_LETTERS
        and shorter[0] == longer[0]
        and len(longer) - len(shorter) <= 2
        and not {word, other} & names
        and SequenceMatcher(None, word, other, autojunk=False).ratio() >= _MIN_SPELLING_RATIO
    )
