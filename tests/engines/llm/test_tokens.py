from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openvibe.engines.llm import encodings, tokens
from openvibe.engines.llm.encodings import load_encoding
from openvibe.engines.llm.tokens import counter_for, truncate_middle, truncate_to_tokens
from openvibe.engines.llm.values import ChatMessage, ToolCallRequest, ToolSpec
from tests.examples import examples

SCRIPTS = st.text(
    st.one_of(
        st.sampled_from("ab 12\n\t.,!/'"),
        st.sampled_from("文字化け玫瑰"),
        st.sampled_from("👍🏽👩‍👩‍👧🇩🇪"),
        st.characters(exclude_categories=()),
    ),
    max_size=400,
)


@pytest.mark.parametrize(
    ("text", "o200k", "cl100k"),
    [
        ("", 0, 0),
        ("hello world", 2, 2),
        ("tiktoken is great!", 6, 6),
        ("2 + 2 = 4", 7, 7),
        ("お誕生日おめでとう", 8, 9),
        ("antidisestablishmentarianism", 6, 6),
        ("<|endoftext|>", 7, 7),
    ],
)
def test_known_counts(text: str, o200k: int, cl100k: int) -> None:
    assert counter_for("gpt-4o").count(text) == o200k
    assert counter_for("gpt-4").count(text) == cl100k


@pytest.mark.parametrize(
    ("model", "name", "exact"),
    [
        ("gpt-4o-mini", "o200k_base", True),
        ("gpt-5-nano", "o200k_base", True),
        ("openai/gpt-4.1", "o200k_base", True),
        ("ft:gpt-4o:acme::1", "o200k_base", True),
        ("o3-mini", "o200k_base", True),
        ("gpt-4-turbo", "cl100k_base", True),
        ("gpt-3.5-turbo", "cl100k_base", True),
        ("offline", "o200k_base", True),
        ("claude-sonnet-4", "estimate for claude", False),
        ("llama3:8b", "estimate for llama3", False),
        ("", "estimate for unknown", False),
    ],
)
def test_a_counter_for_each_model(model: str, name: str, exact: bool) -> None:
    counter = counter_for(model)
    assert (counter.name, counter.exact) == (name, exact)


@given(SCRIPTS)
def test_unknown_models_are_counted_high(text: str) -> None:
    assert counter_for("mystery").count(text) * 10 >= tokens.count_tokens(text) * 13


@pytest.mark.parametrize("letter", ["a", "é", "文", " ", "\n", "!", "\t", "👍", "a ", "ab c", " \n", "1"])
def test_a_megabyte_of_anything_is_counted_and_never_too_low(letter: str) -> None:
    part = letter * (40_000 // len(letter))
    whole = letter * (1_000_000 // len(letter))
    assert len(part) <= encodings.MAX_WHOLE_CHARACTERS
    per_part = len(load_encoding("o200k_base").encode_ordinary(part))
    counted = tokens.count_tokens(whole)
    assert counted >= per_part * (len(whole) // len(part)) * 0.99
    assert counted <= per_part * len(whole) / len(part) * 1.05 + 16 * len(whole) / encodings.PIECE_CHARACTERS + 16


@settings(max_examples=examples(30), deadline=None)
@given(SCRIPTS.filter(bool), st.integers(51_000, 70_000))
def test_counting_in_pieces_is_never_too_low(seed: str, length: int) -> None:
    text = (seed * (length // len(seed) + 1))[:length]
    exact = len(load_encoding("o200k_base").encode_ordinary(text))
    assert exact <= tokens.count_tokens(text) <= exact + tokens.CUT_ALLOWANCE * 4 + 64


def test_prose_in_pieces_is_counted_exactly() -> None:
    text = "The roses want pruning in March, before the buds open. " * 4_000
    assert tokens.count_tokens(text) == len(load_encoding("o200k_base").encode_ordinary(text))


@settings(deadline=None)
@given(SCRIPTS, st.integers(0, 200), st.sampled_from(["gpt-4o", "gpt-4", "mystery"]))
def test_cutting_never_exceeds_the_limit(text: str, limit: int, model: str) -> None:
    counter = counter_for(model)
    marker = "\n[… 900 tokens left out, message 12 …]\n"
    for cut in (truncate_middle(text, limit, counter, marker), truncate_to_tokens(text, limit, counter)):
        assert counter.count(cut) <= limit
    if counter.count(text) <= limit:
        assert truncate_middle(text, limit, counter, marker) == text
        assert truncate_to_tokens(text, limit, counter) == text


def test_head_and_tail_keeps_both_ends_and_fills_the_room() -> None:
    text = "Beginning " + "middle " * 100_000 + "ending"
    cut = truncate_middle(text, 500, counter_for("gpt-4o"), " [left out] ")
    assert cut.startswith("Beginning middle")
    assert cut.endswith("middle ending")
    assert " [left out] " in cut
    assert 450 <= tokens.count_tokens(cut) <= 500


def test_a_prompt_counts_everything_in_it() -> None:
    counter = counter_for("gpt-4o")
    plain = tokens.count_prompt_tokens([ChatMessage("user", "hello world")], [], counter)
    assert plain == 2 + tokens.MESSAGE_OVERHEAD + tokens.PROMPT_OVERHEAD
    call = ChatMessage("assistant", "hello world", tool_calls=(ToolCallRequest("1", "search", "{}"),))
    tool = ToolSpec("search", "Searches.", {"type": "object"})
    assert tokens.count_prompt_tokens([call], [tool], counter) > plain + 10


def test_many_threads_may_count_at_once() -> None:
    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(lambda _: tokens.count_tokens("roses in March " * 900), range(32)))) == 1


def test_vocabularies_are_loaded_when_needed_and_without_the_network() -> None:
    script = (
        "import socket, sys\n"
        "def refuse(*args, **more): raise AssertionError('the network')\n"
        "socket.getaddrinfo = socket.create_connection = refuse\n"
        "import django; django.setup()\n"
        "from openvibe.engines.llm import encodings, tokens\n"
        "assert not encodings._encodings\n"  # of a command that counts nothing, none
        "print(tokens.count_tokens('hello world'))\n"
        "assert list(encodings._encodings) == ['o200k_base'] and 'bpe_openai' not in sys.modules\n"
    )
    process = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (process.stdout, process.stderr) == ("2\n", "")
