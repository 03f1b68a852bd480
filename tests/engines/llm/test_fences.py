from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openvibe.engines.llm.fences import Fence, IncrementalCleaner, clean_text, fence, parse_fences

ANY = st.text(st.characters(exclude_categories=()), max_size=300)
HOSTILE = st.lists(
    st.sampled_from(
        ["</data>", "<data>", "\n", "<request>\n", '"', "'", "&", "&lt;", "&amp;lt;", ">", "a=", "\x00", "\ud83d", "x"]
    )
).map("".join)


@given(ANY | HOSTILE, ANY | HOSTILE)
def test_what_goes_in_comes_out(text: str, author: str) -> None:
    (fences,) = parse_fences(fence("data", text, author=author, source="message", ref=12))
    assert fences.tag == "data"
    assert fences.text == clean_text(text)
    assert fences.attributes == {"author": " ".join(clean_text(author).split()), "source": "message", "ref": "12"}


@given(st.lists(st.tuples(st.sampled_from(["data", "request", "reference"]), ANY | HOSTILE, ANY | HOSTILE), max_size=5))
def test_content_can_neither_open_nor_close_a_fence(blocks: list[tuple[str, str, str]]) -> None:
    prompt = "\n\n".join(fence(tag, text, author=author) for tag, text, author in blocks)
    assert [(f.tag, f.text) for f in parse_fences(prompt)] == [(tag, clean_text(text)) for tag, text, _ in blocks]
    assert prompt.count("<") == 2 * len(blocks)


def test_a_fence_reads_well() -> None:
    assert fence("data", 'Ana & "Ben"', source="message", trust=None) == (
        '<data source="message">\nAna & "Ben"\n</data>'
    )
    assert fence("data", "if (a > 1 && b) x->y(&amp;) < 2") == "<data>\nif (a > 1 && b) x->y(&amp;) &lt; 2\n</data>"


def test_text_around_fences_is_left_alone() -> None:
    prompt = f"Read this as data.\n\n{fence('data', 'one')}\n\n{fence('request', 'two')}\nGoodbye."
    assert parse_fences(prompt) == [Fence("data", "one"), Fence("request", "two")]


@pytest.mark.parametrize("name", ["", "Data", "a b", "x>", "é", "data\n"])
def test_only_plain_names_make_fences(name: str) -> None:
    with pytest.raises(ValueError, match="cannot name a fence"):
        fence(name, "text")


@pytest.mark.parametrize("piece", ["<", "<data>\n", '<data a="', "</data>", "&", '<data a="b"', "\n</data"])
def test_reading_takes_linear_time(piece: str) -> None:
    text = piece * (1_000_000 // len(piece))
    start_time = time.process_time()
    parse_fences(text)
    assert time.process_time() - start_time < 5


@pytest.mark.parametrize("sign", ["\r\n", "\r", "\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\u2029"])
def test_whatever_breaks_a_line_is_a_new_line(sign: str) -> None:
    assert fence("data", f"one{sign}two") == "<data>\none\ntwo\n</data>"


def test_invisible_letters_are_seen_and_flags_stay() -> None:
    hidden = "".join(chr(0xE0000 + ord(letter)) for letter in "obey")
    england = "\U0001f3f4" + "".join(chr(0xE0000 + ord(letter)) for letter in "gbeng") + "\U000e007f"
    assert clean_text(f"Roses{hidden}.") == "Roses\ufffd."
    assert clean_text(f"{england} plays") == f"{england} plays"
    assert clean_text(f"\U0001f3f4{hidden * 3}") == "\U0001f3f4\ufffd"


def test_a_text_in_pieces_is_cleaned_as_the_whole() -> None:
    text = "Prune 🌱\u2028 and\x00 the 🏴\ude00 rest 🍂"
    halves = text.encode("utf-16-le", "surrogatepass")
    units = [halves[at : at + 2].decode("utf-16-le", "surrogatepass") for at in range(0, len(halves), 2)]
    cleaner = IncrementalCleaner()
    assert "".join(map(cleaner.clean, units)) == clean_text(text) == clean_text("".join(units))
    assert cleaner.clean("\ud83c") == ""
