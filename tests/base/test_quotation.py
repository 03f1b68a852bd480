"""The repetition of one text in another."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openvibe.base.quotation import RUN_WORDS, Quotation

LONG = "The merger with Acme is announced on the fourth of May, after the board has met in Lisbon."


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ("The vault code is tulip.", "> the vault code is **tulip**\n\nI see."),
        ("The vault code is tulip.", "He wrote: THE VAULT\ncode is tulip!"),
        (LONG, "So it is announced on the fourth of May, I heard."),
        ("hunter2", "password: hunter2"),
        ("R&D pays for all of it", "<data>R&amp;D pays for all of it</data>"),
        ("金庫の番号は四七一一", "彼は「金庫の番号は四七一一」と言った"),
    ],
)
def test_it_is_found_in_other_marks_case_and_lines(said: str, text: str) -> None:
    assert Quotation([said]).is_in(text)


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ("The vault code is tulip.", "The code of the vault is a flower."),
        (LONG, "The merger is announced in May."),
        ("ok", "That is ok."),
        ("yes please", "yes please, tomorrow"[:10].upper() + "d it"),
        ("🎉", "🎉"),
        ("", "anything"),
    ],
)
def test_other_words_and_words_that_everybody_says_are_no_quotation(said: str, text: str) -> None:
    assert not Quotation([said]).is_in(text)


def test_of_an_edited_text_only_what_is_gone_is_looked_for() -> None:
    gone = Quotation([LONG], kept_text=LONG.replace("fourth", "fifth"))

    assert gone.is_in("announced on the fourth of May")
    assert not gone.is_in("after the board has met in Lisbon")
    assert not Quotation(["It is in May."], kept_text="Yes: it is in May.")


WORDS = st.sampled_from(["tulip", "rose", "fern", "moss", "oak", "elm", "ash", "4711"])


@given(st.lists(WORDS, min_size=3, max_size=40), st.data())
def test_every_run_is_found_and_holds_a_fragment(words: list[str], data: st.DataObject) -> None:
    text = " ".join(words)
    quotation = Quotation([text])
    length = min(RUN_WORDS, len(words))
    start = data.draw(st.integers(0, len(words) - length))
    quote = f"He said: {' '.join(words[start : start + length])} (I think)"

    assert quotation.is_in(quote)
    assert any(fragment in quote for fragment in quotation.fragments())
