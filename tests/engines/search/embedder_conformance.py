"""What every embedder promises. A test module calls these with its own embedder."""

import numpy as np

from openvibe.engines.search.embedders import Embedder
from openvibe.engines.search.values import dot

TEXTS = (
    "Ana: the roses want pruning in February",
    "Dora: we cut the roses back at the end of winter",
    "Ben: the invoice for the server is due on Friday",
    "修剪玫瑰",
    "🌹",
    "a\x00b",
    "half a pair: \ud83c",
    "very long " * 5_000,
)


def check_shapes(embedder: Embedder) -> None:
    assert embedder.embed([]).shape == (0, embedder.dimension)
    vectors = embedder.embed(TEXTS)
    assert vectors.shape == (len(TEXTS), embedder.dimension)
    assert vectors.dtype == np.float32
    assert np.isfinite(vectors).all()


def check_unit_length(embedder: Embedder) -> None:
    assert np.allclose(np.linalg.norm(embedder.embed(TEXTS), axis=1), 1, atol=1e-3)


def check_texts_without_words_are_zeros(embedder: Embedder) -> None:
    vectors = embedder.embed(["", "   ", "\n\t", "\x00", "roses"])
    assert np.linalg.norm(vectors, axis=1).round(3).tolist() == [0, 0, 0, 0, 1]


def check_the_same_text_gives_the_same_vector(embedder: Embedder) -> None:
    together, alone = embedder.embed(TEXTS[:3]), embedder.embed([TEXTS[1]])
    assert np.allclose(together[1], alone[0], atol=1e-3)


def check_likeness_is_meaning(embedder: Embedder) -> None:
    roses, winter, invoice = embedder.embed(TEXTS[:3])
    assert dot(roses, winter) > dot(roses, invoice)


RULES = (
    check_shapes,
    check_unit_length,
    check_texts_without_words_are_zeros,
    check_the_same_text_gives_the_same_vector,
    check_likeness_is_meaning,
)
"""The rules in order; a test module makes them its parameters."""
