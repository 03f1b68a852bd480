"""`@include` lines: each text once at its first place, and cuts for cycles, depth, unknown names and length."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openvibe.engines.text.includes import expand_includes, miswritten_include


def words(text: str) -> int:
    return len(text.split())


def test_a_named_text_stands_in_the_place_of_its_line() -> None:
    texts = {"tone": "Be brief.\n@include words", "words": "Say bed, not plot."}
    expansion = expand_includes("First.\n  @include tone \nLast.", texts, max_tokens=100, count=words)
    assert expansion.text == "First.\nBe brief.\nSay bed, not plot.\nLast."
    assert expansion.names == ("tone", "words")
    assert not expansion.cuts


def test_what_cannot_be_followed_is_left_out_with_its_reason() -> None:
    texts = {"a": "A\n@include b", "b": "B\n@include a\n@include c", "c": "C\n@include d", "d": "D", "long": "w " * 100}
    expansion = expand_includes(
        "@include a\n@include long\n@include nobody\n@include", texts, max_tokens=50, count=words
    )
    assert expansion.text == "A\nB\nC"
    assert [(cut_include.name, cut_include.reason) for cut_include in expansion.cuts] == [
        ("a", "include cycle"),
        ("d", "include too deep"),
        ("long", "include too long"),
        ("nobody", "include unknown"),
        ("", "include unknown"),
    ]
    assert "a → b → a" in expansion.cuts[0].message


def test_a_text_that_others_include_counts_as_included_itself() -> None:
    texts = {"a": "A\n@include a"}
    assert [cut.reason for cut in expand_includes(texts["a"], texts, max_tokens=9, count=words, name="a").cuts] == [
        "include cycle"
    ]


@pytest.mark.parametrize("line", ["@Include tone", "- @include tone", "2. @include tone", "@include: tone", "@INCLUDE"])
def test_a_line_that_was_meant_to_include_is_found(line: str) -> None:
    assert miswritten_include(f"Be brief.\n  {line}\n@include words") == line


@pytest.mark.parametrize("text", ["@include tone", "Write @include tone.", "- `@include tone` is one.", "@includes"])
def test_what_includes_or_only_speaks_of_it_is_fine(text: str) -> None:
    assert miswritten_include(text) == ""


NAMES = st.sampled_from("abcde")
LINES = st.lists(st.one_of(NAMES.map("@include {}".format), st.just("some words here")), max_size=6).map("\n".join)


@given(text=LINES, texts=st.dictionaries(NAMES, LINES), max_tokens=st.integers(0, 40))
def test_any_graph_of_includes_ends_within_its_limit(text: str, texts: dict[str, str], max_tokens: int) -> None:
    own = words("\n".join(line for line in text.split("\n") if not line.startswith("@include")))
    expansion = expand_includes(text, texts, max_tokens=max_tokens, count=words)
    assert "@include" not in expansion.text
    assert words(expansion.text) <= max(own, max_tokens)
    assert len(expansion.names) == len(set(expansion.names))


def test_a_line_of_blanks_takes_no_longer_than_one_of_letters() -> None:
    began = time.thread_time()
    expansion = expand_includes(f"@include tone{' ' * 60_000}x", {}, max_tokens=100, count=len)
    assert time.thread_time() - began < 1  # seconds of work
    assert (expansion.text, [cut_include.reason for cut_include in expansion.cuts]) == ("", ["include unknown"])
