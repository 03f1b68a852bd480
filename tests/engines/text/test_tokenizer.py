"""Words as the tokenizer cuts them: whole, in parts, in every script; linear in the length of whatever is sent."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openvibe.engines.text.tokenizer import MAX_WORD_CHARACTERS, tokenize


def forms(text: str) -> list[tuple[str, ...]]:
    return [token.forms for token in tokenize(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ops@example.org", [("ops",), ("example",), ("org",)]),
        ("8080/tcp", [("8080",), ("tcp",)]),
        ("E-1234-AB", [("e",), ("1234",), ("ab",)]),
        ("foo_bar.baz()", [("foo",), ("bar",), ("baz",)]),
        ("v2.3.1", [("v2", "v", "2"), ("3",), ("1",)]),
        ("getUserName", [("getusername", "get", "user", "name")]),
        ("C++ and C#", [("c++", "c"), ("and",), ("c#", "c")]),
        ("1,234.50", [("1", "1234"), ("234", "1234"), ("50",)]),
        ("1.234.567,8", [("1", "1234567"), ("234",), ("567", "1234567"), ("8",)]),
        ("2026-03-29", [("2026",), ("03",), ("29",)]),
        ("don't O’Brien", [("dont", "don", "t"), ("obrien", "o", "brien")]),
        ("Größe", [("grösse", "grosse", "groesse")]),
        ("cafe\u0301", [("café", "cafe")]),
        ("Smørrebrød", [("smørrebrød", "smorrebrod", "smoerrebroed")]),
        ("ﬁne Ｆｕｌｌ", [("fine",), ("full",)]),
        ("soft\u00adhyphen zero\u200bwidth", [("softhyphen",), ("zerowidth",)]),
        ("東京の", [("東京",), ("京の", "の")]),
        ("水", [("水",)]),
        ("ﾊﾟﾅ", [("パナ", "ナ")]),
        ("ไทย", [("ไท",), ("ทย", "ย")]),
        ("회의는", [("회의",), ("의는", "는")]),
        ("नमस्ते दुनिया", [("नमस्ते",), ("दुनिया",)]),
        ("👍🏽🎉", [("👍🏽", "👍"), ("🎉",)]),
        ("👩‍🚀", [("👩‍🚀", "👩", "🚀")]),
        ("🇩🇪 ❤️", [("🇩🇪",), ("❤",)]),
        ("5 €", [("5",), ("€",)]),
        ("... --- !!!", []),
        ("", []),
    ],
)
def test_a_text_is_cut_into_words_and_their_other_forms(text: str, expected: list[tuple[str, ...]]) -> None:
    got = forms(text)
    assert [each[0] for each in got] == [each[0] for each in expected]
    assert [set(each) for each in got] == [set(each) for each in expected]


@given(st.text(max_size=400))
def test_tokens_stand_in_the_text_in_their_order(text: str) -> None:
    last = 0
    for token in tokenize(text):
        assert last <= token.start < token.end <= len(text)
        assert token.form
        assert all(0 < len(form) <= MAX_WORD_CHARACTERS for form in token.forms if not token.is_pair)
        last = token.start


HOSTILE = {
    "a word": "a" * 100_000,
    "emoji": "🚀" * 100_000,
    "an endless family": "👨\u200d" * 50_000,
    "underscores": "_a" * 50_000,
    "apostrophes": "a'" * 50_000,
    "marks": "e\u0301" * 50_000,
    "marks alone": "a" + "\u0301" * 100_000,
    "groups of digits": "1,234" * 20_000,
    "digits": "1," * 50_000,
    "characters": "漢字" * 50_000,
    "joiners": "a\u200d" * 50_000,
    "mixed": "aЖ漢" * 33_000,
    "camels": "aB" * 50_000,
    "ligatures": "ﷺ" * 100_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_the_work_grows_with_the_length_alone(name: str) -> None:
    """Ten times the text is about ten times the work; processor time, so that a busy machine changes nothing."""

    def work(text: str) -> float:
        start_time = time.process_time()
        count = sum(len(token.forms) for token in tokenize(text))
        assert count <= 8 * len(text)
        return time.process_time() - start_time

    text = HOSTILE[name]
    work(text[: len(text) // 10])
    assert work(text) < 40 * work(text[: len(text) // 10]) + 0.5
