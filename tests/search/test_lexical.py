import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openvibe.search.lexical import MAX_QUESTION_TERMS, bm25, question_terms, stem, tokenize


def test_question_terms_are_lower_case_without_stop_words_longest_first() -> None:
    assert question_terms("What did the Marketing expert say about the remote?") == (
        "marketing",
        "expert",
        "remote",
    )


def test_a_question_of_stop_words_alone_keeps_them() -> None:
    assert set(question_terms("to be or not to be")) == {"to", "be", "or", "not"}


def test_chinese_is_asked_for_in_pairs() -> None:
    assert question_terms("修剪玫瑰") == ("修剪", "剪玫", "玫瑰")


@given(st.text(max_size=2000))
def test_question_terms_need_no_quoting(text: str) -> None:
    terms = question_terms(text)

    assert len(terms) <= MAX_QUESTION_TERMS
    assert len(set(terms)) == len(terms)
    for term in terms:
        assert term
        assert not set(term) & set(" '\"\\&|!():*<>@_-\x00\n\t")


@pytest.mark.parametrize(
    "family",
    [
        ("study", "studies", "studied", "studying"),
        ("stop", "stops", "stopped", "stopping"),
        ("control", "controls", "controlled", "controlling"),
        ("make", "makes", "making"),
        ("box", "boxes"),
    ],
)
def test_forms_of_a_word_meet(family: tuple[str, ...]) -> None:
    assert len({stem(word) for word in family}) == 1


def test_short_and_foreign_words_stay() -> None:
    assert [stem(word) for word in ("is", "bus", "naïve", "x9s")] == ["is", "bus", "naïve", "x9s"]


def test_a_rare_word_outweighs_a_common_one() -> None:
    documents = ["roses in the garden", "garden garden", "garden shed", "nothing here"]

    scores = bm25(("roses", "garden"), documents)

    assert scores[0] == max(scores)
    assert scores[3] == 0.0


def test_texts_and_their_stems_score_the_same() -> None:
    documents = ["Pruning roses", "Cutting grass"]

    assert bm25(["prune"], documents) == bm25(["prune"], [tokenize(each) for each in documents])


@given(st.lists(st.text(max_size=60), max_size=8), st.lists(st.text(max_size=12), max_size=5))
def test_scores_are_finite_and_one_per_document(documents: list[str], terms: list[str]) -> None:
    scores = bm25(terms, documents)

    assert len(scores) == len(documents)
    assert all(math.isfinite(score) and score >= 0 for score in scores)
