import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openvibe.engines.text.cleaning import (
    HANDLE_PATTERN,
    TextRefused,
    clean_body,
    clean_handle,
    clean_title,
    remove_invisible,
)


@pytest.mark.parametrize(
    ("written", "code"),
    [
        ("", "empty"),
        (" \n\t ", "empty"),
        ("\u200b\u200d", "empty"),
        ("a\x00b", "has_nul"),
        ("a\ud800b", "has_surrogate"),
        ("x" * 100_001, "too_long"),
        ("x" * 1_048_576, "too_long"),
    ],
)
def test_what_cannot_be_kept_is_refused_with_a_sentence(written: str, code: str) -> None:
    with pytest.raises(TextRefused) as error:
        clean_body(written)

    assert error.value.code == code
    assert error.value.message.endswith(".")


def test_a_text_too_long_says_the_limit_and_that_nothing_is_lost() -> None:
    with pytest.raises(TextRefused, match=r"100,000.*Nothing was lost"):
        clean_body("x" * 100_001)


def test_only_messages_can_be_sent_in_pieces() -> None:
    with pytest.raises(TextRefused) as error:
        clean_body("x" * 121, max_characters=120)
    assert error.value.message.endswith("Nothing was lost: shorten it.")


def test_the_byte_limit_holds_apart_from_the_character_limit() -> None:
    with pytest.raises(TextRefused, match="100 bytes"):
        clean_body("漢" * 40, max_bytes=100)


def test_newlines_controls_and_accents_are_made_one() -> None:
    assert clean_body("cafe\u0301\r\nb\x07\x1b\rc\td   \n\n") == "café\nb\nc\td"


def test_a_markdown_line_break_and_direction_marks_stay() -> None:
    assert clean_body("a    \nb \n\u200fשלום") == "a  \nb\n\u200fשלום"


@given(st.text())
def test_cleaning_twice_changes_nothing(text: str) -> None:
    try:
        once = clean_body(text)
    except TextRefused:
        return

    assert clean_body(once) == once


def test_a_title_is_one_short_line() -> None:
    assert clean_title("  When \n to   prune ") == "When to prune"
    assert len(clean_title("word " * 200)) <= 200
    with pytest.raises(TextRefused):
        clean_title(" \n ")


@pytest.mark.parametrize(
    "name",
    [
        "שלום כהן",
        "محمد علي",
        "علی\u200cرضا",  # a non-joiner between letters that would join
        "क्\u200dष",
        "ന്\u200d",
        "👩\u200d👩\u200d👧\u200d👦 Family",
        "❤\ufe0f\u200d🔥 Fire",
        "🙂\u200d↔\ufe0f",
        "🏳\ufe0f\u200d🌈",
        "👍🏽",
        "1\ufe0f\u20e3 First",
        "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f England",
    ],
)
def test_a_name_of_any_script_and_emoji_stays_as_it_is(name: str) -> None:
    assert remove_invisible(name) == name


@pytest.mark.parametrize("place", ["{}Ana", "An{}a", "Ana{}", "של{}ום", "رضا{} علی", "田{}中", "An{}🎉a"])
@pytest.mark.parametrize(
    "invisible",
    [
        *"\u202a\u202e\u2066\u2069\u200b\u200c\u200d\u200e\u200f\u061c\u2060\ufeff\xad\u034f\u115f\u3164\u2800",
        *"\ufe00\ufe0f\ufffc\x07\x7f\x9b\U000e0041\U000e0101",
        "\ufe0f\u200d",
        "\u200d\u200d",
        "\u2800\ufe0f",
    ],
)
def test_what_cannot_be_seen_makes_no_other_name(invisible: str, place: str) -> None:
    assert remove_invisible(place.format(invisible)) == place.format("")
    assert clean_title(place.format(invisible)) == place.format("")


@given(st.text())
def test_what_cannot_be_seen_is_removed_once(text: str) -> None:
    assert remove_invisible(remove_invisible(text)) == remove_invisible(text)


@pytest.mark.parametrize(
    ("name", "handle"),
    [
        ("Hon. Andrew Scheer (Leader of the Opposition)", "hon-andrew-scheer-leader-of-the"),
        ("Zoë Łukasz", "zoe-lukasz"),
        ("Sinéad O'Brien", "sinead-obrien"),
        ("PhD A", "phd-a"),
        ("田中", "person"),
        ("", "person"),
        ("--__--", "person"),
        ("x" * 80, "x" * 32),
    ],
)
def test_a_handle_is_made_from_a_name(name: str, handle: str) -> None:
    assert clean_handle(name) == handle


@given(st.text())
def test_every_name_gives_a_valid_handle(name: str) -> None:
    assert re.fullmatch(HANDLE_PATTERN, clean_handle(name))
