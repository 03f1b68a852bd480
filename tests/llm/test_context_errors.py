"""Refusals of prompts that are too long, in many endpoints' words: what they name, and what the next prompt may take."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openvibe.llm.context_errors import ContextRefusal, read_context_refusal
from openvibe.llm.endpoint_errors import read_error
from openvibe.llm.errors import ContextTooLong, RateLimited
from tests.examples import examples

CODE = "context_length_exceeded"


@pytest.mark.parametrize(
    ("status", "code", "message", "window", "sent"),
    [
        (400, CODE, "This model's maximum context length is 4096 tokens. However, you requested 8200 tokens (7300 in the"
         " messages, 900 in the completion).", 4096, 7300),
        (400, CODE, "This model's maximum context length is 128,000 tokens. However, your messages resulted in 204,308 tokens.",
         128_000, 204_308),
        (400, CODE, "Your input exceeds the context window of this model. Please adjust your input and try again.", None, None),
        (400, "", "Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 289650 tokens.", 272_000,
         289_650),
        (400, "invalid_request_error", "prompt is too long: 202609 tokens > 200000 maximum", 200_000, 202_609),
        (400, "invalid_request_error", "input length and `max_tokens` exceed context limit: 174167 + 64000 > 200000, decrease"
         " input length or `max_tokens` and try again", 200_000, 174_167),
        (400, "INVALID_ARGUMENT", "The input token count (314175) exceeds the maximum number of tokens allowed (131072).", 131_072,
         314_175),
        (400, "INVALID_ARGUMENT", "The input token count exceeds the maximum number of tokens allowed 1048576.", 1_048_576, None),
        (400, "exceed_context_size_error", "the request exceeds the available context size. try increasing it", None, None),
        (400, "", "request (14429 tokens) exceeds the available context size (8192 tokens), try increasing it", 8192, 14_429),
        (400, "", "The number of tokens to keep from the initial prompt is greater than the context length (n_keep: 13055>= n_ctx:"
         " 4096). Try to load the model with a larger context length.", 4096, 13_055),
        (400, "", "Cannot truncate prompt with n_keep (15028) >= n_ctx (7424)", 7424, 15_028),
        (400, "", "Trying to keep the first 111490 tokens when context the overflows. However, the model is loaded with context"
         " length of only 32768 tokens, which is not enough.", 32_768, 111_490),
        (400, "BadRequestError", "The input (61709 tokens) is longer than the model's context length (40960 tokens).", 40_960,
         61_709),
        (422, "", "`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000 `inputs` tokens and 500 `max_new_tokens`", 4096,
         5000),
        (422, "", "Input validation error: `inputs` must have less than 8192 tokens. Given: 9000", 8192, None),
        (413, "rate_limit_exceeded", "Request too large for model `x` in organization `o` on tokens per minute (TPM): Limit 12000,"
         " Requested 14137, please reduce your message size and try again.", 12_000, 14_137),
        (429, "rate_limit_exceeded", "Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 342389.",
         30_000, 342_389),
        (400, "", "This endpoint's maximum context length is 16384 tokens. However, you requested about 94307 tokens (94307 of"
         " text input).", 16_384, 94_307),
        (400, "", "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
         32_768, 40_000),
        (400, "ValidationException", "Input is too long for requested model.", None, None),
        (400, "", "Requested tokens (516) exceed context window of 512", 512, 516),
        (400, "BadRequestError", "'max_tokens' or 'max_completion_tokens' is too large: 10000. This model's maximum context length"
         " is 16384 tokens and your request has 9000 input tokens (10000 > 16384 - 9000).", 16_384, 9000),
        (400, "BadRequestError", "You passed 9001 input tokens and requested 200 output tokens. However, the model's context length"
         " is only 8192 tokens, resulting in a maximum input length of 7992 tokens.", 8192, 9001),
        (400, "", "The decoder prompt (length 9001) is longer than the maximum model length of 8192.", 8192, 9001),
        (413, "request_too_large", "Request exceeds the maximum size", None, None),
        (400, "", "This model's maximum prompt length is 131072 but the request contains 537812 tokens.", 131_072, 537_812),
        (500, "", "Context size has been exceeded.", None, None),
        (400, "", "input length exceeds the context length", None, None),
        (400, "", "Please reduce the length of the messages. Current length is 9000 while limit is 8192", 8192, 9000),
    ],
)  # fmt: skip
def test_what_it_names(status: int, code: str, message: str, window: int | None, sent: int | None) -> None:
    refusal = read_context_refusal(status, code, message)
    assert refusal is not None
    assert (refusal.window, refusal.prompt_tokens) == (window, sent)


@pytest.mark.parametrize(
    ("status", "code", "message"),
    [
        (429, "rate_limit_exceeded", "Rate limit reached on tokens per minute (TPM): Limit 6000, Used 5034, Requested 1443."),
        (429, "insufficient_quota", "You exceeded your current quota, please check your plan and billing details."),
        (400, "", "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."),
        (400, "", "max_tokens is too large: 200000. This model supports at most 128000 completion tokens"),
        (400, "", "registry.ollama.ai/library/gemma3:4b does not support tools"),
        (400, "", "image exceeds 5 MB maximum: 9437184 bytes > 5242880 bytes"),
        (404, "", "The model `gpt-9` does not exist"),
        (500, "", "Internal server error"),
    ],
)  # fmt: skip
def test_other_refusals_are_none(status: int, code: str, message: str) -> None:
    assert read_context_refusal(status, code, message) is None


def test_sizes_in_fields_of_their_own() -> None:
    error = {"error": {"message": "the request exceeds the available context size", "n_prompt_tokens": 1407, "n_ctx": 256}}
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
