"""Texts as vectors: what an embedder promises, and the built-in one. Pure: no Django, no database, no network."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from importlib.metadata import distribution
from threading import Lock
from typing import Protocol, runtime_checkable

import numpy as np
from safetensors.numpy import load_file
from tokenizers import Tokenizer

from openvibe.search.values import Floats

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


class StaticEmbedder:
    """The built-in embedder: the average of a text's token vectors, from the weights that the package wordllama brings.

    No network, microseconds a text. The weights (16 MB) are read at the first use, once; threads may share it.
    """

    dimension = 256

    def __init__(self) -> None:
        self._load_lock = Lock()

    def embed(self, texts: Sequence[str]) -> Floats:
        """One vector a text (texts × 256). Reads the first 8,000 characters of each."""
        vectors = np.zeros((len(texts), self.dimension), np.float32)
        for row, text in enumerate(texts):
            if ids := self._token_ids(text):
                vectors[row] = self._weights[ids].mean(axis=0)
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        np.divide(vectors, norms, out=vectors, where=norms > 0)
        return vectors

    def _token_ids(self, text: str) -> list[int]:
        """Token numbers. One text at a time: the tokenizer's own threads would not survive a fork of this process."""
        words = " ".join(text[:MAX_TEXT_CHARACTERS].replace("\x00", " ").encode(errors="replace").decode().split())
        vocabulary_size = len(self._weights)
        ids = self._tokenizer.encode(words, add_special_tokens=False).ids if words else []
        return [token_id for token_id in ids if token_id < vocabulary_size]

    @cached_property
    def _tokenizer(self) -> Tokenizer:
        with self._load_lock:
            tokenizer = Tokenizer.from_file(_package_file("tokenizers/l2_supercat_tokenizer_config.json"))
            tokenizer.no_padding()
            tokenizer.no_truncation()
            return tokenizer

    @cached_property
    def _weights(self) -> Floats:
        with self._load_lock:
            weights = load_file(_package_file("weights/l2_supercat_256.safetensors"))
            return np.ascontiguousarray(weights["embedding.weight"], np.float32)


def _package_file(path: str) -> str:
    """Weights are read as files: importing the package would set up logging and load what is not needed."""
    return str(distribution("wordllama").locate_file(f"wordllama/{path}"))
