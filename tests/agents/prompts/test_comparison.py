"""Two prompts beside each other: what was added, gone and changed, in order, with the words."""

from agents.prompts.assembler.items import Item
from agents.prompts.comparison import MAX_COMPARED_WORDS, WordRun, compare_items, compare_words


def item(key: str, text: str, section: str = "history", order: int = 0) -> Item:
    return Item("P1", section, "history", key, text, 5, "semi_trusted", "message", order=order)  # type: ignore[arg-type]


def text_of(one: Item) -> str:
    return one.text


def test_what_is_new_gone_and_other_stands_in_the_order_of_the_prompt() -> None:
    before = [item("message:1", "one", order=1), item("message:2", "two", order=2), item("message:4", "four", order=4)]
    now = [
        item("situation", "noon", "situation"),
        item("message:5", "five", order=5),
        item("message:4", "four and a half", order=4),
        item("message:2", "two", order=2),
    ]
    changes = compare_items(before, now, text_of)
    assert [(change.kind, change.item.key) for change in changes] == [
        ("gone", "message:1"),
        ("same", "message:2"),
        ("changed", "message:4"),
        ("added", "message:5"),
        ("added", "situation"),
    ]
    assert changes[2].words == (WordRun("same", "four"), WordRun("added", " and a half"))


def test_what_stands_elsewhere_with_the_same_words_is_the_same() -> None:
    """The question of one prompt is a message of the conversation in the next."""
    before, now = [item("message:7", "When?", "request")], [item("message:7", "When?")]
    assert [change.kind for change in compare_items(before, now, text_of)] == ["same"]
    first, swapped = ([item("a", "1", order=at), item("b", "2", order=3 - at)] for at in (1, 2))
    assert {change.kind for change in compare_items(first, swapped, text_of)} == {"same"}


def test_words_that_changed_are_told_apart_and_all_words_are_there() -> None:
    runs = compare_words("We water at noon.\nTwelve litres.", "We water at dawn.\nTwelve litres, cold.")
    assert [(run.kind, run.text) for run in runs] == [
        ("same", "We water at "),
        ("gone", "noon"),
        ("added", "dawn"),
        ("same", ".\nTwelve litres"),
        ("added", ", cold"),
        ("same", "."),
    ]
    exchanged = compare_words("the old red gate", "the new blue gate")
    assert [run.text for run in exchanged] == ["the ", "old red", "new blue", " gate"]
    assert compare_words("", "new") == (WordRun("added", "new"),)
    assert compare_words("old", "") == (WordRun("gone", "old"),)


def test_long_and_repetitive_texts_are_compared_in_no_time() -> None:
    before, now = "the same words again " * 2_000, "the same other words again " * 5_000
    runs = compare_words(before, now)
    assert "".join(run.text for run in runs if run.kind != "added") == before
    assert "".join(run.text for run in runs if run.kind != "gone") == now
    lines = "".join(f"line {n} of many words\n" for n in range(MAX_COMPARED_WORDS))
    assert [run.kind for run in compare_words(lines, lines + "and one more")] == ["same", "added"]
