"""Text that comes in pieces, some of it twice."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openvibe.engines.llm.answers.streamed_text import StreamedText

WORDS = "Prune the roses in March, before the first buds open, and burn what is ill."
TEXTS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12)


def read(*pieces: str, whole: str = "") -> str:
    """The text, which what was given has to add up to."""
    text, given_text = StreamedText(), ""
    gains = [text.add(piece) for piece in pieces]
    for gain in (*gains, text.add_whole(whole), text.end()):
        given_text = gain.text if gain.is_reset else given_text + gain.text
    assert given_text == text.text
    return given_text


@given(st.lists(st.sampled_from(["ha ", "x += 1\n", "\n", "1", "very ", "la la "]), max_size=12))
def test_words_that_repeat_are_kept(pieces: list[str]) -> None:
    assert read(*pieces) == "".join(pieces)


@given(st.lists(TEXTS, max_size=12))
def test_nothing_is_lost_of_pieces_none_of_which_begins_with_the_one_before(pieces: list[str]) -> None:
    marked = [f"{number}|{piece} " for number, piece in enumerate(pieces)]
    assert read(*marked) == "".join(marked)


@given(st.lists(TEXTS, max_size=12))
def test_a_whole_text_after_its_pieces_changes_nothing(pieces: list[str]) -> None:
    marked = [f"{number}|{piece} " for number, piece in enumerate(pieces)]
    assert read(*marked, whole="".join(marked)) == "".join(marked)


@given(st.lists(st.integers(1, 30), min_size=3, max_size=8, unique=True))
def test_cumulative_chunks_are_said_once(ends: list[int]) -> None:
    chunks = [WORDS[:end] for end in [*sorted(ends), len(WORDS)]]
    assert read(*chunks) == WORDS


@pytest.mark.parametrize("pieces", [("ha", "haha", "hahaha"), ("1", "12", "123"), ("ab" * 9, "ab" * 10, "ab" * 11)])
def test_a_pattern_that_grows_is_no_proof(pieces: tuple[str, ...]) -> None:
    assert read(*pieces) == "".join(pieces)


def test_an_end_that_says_all_once_more_is_dropped_unless_a_line_begins_there() -> None:
    assert read("Prune the roses", " in March.", "Prune the roses in March.") == "Prune the roses in March."
    assert read("Prune the roses", " in March.\n", "Prune the roses in March.\n").count("March") == 2


def test_a_start_said_twice_is_said_once() -> None:
    for start, pieces, expected in (
        ("Hello", ["Hello", " there"], "Hello there"),
        ("Hello", [" there"], "Hello there"),
        ("ha ", ["ha ", "ha ", "no"], "ha ha ha no"),
        ("Good morning", ["Good morning, Ana", "!"], "Good morning, Ana!"),
    ):
        text = StreamedText()
        said = text.add_start(start).text + "".join(text.add(piece).text for piece in pieces)
        assert (said, text.text) == (expected, expected)
