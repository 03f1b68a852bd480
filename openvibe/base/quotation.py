"""Whether a text repeats another one word for word: what tells where a deleted message still stands. Pure.

Two texts share words when one run of RUN_WORDS words stands in both, whatever their case, marks and line breaks; of a
shorter text all of it has to stand there. Signs of scripts without blanks count as words."""

import html
import re
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

from openvibe.engines.database.time_zones import EARLIEST

RUN_WORDS = 6
"""Words in a row that two texts must have in common."""

MIN_LETTERS = 8
"""Letters that a text of one or two words must have, unless it holds a digit: every second text says “yes, thanks”."""

FRAGMENT_WORDS, FRAGMENT_STRIDE = 3, 4
"""A run of six words holds one of the fragments of three that begin at every fourth word."""

MAX_FRAGMENTS = 2_000

CLOCK_SLACK = timedelta(days=1)
"""The time that the clock may have been ahead when a text was written: what repeats it is dated before it then."""

_WORD = re.compile(r"[぀-ヿ㐀-鿿가-힯]|[^\W_぀-ヿ㐀-鿿가-힯]+")


def quotable_since(written_at: datetime) -> datetime:
    """The time from which on what is stored may repeat a text of that time. Rows of different tables have no other
    order."""
    return written_at - min(CLOCK_SLACK, max(written_at - EARLIEST, timedelta()))


class Quotation:
    """The words of some texts, without those that `kept` still says."""

    def __init__(self, texts: Iterable[str], kept_text: str = "") -> None:
        self._texts = tuple(texts)
        self._runs: set[str] = {run for text in self._texts for run in _runs(_words(text))}
        lengths = {run.count(" ") + 1 for run in self._runs}
        self._runs.difference_update(*(_windows(_words(kept_text), length) for length in lengths))
        self._lengths = {run.count(" ") + 1 for run in self._runs}
        self._first_words = {run.partition(" ")[0] for run in self._runs}

    def __bool__(self) -> bool:
        return bool(self._runs)

    def is_in(self, text: str) -> bool:
        """Whether the text repeats them. Entities such as `&amp;` are read as what they stand for."""
        words = _words(html.unescape(text)) if self._runs else []
        return any(
            " ".join(words[start : start + length]) in self._runs
            for start, word in enumerate(words)
            if word in self._first_words
            for length in self._lengths
        )

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
