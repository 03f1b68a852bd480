"""Refusals of prompts that are too long, in many endpoints' words: what they name, and what the next prompt may
take."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openvibe.engines.llm.endpoint_errors.context_errors import ContextRefusal, read_context_refusal
from openvibe.engines.llm.endpoint_errors.endpoint_errors import read_error
from openvibe.engines.llm.errors import ContextTooLong, RateLimited
from tests.examples import examples

CASES = [json.loads(line) for line in (Path(__file__).parent / "context_refusals.jsonl").read_text().splitlines()]
"""Words of refusals, one a line, and what they name."""


@pytest.mark.parametrize(
    "case", [case for case in CASES if "is_other" not in case], ids=lambda case: case["message"][:60]
)
def test_what_it_names(case: dict[str, Any]) -> None:
    refusal = read_context_refusal(case["status"], case["code"], case["message"])
    assert refusal is not None
    assert (refusal.window, refusal.prompt_tokens) == (case["window"], case["prompt_tokens"])


@pytest.mark.parametrize("case", [case for case in CASES if "is_other" in case], ids=lambda case: case["message"][:60])
def test_other_refusals_are_none(case: dict[str, Any]) -> None:
    assert read_context_refusal(case["status"], case["code"], case["message"]) is None


def test_sizes_in_fields_of_their_own() -> None:
    error = {
        "error": {"message": "the request exceeds the available context size", "n_prompt_tokens": 1407, "n_ctx": 256}
    }
    assert read_context_refusal(400, "exceed_context_size_error", "too long", error) == ContextRefusal(256, 1407)
    told = read_error(error, 400).to_model_error("sk-test")
    assert isinstance(told, ContextTooLong)
    assert (told.window, told.prompt_tokens) == (256, 1407)
    assert isinstance(read_error({"message": "Rate limit reached, slow down"}, 429).to_model_error(""), RateLimited)


def test_the_next_prompt_is_smaller_whatever_is_named() -> None:
    def next_window(window: int | None, prompt_tokens: int | None = None) -> int:
        error = ContextTooLong("Too long.", window=window, prompt_tokens=prompt_tokens)
        return error.smaller_window(6_000, 2_000)

    assert next_window(4_096) == 4_096
    assert next_window(None) == 5_333, "a third less"
    assert next_window(200_000) == 5_333, "it names more than it was sent: a third less"
    assert next_window(4_096, 7_500) == 3_276, "in our measure: its tokenizer needs a quarter more"
    assert next_window(4_096, 600_000) == 2_048, "no tokenizer needs twice as many"


@given(st.text(max_size=300), st.sampled_from([200, 400, 413, 429, 500]), st.text(max_size=30))
@settings(max_examples=examples(100))
def test_any_words_are_read(message: str, status: int, code: str) -> None:
    refusal = read_context_refusal(status, code, message)
    assert refusal is None or refusal.window is None or refusal.window > 0
