"""Pages of a document's text: where each begins, and what it is called. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import accumulate
from math import log

from openvibe.chat.models import PAGE_BREAK
from openvibe.engines.documents.formats import FORMATS
from openvibe.engines.text.masking import mask_secrets


@dataclass(frozen=True, slots=True)
class PagedText:
    """A file's text as agents read it: without secrets, each page under a head such as `[page 3]`. `starts` has the
    character at which each page's head begins; it is empty where the text has no pages."""

    text: str
    word: str
    starts: tuple[int, ...] = ()

    def page_at(self, offset: int) -> int | None:
        """The number of the page on which this character stands; None where there are no pages."""
        return max(bisect_right(self.starts, offset), 1) if self.starts else None


def page_word(form: str) -> str:
    """What a page of a file of this format is called: page, slide, sheet, chapter."""
    kind = FORMATS.get(form)
    return kind.page if kind else "page"


def paged_text(content: str, form: str) -> PagedText:
    """The text of a file of this format with heads of its pages."""
    word = page_word(form)
    masked = mask_secrets(content)
    pages = masked.split(PAGE_BREAK) if form in FORMATS else [masked]
    if len(pages) == 1:
        return PagedText(masked, word)
    parts = [f"[{word} {number}]\n{page}\n" for number, page in enumerate(pages, 1)]
    starts = tuple(accumulate(map(len, parts[:-1]), initial=0))
    return PagedText("".join(parts), word, starts)


def cut_pages(content: str, form: str, most: int) -> Iterator[tuple[int | None, str]]:
    """Pieces of a file's text of at most `most` characters, each of one page, with its number: None where the text has
    no pages. A piece ends with a paragraph or a line where one ends in its second half."""
    pages = content.split(PAGE_BREAK) if form in FORMATS else [content]
    for number, page in enumerate(pages, 1):
        start = 0
        while start < len(page):
            end = min(start + most, len(page))
            if end < len(page):
                ends = (page.rfind(mark, start + most // 2, end) + len(mark) for mark in ("\n\n", "\n", " "))
                end = next((at for at in ends if at > start + most // 2), end)
            if piece := page[start:end].strip():
                yield (number if len(pages) > 1 else None), piece
            start = end


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of a file: `number` counts from 1 in the file, `page` is None where the text has no pages."""

    number: int
    page: int | None
    text: str


def bearing_pieces(content: str, form: str, words: Collection[str], *, most: int, count: int) -> list[Piece]:
    """The pieces of a file's text that bear on these words, at most `count` of at most `most` characters, the best
    first: by how often they hold words that few pieces hold (BM25). Of a word its beginning is looked for."""
    pieces = [Piece(at, page, text) for at, (page, text) in enumerate(cut_pages(content, form, most), 1)]
    folded = [piece.text.casefold() for piece in pieces]
    scores = [0.0] * len(pieces)
    for stem in {_stem(word) for word in words}:
        counts = [text.count(stem) for text in folded]
        holders = sum(map(bool, counts))
        weight = log(1 + (len(pieces) - holders + 0.5) / (holders + 0.5))
        for at, times in enumerate(counts):
            scores[at] += weight * times * (_K1 + 1) / (times + _K1)
    best = sorted((at for at in range(len(pieces)) if scores[at] > 0), key=lambda at: (-scores[at], at))
    return [pieces[at] for at in best[:count]]


_K1 = 1.2
"""How soon a further occurrence of a word in a piece counts for little (BM25)."""


def _stem(word: str) -> str:
    """What the forms of a word have in common, roughly: its beginning."""
    folded = word.casefold()
    return folded[: max(5, len(folded) - 3)] if folded.isascii() and folded.isalpha() and len(folded) > 5 else folded
