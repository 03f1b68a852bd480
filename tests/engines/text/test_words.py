import pytest
from hypothesis import given
from hypothesis import strategies as st

from openvibe.engines.text.stop_phrases import asks_for_several
from openvibe.engines.text.words import MAX_QUERY_TERMS, query_terms, strip_stop_words


def test_question_terms_are_lower_case_without_stop_words_longest_first() -> None:
    assert query_terms("What did the Marketing expert say about the remote?") == ("marketing", "expert", "remote")


def test_a_question_of_stop_words_alone_keeps_them() -> None:
    assert set(query_terms("to be or not to be")) == {"to", "be", "or", "not"}


def test_chinese_is_asked_for_in_pairs() -> None:
    assert query_terms("修剪玫瑰") == ("修剪", "剪玫", "玫瑰")


@given(st.text(max_size=2000))
def test_question_terms_are_few_and_distinct(text: str) -> None:
    terms = query_terms(text)

    assert len(terms) <= MAX_QUERY_TERMS
    assert len(set(terms)) == len(terms)
    for term in terms:
        assert term
        assert not set(term) & set(" \x00\n\t")


def test_words_that_only_ask_are_no_terms_unless_nothing_else_was_said() -> None:
    assert query_terms("Summarize the discussion about roses") == ("roses",)
    assert set(query_terms("Summarize the discussion")) == {"summarize", "discussion"}


def test_the_telling_text_keeps_the_subject_and_the_kind_of_question() -> None:
    assert strip_stop_words("When didn't Ana talk about the Roses?") == "When Ana Roses"
    assert strip_stop_words("什么时候修剪玫瑰?") == "什么时候修剪玫瑰"
    assert strip_stop_words("What was that?") == "What was that?"
    assert strip_stop_words("") == ""


@given(st.text(max_size=500))
def test_a_telling_text_is_made_of_words_of_the_question(text: str) -> None:
    assert strip_stop_words(text) == text or set(strip_stop_words(text)) <= {*text, " "}


@pytest.mark.parametrize(
    ("question", "terms"),
    [
        (
            "Can you list the order in which I brought up different aspects of my budget throughout our conversations, "
            "in order? Mention ONLY and ONLY ten items.",
            {"budget"},
        ),
        ("List all the times that Mara went hiking.", {"mara", "hiking", "went"}),
        ("Who brought up the shopping list?", {"shopping", "list"}),
        ("What is on the guest list of the meeting with Siemens?", {"guest", "list", "siemens"}),
        ("In welcher Reihenfolge: Burgen?", {"burgen"}),
        ("Peux-tu lister toutes les fois que Mara dansait?", {"mara", "dansait"}),
        ("¿En qué orden visitamos castillos?", {"visitamos", "castillos"}),
        ("What came up throughout?", {"came", "throughout"}),
    ],
)
def test_phrases_that_frame_a_question_are_no_terms_unless_nothing_else_was_said(
    question: str, terms: set[str]
) -> None:
    assert set(query_terms(question)) == terms


def test_a_question_that_wants_several_pieces_is_known_by_its_phrases() -> None:
    assert asks_for_several("List all the times that Mara went hiking.")
    assert asks_for_several("In welcher Reihenfolge haben wir die Burgen besucht?")
    assert not asks_for_several("What is on the guest list?")
    assert not asks_for_several("Please order the seeds.")
