"""Text that comes in pieces, from endpoints some of which say a thing twice. Pure.

What is taken for said twice, and what is not, since words may really repeat:

- A whole message after its pieces is the same message: only what it has beyond them is new.
- Chunks are cumulative where every one since the first begins with the whole one before it, at least two of them said
  more, and what they say is no pattern that repeats itself: "ha", "haha", "hahaha" is laughter.
- A last piece that is all before it once more, word for word, of at least three pieces, is a repeated answer where it
  follows without a blank or a line break: lines that repeat are separated by one.
- The first piece of a block that is the same as what the block began with was said once, unless the next is the same
  again.

Anything else is words. Where it turns out late, what was given is taken back.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

MIN_GROWING_CHUNKS, MIN_CUMULATIVE_CHARACTERS = 2, 8
"""Chunks that say more than the one before, and characters of the last, before they are taken for cumulative."""

MIN_REPEATED_CHARACTERS = 16
"""The least length of an answer that is said once more in one piece at its end."""

MIN_START_CHARACTERS = 8
"""The least length of a block's beginning that its first piece begins with and goes on from."""

_MAX_PATTERN_CHARACTERS = 2_000


class Gain(NamedTuple):
    """What a piece adds. `is_reset`: all before it is taken back, and `text` is the whole."""

    text: str
    is_reset: bool = False


NOTHING = Gain("")


@dataclass
class StreamedText:
    """The text so far. `add`, `add_start` and `add_whole` take in what comes and say what it adds."""

    _pieces: list[str] = field(default_factory=list)
    _count: int = 0
    _previous: str | None = None
    _growths: int = 0
    _is_chain: bool = True
    _is_cumulative: bool = False
    _start: str | None = None
    _held: str = ""

    @property
    def text(self) -> str:
        if len(self._pieces) > 1:
            self._pieces = ["".join(self._pieces)]
        return self._pieces[0] if self._pieces else ""

    def add_start(self, piece: str) -> Gain:
        """What a block begins with; the protocols leave it empty."""
        self._start = piece or None
        return self._append(piece)

    def add(self, piece: str) -> Gain:
        """The next piece, which may hold all before it."""
        if not piece:
            return NOTHING
        start, self._start = self._start, None
        held, self._held = self._held, ""
        if held == piece:
            return self._append(held + piece)
        if start == piece:
            self._held = piece
            return NOTHING
        if start and len(start) >= MIN_START_CHARACTERS and piece.startswith(start):
            self._previous, self._growths = piece, 1
            return self._append(piece[len(start) :], piece)
        if self._is_cumulative:
            return self._add_cumulative(piece)
        if self._is_chain and self._continues_chain(piece):
            self._is_cumulative, self._pieces = True, [piece]
            return Gain(piece, is_reset=True)
        return self._append(piece)

    def add_whole(self, text: str, *, may_go_on: bool = True) -> Gain:
        """The whole, once more or at last. Where it begins otherwise, what was streamed stands; where it is another
        text altogether, it is what comes next, if it may be."""
        before = self.text
        if not text.strip() or before.endswith(text) or before.startswith(text):
            return NOTHING
        if text.startswith(before):
            return self._append(text[len(before) :])
        words, words_before = "".join(text.split()), "".join(before.split())
        if words_before.endswith(words):
            return NOTHING
        if words.startswith(words_before):
            self._pieces = [text]
            return Gain(text, is_reset=True)
        is_other = 2 * _common_length(words, words_before) < len(words_before)
        return self._append(text) if is_other and may_go_on else NOTHING

    def end(self) -> Gain:
        """What is known once all has come."""
        text, last = self.text, self._previous or ""
        if self._is_cumulative or self._count < 3 or len(last) < MIN_REPEATED_CHARACTERS:
            return NOTHING
        if 2 * len(last) != len(text) or not text.startswith(last) or last[-1:].isspace() or last[:1].isspace():
            return NOTHING
        if _is_pattern(last):
            return NOTHING
        self._pieces = [last]
        return Gain(last, is_reset=True)

    def _append(self, piece: str, chunk: str | None = None) -> Gain:
        if piece:
            self._pieces.append(piece)
            self._count += 1
            self._previous = piece if chunk is None else chunk
        return Gain(piece)

    def _add_cumulative(self, piece: str) -> Gain:
        text = self.text
        if text.startswith(piece):
            return NOTHING
        if piece.startswith(text):
            self._pieces.append(piece[len(text) :])
            return Gain(piece[len(text) :])
        self._pieces.append(piece)
        return Gain(piece)

    def _continues_chain(self, piece: str) -> bool:
        """Whether this chunk shows that each holds all before it."""
        if self._previous is not None:
            self._is_chain = piece.startswith(self._previous)
            self._growths += self._is_chain and len(piece) > len(self._previous)
        return (
            self._is_chain
            and self._growths >= MIN_GROWING_CHUNKS
            and len(piece) >= MIN_CUMULATIVE_CHARACTERS
            and not _is_pattern(piece)
        )


def _is_pattern(text: str) -> bool:
    """Whether the text, from its beginning on, is something shorter again and again: its longest border says so."""
    text = text[:_MAX_PATTERN_CHARACTERS]
    borders = [0] * len(text)
    length = 0
    for at in range(1, len(text)):
        while length and text[at] != text[length]:
            length = borders[length - 1]
        length += text[at] == text[length]
        borders[at] = length
    return bool(text) and 2 * (len(text) - borders[-1]) <= len(text)


def _common_length(one: str, other: str) -> int:
    """Characters that both begin with."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[:middle] == other[:middle]:
            low = middle
        else:
            high = middle - 1
    return low
