"""The language of a text, and stems."""

import pytest

from openvibe.engines.text.languages import detect_language, stem
from openvibe.engines.text.tokenizer import tokenize
from openvibe.engines.text.words import query_terms, text_language
from tests.bench.languages import read_own_texts


def test_chat_messages_are_told_apart_and_none_is_taken_for_another() -> None:
    _, texts = read_own_texts()
    spaced = [(text.language, said) for text in texts for said in (text.content, text.question)]
    spaced = [(language, said) for language, said in spaced if language not in ("ja", "zh")]
    told = [(language, text_language(tokenize(said))) for language, said in spaced]
    assert sum(language == detected for language, detected in told) >= 0.97 * len(told)
    assert all(detected in (language, "") for language, detected in told)


@pytest.mark.parametrize("text", ["", "v2.3.1", "東京の会議", "Привет всем", "x y z"])
def test_what_does_not_tell_its_language_has_none(text: str) -> None:
    assert text_language(tokenize(text)) == ""


def test_english_is_english() -> None:
    assert detect_language(["the", "pump", "in", "the", "cellar", "is", "leaking"]) == "en"


@pytest.mark.parametrize(
    ("language", "one", "other"),
    [
        ("en", "pruning", "pruned"),
        ("de", "gärten", "garten"),
        ("fr", "réunions", "réunion"),
        ("es", "semillas", "semilla"),
        ("it", "riunioni", "riunione"),
        ("pt", "chaves", "chave"),
        ("nl", "vergaderingen", "vergadering"),
    ],
)
def test_two_forms_of_a_word_have_one_stem(language: str, one: str, other: str) -> None:
    assert stem(one, language) == stem(other, language)
    assert stem(one, "") == one


@pytest.mark.parametrize(
    ("question", "terms"),
    [
        ("Wann wird die Pumpe gewartet?", {"pumpe", "gewartet"}),
        ("Quand l'arrosage est-il coupé ?", {"larrosage", "coupé"}),
        ("¿Cuándo se cierra el almacén?", {"almacén", "cierra"}),
        ("Wat is de deadline voor de vergadering?", {"deadline", "vergadering"}),
        ("会議はいつですか", {"会議", "議は"}),
        ("don't", {"dont"}),
    ],
)
def test_stop_words_of_its_own_language_tell_nothing(question: str, terms: set[str]) -> None:
    assert set(query_terms(question)) == terms
