"""The repetition of one text in another."""

import pytest
from hypothesis import example, given
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


GATE = "The gate code is QUOKKA-7731."


@pytest.mark.parametrize(
    ("said", "text"),
    [
        (GATE, "Use quokka 7731 for the gate."),
        (GATE, "QUOKKA7731, as ever"),
        (GATE, '{"gate": "QUOKKA-7731"}'),
        ("Pay 12,450 euros to them.", "The sum was 12450 €."),
        ("Pay 12,450 euros to them.", "Die Summe war 12.450 €."),
        ("Write to pia.lund@example.org about it.", "her address: PIA.LUND@example.org"),
        ("It is at https://intra.example.org/plans/7 now.", "see intra.example.org/plans/7"),
        ("It lies in /srv/vault/keys.txt, he said.", "cat /srv/vault/keys.txt"),
        ("Call me on +49 171 555 0199 tonight.", "Her number is +49 171 5550199"),
        ("We buy from Okafor next year.", "Has OKAFOR sent the invoice?"),
        ("She lives at 14 Quarry Lane in the village.", "The house in Quarry Lane is hers."),
        ("Der Schlüssel liegt bei Herrn Anton Weidmann und nicht im Amt.", "Frag Anton Weidmann."),
        ("Код от ворот QX-4471.", "ворота: qx4471"),
    ],
)
def test_rare_values_are_found_in_other_words(said: str, text: str) -> None:
    quotation = Quotation([said])
    assert quotation.values_in(text)
    assert not quotation.is_in(text), "what erases by itself goes by words alone"


@pytest.mark.parametrize(
    ("said", "text"),
    [
        (GATE, "The gate code is a secret."),
        (GATE, "Ticket 7731 is about quokkas."),
        ("Pay 12,450 euros to them.", "Pay 112,450 euros to them."),
        ("We buy from Okafor next year.", "Okaforia is a land."),
        ("The gate is open.", "The Gate is open."),
        ("Der Schlüssel liegt im Amt und nicht bei der Bank.", "Das Amt und die Bank haben zu."),
        ("I have 3 of 12 left.", "There are 12 of 3."),
        ("", "QUOKKA-7731"),
    ],
)
def test_what_is_no_rare_value_is_not_looked_for(said: str, text: str) -> None:
    assert Quotation([said]).values_in(text) == []


def test_what_an_edit_still_says_is_not_looked_for() -> None:
    quotation = Quotation([GATE], kept_text="QUOKKA-7731 opens it.")
    assert quotation.values_in("quokka 7731") == []


@given(st.text(max_size=300), st.text(max_size=300))
@example("0AAA", "")
@example("AAA0 Bell", "")
def test_values_of_any_text_are_looked_for_in_any(said: str, text: str) -> None:
    quotation = Quotation([said])
    assert set(quotation.values_in(text)) <= set(quotation.values)
    assert set(quotation.values_in(said)) == set(quotation.values)
