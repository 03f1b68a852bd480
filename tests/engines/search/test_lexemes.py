"""What is stored of a text and what is asked for meet in PostgreSQL, whatever the text."""

import time

import pytest
from django.db import connection
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from openvibe.engines.search.expressions import name_prefix_tsquery, parse_expression
from openvibe.engines.search.lexemes import (
    BODY,
    EXACT,
    HEADING,
    exact_term,
    find_matches,
    make_tsvector,
    question_terms,
)
from tests.engines.text.test_tokenizer import HOSTILE
from tests.examples import examples

pytestmark = pytest.mark.django_db


def matches(text: str, tsquery: str) -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT %s::tsvector @@ %s::tsquery", [make_tsvector((text, BODY)), tsquery])
        (answer,) = cursor.fetchone()
    return bool(answer)


def finds(text: str, question: str) -> bool:
    return any(matches(text, term.text) for term in question_terms(question))


def stands_in(text: str, string: str) -> bool:
    term = exact_term(string)
    return term is not None and matches(text, term.tsquery(EXACT))


@pytest.mark.parametrize(
    ("text", "question"),
    [
        ("Prune the roses in March", "pruning a rose"),
        ("Die Bewässerungspumpe tropft wieder", "pumpe"),
        ("Die Bewässerungspumpen tropfen", "Wann tropft die Pumpe?"),
        ("Donaudampfschifffahrtsgesellschaft", "Dampfschifffahrt"),
        ("De verwarmingsketel lekt", "ketel"),
        ("L'arrosage est coupé", "d'arrosage"),
        ("Ana's hose", "ana"),
        ("version 2.3.1", "v2.3.1"),
        ("version v2.3.1", "2.3.1"),
        ("1,234.50 €", "1234.50"),
        ("1234.50 €", "1,234.50"),
        ("Straße", "STRASSE"),
        ("Größe", "groesse"),
        ("Koeln", "Köln"),
    ],
)
def test_a_question_meets_the_text_in_another_form(text: str, question: str) -> None:
    assert finds(text, question)


@pytest.mark.parametrize(
    ("text", "question"),
    [
        ("The plan for the week", "pruning"),
        ("Warm information desk", "form"),
        ("version 2.31", "2.3.1"),
        ("port 80801", "8080"),
        ("the organ plays", "orga"),
    ],
)
def test_a_word_is_not_found_in_another_one(text: str, question: str) -> None:
    assert not finds(text, question)


def test_what_stands_there_is_told_from_its_stem() -> None:
    assert stands_in("An organ donor", "organ")
    assert finds("The organs are tuned today", "organ music")
    assert not stands_in("The organs are tuned today", "organ")
    assert stands_in("To be, or not to be", "to be or not to be")
    assert not stands_in("To be, or to be not", "to be or not to be")


def test_a_sentence_that_asks_is_not_looked_for_as_it_stands() -> None:
    assert exact_term("When do we prune the roses?") is None
    assert exact_term("page?id=42") is not None
    assert exact_term("word " * 100) is None


def test_a_heading_is_told_from_a_body() -> None:
    (term,) = question_terms("roses")
    with connection.cursor() as cursor:
        for fields, answer in (
            ((("Rose", HEADING), ("tulips", BODY)), True),
            ((("Tulip", HEADING), ("roses", BODY)), False),
        ):
            cursor.execute("SELECT %s::tsvector @@ %s::tsquery", [make_tsvector(*fields), term.tsquery(HEADING)])
            assert cursor.fetchone() == (answer,)


@pytest.mark.parametrize("name", HOSTILE)
def test_any_text_is_indexed_in_bounded_room(name: str) -> None:
    start_time = time.process_time()
    tsvector = make_tsvector((HOSTILE[name], BODY))
    assert time.process_time() - start_time < 20
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_column_size(%s::tsvector)", [tsvector])
        (size,) = cursor.fetchone()
    assert size < 1_000_000


def test_a_text_of_different_characters_alone_is_indexed() -> None:
    text = "".join(chr(0x4E00 + (number * 7919) % 20_000) for number in range(100_000))
    assert matches(text, f"'{text[:2]}'")


def test_a_phrase_is_found_late_in_a_long_text() -> None:
    text = "the plan of the week " * 18_000 + "is the zinc watering can"
    assert stands_in(text, "zinc watering can")


@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.text(max_size=60), st.text(max_size=60))
def test_nothing_that_is_typed_is_an_error(text: str, typed: str) -> None:
    text, typed = text.replace("\x00", " "), typed.replace("\x00", " ")
    expression = parse_expression(typed)
    exact, names = exact_term(typed), name_prefix_tsquery(typed)
    for written in (text, typed, f"{text} {typed}"):
        if matches(written, expression.all_words) and expression.condition:
            assert matches(written, expression.condition), "what holds all that is asked for fulfils what has to be"
        if exact is not None and matches(written, exact.tsquery(EXACT)):
            assert matches(f"{written} {text}", exact.tsquery(EXACT)), "what stands in a text stands in a longer one"
        assert not matches(written, names), "a name is looked for in headings alone"
    assert all(matches(typed, term.text) for term in question_terms(typed)), "what is asked finds itself"
    if "!" not in expression.all_words:
        assert matches(typed, expression.all_words) == bool(expression.all_words)


@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.text(alphabet=st.characters(exclude_categories=("Cs", "Cc", "Cn", "Co")), min_size=1, max_size=20))
def test_what_is_typed_finds_itself(typed: str) -> None:
    if (exact := exact_term(typed)) is not None:
        assert stands_in(typed, typed) or typed.rstrip().endswith("?")
        assert matches(f"before {typed} after", exact.tsquery(EXACT))


@pytest.mark.parametrize(
    ("typed", "found", "left"),
    [
        ('"zinc watering"', ["the zinc watering can"], ["watering the zinc", "zinc can"]),
        ("roses -march", ["prune roses in May"], ["prune roses in March", "tulips"]),
        ('roses -"in march"', ["march on, roses"], ["prune roses in March"]),
        ("prun*", ["pruning day", "a prune"], ["the spruce"]),
        ("zinc OR copper", ["zinc can", "copper pipe"], ["iron gate"]),
        ("zinc pipe", ["a pipe of zinc"], ["zinc alone"]),
        ("-rf", ["rm -rf it"], ["rm it"]),
        ('"unclosed zinc', ["unclosed zinc"], ["zinc"]),
        ("the roses", ["roses"], ["the tulips"]),
    ],
)
def test_all_words_of_an_expression_have_to_stand_there(typed: str, found: list[str], left: list[str]) -> None:
    tsquery = parse_expression(typed).all_words
    assert [text for text in (*found, *left) if matches(text, tsquery)] == found


def test_matches_are_told_by_their_places() -> None:
    text = "Write to ops@example.org: the pumps of the Bewässerungspumpe, v2.3.1"

    def marked(question: str) -> list[str]:
        return [text[start:end] for start, end in find_matches(text, question)]

    assert marked("ops@example.org") == ["ops@example.org"]
    assert marked("pump") == ["pumps"]
    assert marked("2.3.1") == ["v2.3.1"]
    assert marked("nothing") == []
    late = "word " * 20_000 + "the zinc can"
    assert [late[start:end] for start, end in find_matches(late, "zinc")] == ["zinc"]


@pytest.mark.parametrize("text", ["Bark mulch costs 4 € a sack.", "Costs 🚀", "“Costs” — 7 €"])
def test_signs_are_no_letters_of_another_language(text: str) -> None:
    assert "'cost'" in make_tsvector((text, BODY))
