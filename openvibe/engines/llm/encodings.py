"""The two vocabularies that are known: o200k_base and cl100k_base, with `tiktoken`.

They come with the `bpe-openai` package: nothing is downloaded. Text that spells a special token counts as the ordinary
text it is.
"""

from __future__ import annotations

import gzip
import re
from binascii import a2b_base64
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path
from threading import Lock

import tiktoken

MAX_WHOLE_CHARACTERS = 50_000  # characters; longer texts are counted in pieces
PIECE_CHARACTERS = 20_000  # characters

_CONTRACTION = "(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
_UPPER, _LOWER = r"\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}", r"\p{Ll}\p{Lm}\p{Lo}\p{M}"
PATTERNS = {
    "o200k_base": (
        rf"[^\r\n\p{{L}}\p{{N}}]?[{_UPPER}]*[{_LOWER}]+{_CONTRACTION}|"
        rf"[^\r\n\p{{L}}\p{{N}}]?[{_UPPER}]+[{_LOWER}]*{_CONTRACTION}|"
        r"\p{N}{1,3}|"
        r" ?[^\s\p{L}\p{N}]+[\r\n/]*|"
        r"\s*[\r\n]+|"
        r"\s+(?!\S)|"
        r"\s+"
    ),
    "cl100k_base": (
        r"'(?i:[sdmt]|ll|ve|re)|"
        r"[^\r\n\p{L}\p{N}]?+\p{L}++|"
        r"\p{N}{1,3}+|"
        r" ?[^\s\p{L}\p{N}]++[\r\n]*+|"
        r"\s++$|"
        r"\s*[\r\n]|"
        r"\s+(?!\S)|"
        r"\s"
    ),
}
_WORD_BREAK = re.compile(r"(?<=[A-Za-z0-9]) (?=[A-Za-z0-9])")
_load_lock = Lock()
_encodings: dict[str, tiktoken.Encoding] = {}


def split_pieces(text: str) -> Iterator[tuple[str, bool]]:
    """Pieces of at most `PIECE_CHARACTERS` characters, and whether each starts where a token starts anyway.

    The tokenizer's time grows faster than a run without spaces, and a run of a million spaces ends it. A single
    space between two letters or digits always starts a token, so cutting there changes nothing; where a piece
    has none near its end the cut may split a token, and `tokens.CUT_ALLOWANCE` makes the count too high, not too low.
    """
    start, clean_cut = 0, True
    while start < len(text):
        end = min(start + PIECE_CHARACTERS, len(text))
        next_is_clean = True
        if end < len(text):
            breaks = [match.start() for match in _WORD_BREAK.finditer(text, end - 2_000, end)]
            next_is_clean = bool(breaks)
            end = breaks[-1] if breaks else end
        yield text[start:end], clean_cut
        start, clean_cut = end, next_is_clean


def load_encoding(name: str) -> tiktoken.Encoding:
    with _load_lock:
        if name not in _encodings:
            ranks = _load_ranks(name)
            _encodings[name] = tiktoken.Encoding(
                name=name, pat_str=PATTERNS[name], mergeable_ranks=ranks, special_tokens={}
            )
            ranks.clear()  # the encoding's compiled part has its own copy: this one, 40 MB, is for pickling alone
        return _encodings[name]


def _load_ranks(name: str) -> dict[bytes, int]:
    """The vocabulary, read as a file: importing the package would load all of its vocabularies."""
    path = Path(str(distribution("bpe-openai").locate_file(f"bpe_openai/data/{name}.tiktoken.gz")))
    with gzip.open(path) as lines:  # token and rank each; all of them at once would be 30 MB more
        return {a2b_base64(token): int(rank) for token, rank in map(bytes.split, lines)}
