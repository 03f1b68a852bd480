import logging
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from openvibe.engines.search.embedders import (
    MAX_TEXT_CHARACTERS,
    Embedder,
    EmbedderUnavailable,
    MultilingualEmbedder,
    StaticEmbedder,
)
from openvibe.engines.search.spaces import LOCAL_EMBEDDERS
from openvibe.engines.search.values import dot
from tests.engines.search.embedder_conformance import RULES, TEXTS


@pytest.fixture(scope="module")
def embedder() -> StaticEmbedder:
    return StaticEmbedder()


@pytest.mark.parametrize("kind", LOCAL_EMBEDDERS)
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_embedders_of_this_server_keep_the_rules(kind: str, rule: Callable[[Embedder], None]) -> None:
    rule(LOCAL_EMBEDDERS[kind])


@pytest.mark.parametrize(("kind", "dimension"), [("static", 256), ("multilingual", 512)])
def test_they_are_embedders(kind: str, dimension: int) -> None:
    assert isinstance(LOCAL_EMBEDDERS[kind], Embedder)
    assert (LOCAL_EMBEDDERS[kind].dimension, LOCAL_EMBEDDERS[kind].missing) == (dimension, "")


def test_the_multilingual_one_reads_meaning_across_languages() -> None:
    roses, *others = LOCAL_EMBEDDERS["multilingual"].embed(
        [
            "Cut the roses back in late February.",
            "Wann schneiden wir die Rosen?",
            "Quand faut-il tailler les rosiers ?",
            "¿Cuándo se podan los rosales?",
            "Bis wann muss die Rechnung bezahlt werden?",
        ]
    )
    *questions, unrelated = [float(dot(roses, other)) for other in others]
    assert min(questions) > 2 * unrelated


def test_an_embedder_whose_package_is_missing_says_what_to_do() -> None:
    missing = MultilingualEmbedder(package="not_there")
    assert "Run `make multilingual` there" in missing.missing
    assert missing.embed(["", " "]).shape == (2, 512)
    with pytest.raises(EmbedderUnavailable, match="not installed on this server"):
        missing.embed(["roses"])


def test_tokens_of_a_text_are_those_of_its_words(embedder: StaticEmbedder) -> None:
    """The mark for a blank stands at the beginning of a token or nowhere, so words are looked up each by itself."""
    tokens = embedder._tokenizer.get_vocab()
    assert not [token for token in tokens if "▁" in token.lstrip("▁")]
    for text in ("When do we prune the roses?", "李雷 写道：你好", "naïve 🤔 a_b http://a.example/?c=d"):
        assert embedder._token_ids(text) == embedder._tokenizer.encode(text, add_special_tokens=False).ids


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
