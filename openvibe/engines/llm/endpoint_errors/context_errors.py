"""Refusals of prompts that are too long, in the words of many endpoints: whether it is one, and which sizes it names.
Pure.

Written down from what OpenAI, Azure, Anthropic, Gemini, Mistral, Groq, Bedrock, Together, OpenRouter, DeepSeek, vLLM,
SGLang, TGI, llama.cpp, Ollama and LM Studio answered in 2025 and 2026."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from openvibe.engines.llm.tokens import read_count

MAX_WORDS = 2_000
"""Characters of a refusal that are read."""

_CODES = frozenset(
    (
        "context_length_exceeded",
        "exceed_context_size_error",
        "context_window_exceeded",
        "model_context_window_exceeded",
        "max_tokens_exceeded",
        "request_too_large",
    )
)
_PHRASES = re.compile(
    r"context_length|context[ _-](?:length|window|size|limit)|maximum context|max_model_len|n_ctx"
    r"|prompt is too (?:long|large)|prompt too (?:long|large)|input is too long|too many (?:input )?tokens"
    r"|input (?:token count|tokens|length|prompt)\b.{0,40}\bexceed|exceeds? the (?:maximum|max|configured|available)"
    r".{0,40}\btokens|request too large|requested tokens|too large for model|reduce the length of (?:the|your)"
    r"|(?:input|prompt) \(?\d+ tokens\)? (?:is )?(?:too long|longer)|inputs?` tokens \+|sequence length"
    r"|maximum (?:prompt|model|input) length|must have less than \d+ tokens"
    r"|exceed(?:s|ed)? (?:the )?(?:model'?s? )?(?:token|input) limit|token limit exceeded|prompt exceeds max"
    r"|range of input length|(?:max tokens|max message tokens|max(?:imum)? (?:tokens )?allowed \(?\d)"
    r"|prompt token count|max_tokens must be at least 1, got -|max(?:imum)? input characters"
    r"|contains \d+ tokens which exceeds|input tokens exceeds? limit",
    re.DOTALL,
)
_OTHER_LIMITS = re.compile(
    r"rate limit reached|quota|tokens per day|\btpd\b|max_(?:completion_)?tokens.{0,60}(?:not supported|unsupported)"
)
"""A pattern of words that name tokens and limits, but not the length of this one prompt."""

_SHORT_FIELDS = re.compile(r"'[^']{0,80}(?:\bid|name|description|title|stop|user)'")
"""Fields of which a text may be too long that is no part of what is told."""

_N = r"(\d[\d,_]{0,12}\d|\d)"
_WINDOWS = (  # the first that is found names the window
    rf"context limit: [\d,]+ \+ [\d,]+ > {_N}",
    rf"(?:maximum|max) context (?:length|window|size)(?: of this model)?(?: is| of|:)? {_N}",
    rf"context (?:length|window|size|limit)(?: of only| is only| of| is|:) \(?{_N}",
    rf"(?:exceeds?|than) the (?:model'?s )?(?:maximum |available )?context (?:length|window|size) \(?(?:of )?{_N}",
    rf"longer than the model'?s context length \({_N}",
    rf"maximum (?:prompt|model|input|sequence) length(?: is| of|:)? {_N}",
    rf"> {_N} ?(?:tokens?)? ?(?:maximum|max\b)",
    rf"n_ctx(?:\"?: ?|=| ?\(|\s)+{_N}",
    rf"(?:maximum number of tokens|max(?:imum)?(?: input)? tokens)(?: allowed)?(?: is| of|:)? \(?{_N}",
    rf"configured limit of {_N} tokens",
    rf"(?:tokens \+ `?max_new_tokens`? must be <= ?|must be <= ?){_N}",
    rf"must have less than {_N} tokens",
    rf"(?:exceeds?|exceed) (?:the )?(?:context window|limit|maximum) of {_N}",
    rf"maximum context length of {_N}",
    rf"model with {_N} maximum context",
    rf"limit:? {_N}, requested",
    rf"max_model_len(?:gth)?\D{{0,4}}{_N}",
    rf"context (?:length|window|size|limit)[^.\d]{{0,40}}[\d,]+ > {_N}",
    rf"\blimit (?:is|of) {_N}",
    rf"token limit:? {_N}",
    rf"range of input length should be \[\d+, ?{_N}",
    rf"max(?:imum)? (?:input )?length (?:of )?\(?{_N}",
    rf"prompt cannot exceed {_N}",
    rf"max size: {_N} tokens",
    rf"maximum allowed \(?{_N}",
    rf"exceeds? limit: [\d,]+ > {_N}",
    rf"n_ctx_slot ?= ?{_N}",
)
_PROMPTS = (  # tokens of the prompt, as the endpoint counts them
    rf"you passed {_N} input tokens",
    rf"{_N} in the messages",
    rf"(?:messages|prompt|input)(?: has)? resulted in {_N} tokens",
    rf"\({_N} of text input",
    rf"{_N} in your prompt",
    rf"prompt contains (?:at least )?{_N}",
    rf"prompt is too long: {_N} tokens",
    rf"input token count \(?(?:of )?{_N}",
    rf"\(?{_N} tokens\)? is (?:too long|longer)",
    rf"request \({_N} tokens\)",
    rf"context limit: {_N} \+",
    rf"given: {_N} `?inputs`? tokens",
    rf"n_keep(?:: ?| ?\(){_N}",
    rf"n_prompt_tokens\D{{0,4}}{_N}",
    rf"keep the first {_N} tokens",
    rf"your request has {_N} (?:input )?tokens",
    rf"requested tokens \({_N}\)",
    rf"request contains {_N} tokens",
    rf"prompt \(length {_N}\)",
    rf"[a-z]:? {_N} > [\d,]+",
    rf"current length is {_N}",
    rf"total tokens {_N}",
    rf"tokens in the prompt \(?{_N}|received {_N}",
    rf"token count of {_N}|input length {_N} exceeds|prompt length \(?{_N}",
    rf"requested {_N}",
    rf"requested (?:about )?{_N} tokens",
)
_WINDOW_FIELDS = ("n_ctx", "max_model_len", "context_length", "context_window", "max_context_length")
_PROMPT_FIELDS = ("n_prompt_tokens", "prompt_tokens", "n_prompt")


@dataclass(frozen=True)
class ContextRefusal:
    """What a refusal says of sizes, in tokens as the endpoint counts: `window` it takes, `prompt_tokens` it was sent;
    None where it does not say. `is_quota`: the limit is what the key may send in one minute, not what the model
    takes."""

    window: int | None = None
    prompt_tokens: int | None = None
    is_quota: bool = False


def read_context_refusal(status: int, code: str, message: str, error: Any = None) -> ContextRefusal | None:
    """The sizes where this says that the prompt is too long, else None. `error`: the body, for sizes that stand in
    fields of their own."""
    words = " ".join(message[:MAX_WORDS].split()).lower()
    code = code.lower()
    is_request_too_large = "request too large" in words
    is_long_text = code == "string_above_max_length" and not _SHORT_FIELDS.search(words)
    is_known = code in _CODES or is_long_text or bool(_PHRASES.search(words)) or (status == 413 and "rate" not in code)
    if status == 429 or "rate_limit" in code:  # of these only a request that is larger than a whole minute's tokens
        is_known = is_request_too_large
    if not is_known or (_OTHER_LIMITS.search(words) and not is_request_too_large):
        return None
    window, prompt_tokens = _field(error, _WINDOW_FIELDS), _field(error, _PROMPT_FIELDS)
    window = window or _first_number(_WINDOWS, words)
    prompt_tokens = prompt_tokens or _first_number(_PROMPTS, words)
    is_quota = is_request_too_large and "per min" in words
    return ContextRefusal(window, prompt_tokens, is_quota)


def _first_number(patterns: tuple[str, ...], words: str) -> int | None:
    for pattern in patterns:
        if match := re.search(pattern, words):
            found = next(group for group in match.groups() if group)
            number = read_count(re.sub(r"[,_]", "", found))
            if number:
                return number
    return None


def _field(error: Any, names: tuple[str, ...]) -> int | None:
    if not isinstance(error, dict):
        return None
    inner = error.get("error")
    for place in (error, inner if isinstance(inner, dict) else {}):
        for name in names:
            if number := read_count(place.get(name)):
                return number
    return None
