import logging
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from openvibe.search.embedders import MAX_TEXT_CHARACTERS, Embedder, StaticEmbedder
from tests.search.embedder_conformance import RULES, TEXTS


@pytest.fixture(scope="module")
def embedder() -> StaticEmbedder:
    return StaticEmbedder()


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_built_in_embedder_keeps_the_rules(embedder: StaticEmbedder, rule: Callable[[Embedder], None]) -> None:
    rule(embedder)


def test_it_is_an_embedder(embedder: StaticEmbedder) -> None:
    assert isinstance(embedder, Embedder)
    assert embedder.dimension == 256


def test_threads_may_share_a_fresh_one() -> None:
    fresh = StaticEmbedder()
    with ThreadPoolExecutor(4) as threads:
        made = list(threads.map(lambda _: fresh.embed(TEXTS[:3]), range(8)))
    assert all(np.array_equal(each, made[0]) for each in made)


def test_what_lies_beyond_the_longest_text_is_left_out(embedder: StaticEmbedder) -> None:
    text = "rose " * (MAX_TEXT_CHARACTERS // 5)
    one, other, shorter = embedder.embed(
        [text, text + "invoice " * 500, text[: MAX_TEXT_CHARACTERS // 2] + "invoice " * 500]
    )
    assert np.array_equal(one, other)
    assert not np.allclose(one, shorter, atol=1e-3)


def test_only_the_weights_of_the_package_are_used(embedder: StaticEmbedder) -> None:
    handlers = list(logging.getLogger().handlers)
    embedder.embed(["roses"])
    assert "wordllama" not in sys.modules
    assert logging.getLogger().handlers == handlers
