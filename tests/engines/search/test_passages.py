"""Long texts in passages, and the passage nearest to a question."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openvibe.engines.search.embedders import StaticEmbedder
from openvibe.engines.search.passages import (
    MAX_PASSAGES,
    MAX_WHOLE_TEXT_BYTES,
    best_passage_similarity,
    binary_quantize,
    is_long,
    similarity_with_passages,
    split_passages,
)
from openvibe.engines.search.values import dot

PADDING = "The committee met again and everybody agreed that the weather had been pleasant this week. "


@given(st.text(max_size=3_000), st.integers(1, 400), st.integers(1, 30))
@settings(deadline=None)
def test_passages_put_together_are_the_text(text: str, size: int, most: int) -> None:
    passages = split_passages(text, size=size, max_passages=most)
    assert "".join(passages) == text
    assert len(passages) <= most
    assert all(passages)


def test_passages_end_where_sentences_do() -> None:
    passages = split_passages(PADDING * 10)
    assert len(passages) > 5
    assert all(passage.endswith(". ") for passage in passages)


def test_a_text_without_blanks_is_cut_as_well() -> None:
    assert max(map(len, split_passages("x" * 2_400))) <= 240
    assert len(split_passages("x" * 100_000)) == MAX_PASSAGES


def test_only_what_says_more_than_a_few_sentences_is_long() -> None:
    assert not is_long("a" * MAX_WHOLE_TEXT_BYTES)
    assert is_long("a" * (MAX_WHOLE_TEXT_BYTES + 1))
    assert is_long("玫" * (MAX_WHOLE_TEXT_BYTES // 3 + 1)), (
        "bytes count, so that writing without blanks is not taken for short"
    )


def test_a_fact_in_a_long_text_is_nearer_by_its_passage() -> None:
    embedder = StaticEmbedder()
    without = PADDING * 20
    within = PADDING * 10 + "The parrot of Dora is called Figaro. " + PADDING * 10
    question = embedder.embed(["What is the name of the parrot?"])[0]
    signs = [binary_quantize(embedder.embed(split_passages(text))) for text in (without, within)]
    cosines = dot(embedder.embed([without, within]), question)

    likeness = similarity_with_passages(list(zip(cosines, signs, strict=True)), question)

    assert likeness[1] - likeness[0] > 0.2 > cosines[1] - cosines[0]


@pytest.mark.parametrize("dimension", [8, 12, 256])
def test_each_text_is_as_near_as_its_nearest_passage(dimension: int) -> None:
    made = np.random.default_rng(1).normal(size=(5, dimension)).astype(np.float32)
    question = made[3] / np.linalg.norm(made[3])
    packed = [binary_quantize(made[:2]), binary_quantize(made[2:])]
    sizes = np.array([len(each or b"") for each in packed])

    found = best_passage_similarity(b"".join(each or b"" for each in packed), sizes, question)

    expected = dot(np.where(made > 0, 1, -1), question) / np.sqrt(dimension)
    assert found == pytest.approx([expected[:2].max(), expected[2:].max()], abs=1e-5)


def test_a_text_without_passages_keeps_its_own_likeness() -> None:
    assert similarity_with_passages([(0.3, None), (float("nan"), None)], np.ones(8, np.float32))[0] == pytest.approx(
        0.3
    )
    assert binary_quantize(np.zeros((3, 8), np.float32)) is None
    assert not len(similarity_with_passages([], np.ones(8, np.float32)))
