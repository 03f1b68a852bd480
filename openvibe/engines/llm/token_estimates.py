"""Estimates of what a text counts in vocabularies that are not here: never too few, at most half too many as a rule.

A token of o200k_base stands for so many of another vocabulary, by what it holds: a frequent word of English for one,
a rare word for three, a syllable of Hindi for four where a vocabulary knows only the letters' bytes. The weights were
fitted on real tokenizers; `token_weights.toml` holds them, and says how."""

from __future__ import annotations

import math
import re
import tomllib
from bisect import bisect_right
from functools import cache
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from openvibe.engines.llm.encodings import MAX_WHOLE_CHARACTERS, load_encoding, split_pieces

DATA_FILE: Final = Path(__file__).with_name("token_weights.toml")
UNKNOWN: Final = "unknown"

_VOCABULARIES: Final = (  # the first that fits decides
    ("llama2", r"llama-?2|codellama|vicuna|tinyllama|phi-?3|orca-mini|zephyr|mi[sx]tral(?::|$|-7b|-8x|:7b|:8x)"),
    ("llama3", r"llama-?[34]|hermes-[34]|nemotron|smaug"),
    ("gemma", r"gemma|gemini|medgemma"),
    ("qwen", r"qwen|qwq|qvq"),
    ("deepseek", r"deepseek"),
    ("tekken", r"mi[sx]tral|ministral|codestral|devstral|magistral|pixtral|voxtral"),
    ("command", r"command|c4ai|aya(?![a-z])"),
    ("claude", r"claude|opus|sonnet|haiku"),
    ("chatglm", r"chatglm"),
    ("internlm", r"internlm"),
    ("baichuan", r"baichuan"),
    ("yi", r"yi(?![a-z])"),
    ("gpt2", r"gpt-?2|gpt-j|gpt-neo|phi-?[12]|starcoder|opt(?![a-z])"),
)
_PATTERNS: Final = tuple(
    (vocabulary, re.compile(rf"(?:^|(?<=[^a-z]))(?:{names})")) for vocabulary, names in _VOCABULARIES
)

_COMMON_RANK, _RARE_RANK = 20_000, 60_000
"""A vocabulary is numbered by how frequent its words were in what it was made from."""

_KINDS_BY_START: Final = (  # Unicode blocks: the first code point, and the kind of token that its letters make
    *((0, "ascii"), (0x80, "accented"), (0x370, "greek"), (0x400, "cyrillic"), (0x530, "other"), (0x590, "hebrew")),
    *((0x600, "arabic"), (0x780, "other"), (0x900, "devanagari"), (0x980, "indic"), (0xE00, "thai"), (0xE80, "other")),
    *((0x1100, "hangul"), (0x1200, "other"), (0x1E00, "accented"), (0x1EA0, "vietnamese"), (0x1F00, "greek")),
    *((0x2000, "symbol"), (0x2E80, "han"), (0x3000, "symbol"), (0x3040, "kana"), (0x3100, "han"), (0x3130, "hangul")),
    *((0x3190, "han"), (0xA000, "other"), (0xAC00, "hangul"), (0xD7B0, "other"), (0xF900, "han"), (0xFB00, "other")),
    *((0xFB1D, "hebrew"), (0xFB50, "arabic"), (0xFE00, "symbol"), (0xFE70, "arabic"), (0xFF00, "symbol")),
    *((0x1F000, "emoji"), (0x1FC00, "other"), (0x20000, "han"), (0x30000, "other")),
)
_STARTS: Final = [start for start, _ in _KINDS_BY_START]


def vocabulary_of(model: str) -> str:
    """The line of the file for a model's name, in lower case and without its provider; `UNKNOWN` where none fits."""
    return next((vocabulary for vocabulary, pattern in _PATTERNS if pattern.search(model)), UNKNOWN)


class TokenWeights:
    """Counts texts for one vocabulary. Nothing is loaded before the first text."""

    def __init__(self, vocabulary: str) -> None:
        self.vocabulary = vocabulary

    def count(self, text: str) -> int:
        """Tokens of the text, estimated, rounded up."""
        weights = _weights_of_kinds(self.vocabulary)
        encoding = load_encoding("o200k_base")
        pieces = ((text, True),) if len(text) <= MAX_WHOLE_CHARACTERS else split_pieces(text)
        return math.ceil(sum(float(weights[_kinds_of(encoding.encode_ordinary(piece))].sum()) for piece, _ in pieces))


@cache
def _weights_of_kinds(vocabulary: str) -> NDArray[np.float32]:
    return np.asarray(_read_weights()[1][vocabulary], np.float32)


@cache
def _read_weights() -> tuple[tuple[str, ...], dict[str, list[float]]]:
    data = tomllib.loads(DATA_FILE.read_text(encoding="utf-8"))
    return tuple(data["kinds"]), data["weights"]


@cache
def known_kinds() -> NDArray[np.int8]:
    """The place in `kinds` of each token of o200k_base, -1 for one that no text had yet: to look at all 200,000 takes
    seconds, which whoever asks first would wait."""
    return np.full(load_encoding("o200k_base").n_vocab, -1, np.int8)


def _kinds_of(tokens: list[int]) -> NDArray[np.int8]:
    known, numbers = known_kinds(), np.asarray(tokens, np.intp)
    missing = np.unique(numbers[known[numbers] < 0]).tolist()
    encoding, kinds = load_encoding("o200k_base"), _read_weights()[0]
    for token in missing:
        known[token] = kinds.index(_kind_of_token(encoding.decode_single_token_bytes(token), token))
    return known[numbers]


def _kind_of_token(token: bytes, rank: int) -> str:
    try:
        word = token.decode().strip()
    except UnicodeDecodeError:  # a part of a letter
        return "bytes"
    if not word:
        return "space"
    kind = _KINDS_BY_START[bisect_right(_STARTS, ord(max(word))) - 1][1]
    if kind != "ascii":
        return kind
    if any(map(str.isalpha, word)):
        return "common" if rank < _COMMON_RANK else "rare" if rank < _RARE_RANK else "rarest"
    return "digit" if word[-1].isdigit() else "sign"
