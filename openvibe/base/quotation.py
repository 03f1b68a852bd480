"""Whether a text repeats another one, or names what only that one would: what tells where a deleted message still
stands. Pure.

Two texts share words when one run of RUN_WORDS words stands in both, whatever their case, marks and line breaks; of a
shorter text all of it has to stand there. Signs of scripts without blanks count as words. Besides, a text has *values*:
codes, numbers, names, addresses, which give it away however the rest is reworded. What is erased by itself goes by
words alone; values only show people where to look."""

import html
import re
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import NamedTuple

from openvibe.engines.database.time_zones import EARLIEST

RUN_WORDS = 6
"""Words in a row that two texts must have in common."""

MIN_LETTERS = 8
"""Letters that a text of one or two words must have, unless it holds a digit: every second text says “yes, thanks”."""

FRAGMENT_WORDS, FRAGMENT_STRIDE = 3, 4
"""A run of six words holds one of the fragments of three that begin at every fourth word."""

MAX_FRAGMENTS = 2_000

MAX_VALUES = 40
"""Values that are looked for, the first of a text."""

MAX_VALUE_TEXTS, MAX_NAME_TEXTS = 40, 12
"""A value that stands in more texts than this is no rare one, and tells nothing; a name in more than that."""

CLOCK_SLACK = timedelta(days=1)
"""The time that the clock may have been ahead when a text was written: what repeats it is dated before it then."""

_CHUNK = re.compile(r"\S+")
_NAME_RUN = re.compile(r"(?<![^\W_])[^\W\d_a-zß-öø-ÿ][^\W\d_]{2,}(?: [^\W\d_a-zß-öø-ÿ][^\W\d_]{2,}){0,3}(?![^\W_])")
_NUMBER_RUN = re.compile(r"(?<![\w-])\+?\d[\d .,/()-]{2,}\d")
_SENTENCE_START = (".", "!", "?", "…", "\n", ":", "-", "•", ">", "*", "#")
_NOUNS_WITH_CAPITALS = frozenset(
    ["der", "die", "das", "und", "ist", "nicht", "ein", "eine", "mit", "für", "den", "dem", "auf"]
)
"""German writes every noun with a capital: there a single one is no name."""

_WORD = re.compile(r"[぀-ヿ㐀-鿿가-힯]|[^\W_぀-ヿ㐀-鿿가-힯]+")


def quotable_since(written_at: datetime) -> datetime:
    """The time from which on what is stored may repeat a text of that time. Rows of different tables have no other
    order."""
    return written_at - min(CLOCK_SLACK, max(written_at - EARLIEST, timedelta()))


class Value(NamedTuple):
    """A code, number, address or name: the words that it is made of, joined by blanks and in one."""

    written: str
    runs: frozenset[str]
    is_name: bool


class Quotation:
    """The words and values of some texts, without those that `kept` still says."""

    def __init__(self, texts: Iterable[str], kept_text: str = "") -> None:
        self._texts = tuple(texts)
        self._runs: set[str] = {run for text in self._texts for run in _runs(_words(text))}
        lengths = {run.count(" ") + 1 for run in self._runs}
        self._runs.difference_update(*(_windows(_words(kept_text), length) for length in lengths))
        self._lengths = {run.count(" ") + 1 for run in self._runs}
        self._first_words = {run.partition(" ")[0] for run in self._runs}
        kept_words = _words(kept_text)
        self.values = tuple(
            value
            for value in dict.fromkeys(value for text in self._texts for value in _values(text))
            if not any(run in _windows(kept_words, run.count(" ") + 1) for run in value.runs)
        )[:MAX_VALUES]

    def __bool__(self) -> bool:
        return bool(self._runs or self.values)

    def since(self, written_at: datetime) -> datetime:
        """The time from which on stored texts are looked at: those that may repeat the words, and, where there are
        values to be looked for, all."""
        return EARLIEST if self.values else quotable_since(written_at)

    def values_in(self, text: str) -> list[Value]:
        """The values that a text names, however they are written there: `QUOKKA-7731`, `quokka 7731`."""
        if not self.values:
            return []
        words = _words(html.unescape(text))
        known = set(words)
        longest = max(run.count(" ") + 1 for value in self.values for run in value.runs)
        for length in range(2, longest + 1):
            known.update(_windows(words, length))
        known.update(_joined_digits(words))
        return [value for value in self.values if not value.runs.isdisjoint(known)]

    def is_in(self, text: str) -> bool:
        """Whether the text repeats them. Entities such as `&amp;` are read as what they stand for."""
        words = _words(html.unescape(text)) if self._runs else []
        return any(
            " ".join(words[start : start + length]) in self._runs
            for start, word in enumerate(words)
            if word in self._first_words
            for length in self._lengths
        )

    def written_values(self) -> list[str]:
        """The values as a text index is asked for them: as they are written, with blanks for their signs, in one."""
        forms = [value.written for value in self.values]
        return list(dict.fromkeys([*forms, *(run for value in self.values for run in sorted(value.runs))]))

    def fragments(self) -> list[str]:
        """Pieces of the texts as they are written; whatever repeats the texts holds one of them, save in long ones."""
        pieces: list[str] = []
        for text in self._texts:
            spans = [match.span() for match in _WORD.finditer(text)]
            if len(spans) <= RUN_WORDS:
                pieces += [text[spans[0][0] : spans[-1][1]]] if spans else []
                continue
            starts = range(0, len(spans) - FRAGMENT_WORDS + 1, FRAGMENT_STRIDE)
            pieces += [text[spans[at][0] : spans[at + FRAGMENT_WORDS - 1][1]] for at in starts]
        return list(dict.fromkeys(pieces))[:MAX_FRAGMENTS]


def _values(text: str) -> Iterator[Value]:
    """Codes, numbers of four digits or more, addresses of mail and web, paths; names inside of sentences."""
    for match in _CHUNK.finditer(text):
        chunk = match.group().strip(".,;:!?\"'“”„«»()[]{}<>*`")
        digits, letters = sum(map(str.isdigit, chunk)), sum(map(str.isalpha, chunk))
        is_address = ("@" in chunk[1:] and "." in chunk) or "://" in chunk or (chunk.count("/") >= 2 and letters > 3)
        if is_address or (digits and letters and digits + letters >= 5 and digits >= 2) or digits >= 4:
            yield _value(chunk, is_name=False)
    for match in _NUMBER_RUN.finditer(text):
        if sum(map(str.isdigit, match.group())) >= 4:
            yield _value(match.group(), is_name=False)
    is_german = sum(word in _NOUNS_WITH_CAPITALS for word in _words(text)) >= 2
    for match in _NAME_RUN.finditer(text):
        before = text[: match.start()].rstrip(" \t\"'“„«(")
        name = match.group()
        if not before or before.endswith(_SENTENCE_START):  # any word has a capital there
            name = name.partition(" ")[2]
        if name and (" " in name or not is_german):
            yield _value(name, is_name=True)


MAX_DIGIT_GROUPS = 6


def _joined_digits(words: list[str]) -> Iterator[str]:
    """Groups of digits that follow each other, as one number: telephone numbers are grouped in any way."""
    for start, word in enumerate(words):
        joined = word
        for other in words[start + 1 : start + MAX_DIGIT_GROUPS] if word.isdigit() else ():
            if not other.isdigit():
                break
            joined += other
            yield joined


def _value(written: str, *, is_name: bool) -> Value:
    words = _words(written.rpartition("://")[2])
    runs = {" ".join(words)} if is_name else {" ".join(words), "".join(words)}
    if is_name and len(words) > 2:  # with a title, or the word that a sentence begins with
        runs.add(" ".join(words[-2:]))
    return Value(written, frozenset(runs), is_name)


def _words(text: str) -> list[str]:
    return [match.group().casefold() for match in _WORD.finditer(text)]


def _runs(words: list[str]) -> Iterator[str]:
    """Every run of RUN_WORDS words, or all of a shorter text, if that is telling at all."""
    whole = " ".join(words)
    if len(words) < 3 and len(whole) < MIN_LETTERS and not any(sign.isdigit() for sign in whole):
        return
    for start in range(max(len(words) - RUN_WORDS, 0) + 1):
        yield " ".join(words[start : start + RUN_WORDS])


def _windows(words: list[str], length: int) -> Iterator[str]:
    """Every run of so many words."""
    return (" ".join(words[start : start + length]) for start in range(len(words) - length + 1))
