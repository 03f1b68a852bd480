"""Counting tokens, exactly where the model's tokenizer is known and never too few where it is not.

Known are o200k_base and cl100k_base (`encodings`); for other models the count is estimated from the first, by the
vocabulary that a model's name tells (`token_estimates`).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache, partial
from typing import Any

from openvibe.engines.llm.answers.provider_fields import all_fields, count_field_tokens, iter_texts
from openvibe.engines.llm.encodings import MAX_WHOLE_CHARACTERS, PATTERNS, load_encoding, split_pieces
from openvibe.engines.llm.images import ImageRule, image_rule, open_patches
from openvibe.engines.llm.token_estimates import TokenWeights, vocabulary_of
from openvibe.engines.llm.values import ChatMessage, Completion, ToolSpec, Usage

MAX_WORD_CHARACTERS = 40  # characters; what is longer than a word is cut anywhere
MESSAGE_OVERHEAD = 4  # tokens of a message's own wrapping
TOOL_OVERHEAD = 8  # tokens around each tool definition, on top of its JSON, which providers rewrite into a shorter one
PROMPT_OVERHEAD = 3  # tokens that open the answer
CUT_ALLOWANCE = 16  # tokens added for each cut that may fall inside a token
MAX_ANSWER_TOKENS = 1_000_000  # tokens of one answer, thoughts included: no model writes more
UNSEEN_PROMPT_TOKENS = 20_000  # tokens that a provider may add to a prompt

_ENCODING_PREFIXES = (  # the first prefix that fits decides
    ("o200k_base", ("gpt-4o", "gpt-4.1", "gpt-4.5", "gpt-5", "gpt-oss", "chatgpt-4o", "o1", "o3", "o4")),
    ("cl100k_base", ("gpt-4", "gpt-3.5", "gpt-35", "text-embedding-3", "text-embedding-ada-002")),
    ("o200k_base", ("offline", "scripted")),
)
_LINE_BREAK = re.compile(r"(?<=\n)(?=[^\s/])|(?<=\n\n)(?= /)")


@dataclass(frozen=True)
class TokenCounter:
    """Counts the tokens of a text, and of an image, for one model. `exact` is False where the count of texts is
    deliberately high."""

    name: str
    exact: bool
    count: Callable[[str], int]
    count_image: ImageRule = open_patches


@cache
def typical_ratio(counter: TokenCounter) -> float:
    """What this counter makes of a token of o200k_base in ordinary prose, in which stored counts are."""
    return max(1.0, counter.count(_PROSE) / count_tokens(_PROSE))


_PROSE = (
    "Ana moved the seedlings on Tuesday, before the frost came. Could somebody check whether the pump in the north "
    "greenhouse works again? The invoice says thirty-eight trays; we had ordered forty-two."
)


def count_tokens(text: str) -> int:
    """Tokens of the text in o200k_base."""
    return _count_encoded("o200k_base", text)


def counter_for(model: str, factor: float = 1.0) -> TokenCounter:
    """The counter for a model's name; `openai/gpt-4o` and `ft:gpt-4o:…` are read as gpt-4o. `factor`: what its endpoint
    is known to count, in parts of that."""
    counter = _counter_of_name(model.lower().rsplit("/", 1)[-1].removeprefix("ft:"))
    return counter if factor == 1 else _with_factor(counter, factor)


def _counter_of_name(name: str) -> TokenCounter:
    for encoding, prefixes in _ENCODING_PREFIXES:
        if name.startswith(prefixes):
            return _with_image_rule(_EXACT_COUNTERS[encoding], image_rule(name))
    return _with_image_rule(_estimating_counter(vocabulary_of(name)), image_rule(name))


@cache
def _estimating_counter(vocabulary: str) -> TokenCounter:
    weights = TokenWeights(vocabulary)
    return TokenCounter(f"estimate for {vocabulary}", exact=False, count=lru_cache(maxsize=8192)(weights.count))


@lru_cache(maxsize=64)
def _with_factor(counter: TokenCounter, factor: float) -> TokenCounter:
    def count(text: str) -> int:
        return math.ceil(counter.count(text) * factor)

    return replace(counter, name=f"{counter.name} × {factor:g}", exact=False, count=count)


@lru_cache(maxsize=64)
def _with_image_rule(counter: TokenCounter, rule: ImageRule) -> TokenCounter:
    return counter if rule is counter.count_image else replace(counter, count_image=rule)


def count_text(text: str, counter: TokenCounter) -> int:
    """Tokens of a text, line by line, so that counts of parts add up to the count of the whole: both known vocabularies
    begin a new word at these breaks. A line that was counted lately is not counted again."""
    return sum(map(counter.count, _LINE_BREAK.split(text))) if text else 0


def count_prompt_tokens(messages: Iterable[ChatMessage], tools: Iterable[ToolSpec], counter: TokenCounter) -> int:
    """Tokens of a whole prompt: texts, tool calls, tool definitions, and the overhead of each."""
    sent = sum(count_message(message, counter) for message in messages)
    return PROMPT_OVERHEAD + sent + sum(count_tool(tool, counter) for tool in tools)


def count_message(message: ChatMessage, counter: TokenCounter) -> int:
    """Tokens of one message, its overhead, its tool calls, its images and what its provider wants back included."""
    calls = sum(
        counter.count(call.name) + counter.count(call.arguments) + MESSAGE_OVERHEAD for call in message.tool_calls
    )
    count = partial(count_text, counter=counter)
    fields = sum(count_field_tokens(each, count) for each in all_fields(message))
    images = sum(counter.count_image(image.width, image.height) for image in message.images)
    return MESSAGE_OVERHEAD + count_text(message.content, counter) + calls + fields + images


def count_tool(tool: ToolSpec, counter: TokenCounter) -> int:
    """Tokens of one tool definition, overhead included."""
    return counter.count(tool_text(tool)) + TOOL_OVERHEAD


def tool_text(tool: ToolSpec) -> str:
    """The definition as canonical JSON."""
    definition = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return json.dumps(definition, sort_keys=True, ensure_ascii=False)


def read_count(value: Any) -> int | None:
    """A count of tokens as endpoints report it, some as text; None for what is none, or absurd."""
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 10:
        value = int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if type(value) is int and 0 <= value < 1_000_000_000 else None


def with_usage(
    completion: Completion, model: str, messages: Sequence[ChatMessage], tools: Sequence[ToolSpec]
) -> Completion:
    """The completion with its usage counted here where the endpoint reported none, half of it, or more than can be: a
    wrong figure would use up the budget of a day."""
    usage, counter = completion.usage, counter_for(model)
    if not 0 < usage.input_tokens <= _most_prompt_tokens(messages, tools, counter):
        usage = Usage(count_prompt_tokens(messages, tools, counter), usage.output_tokens)
    if not 0 < usage.output_tokens <= MAX_ANSWER_TOKENS:
        calls = sum(counter.count(call.name) + counter.count(call.arguments) for call in completion.tool_calls)
        usage = replace(usage, output_tokens=counter.count(completion.text) + calls)
    return replace(completion, usage=usage)


def _most_prompt_tokens(messages: Sequence[ChatMessage], tools: Sequence[ToolSpec], counter: TokenCounter) -> int:
    """No vocabulary needs more tokens than bytes; templates and what providers add are reckoned generously, and so is
    what a provider makes of images."""
    images = sum(counter.count_image(image.width, image.height) for message in messages for image in message.images)
    texts = [text for message in messages for text in (message.content, *(c.arguments for c in message.tool_calls))]
    texts += [text for message in messages for fields in all_fields(message) for text in iter_texts(fields)]
    texts += [tool.description + json.dumps(tool.parameters) for tool in tools]
    return UNSEEN_PROMPT_TOKENS + 4 * images + 2 * sum(len(text.encode(errors="replace")) for text in texts)


def truncate_middle(text: str, limit: int, counter: TokenCounter, marker: str) -> str:
    """The text if it fits `limit` tokens, else its beginning, the marker and its end.

    The answer never counts more than `limit`; two thirds of the room go to the beginning, and no word is cut. Where
    not even the marker fits, only the beginning is left. The work done grows with the limit, not with the text.
    """
    if len(text) <= MAX_WHOLE_CHARACTERS and counter.count(text) <= limit:
        return text
    if counter.count(marker) <= limit:
        return _longest_fitting(lambda length: _join_ends(text, length, marker), len(text), limit, counter)
    return _longest_fitting(lambda length: text[:length], len(text), limit, counter)


def truncate_to_tokens(text: str, limit: int, counter: TokenCounter) -> str:
    """The longest beginning of the text found to count at most `limit` tokens."""
    return _longest_fitting(lambda length: text[:length], len(text), limit, counter)


def _join_ends(text: str, characters: int, marker: str) -> str:
    if characters >= len(text):
        return text
    tail = characters // 3
    end, start = _word_end(text, characters - tail), _word_start(text, len(text) - tail)
    return text[:end] + marker + text[start:]


def _word_end(text: str, position: int) -> int:
    """The end of the last whole word before `position`; `position` itself inside a very long one."""
    spaces = [
        match.start() for match in re.finditer(r"\s", text[max(position - MAX_WORD_CHARACTERS, 0) : position + 1])
    ]
    return max(position - MAX_WORD_CHARACTERS, 0) + spaces[-1] if spaces else position


def _word_start(text: str, position: int) -> int:
    """The start of the first whole word from `position` on; `position` itself inside a very long one."""
    space = re.search(r"\s", text[max(position - 1, 0) : position + MAX_WORD_CHARACTERS])
    return max(position - 1, 0) + space.end() if space else position


def _longest_fitting(shorten: Callable[[int], str], whole: int, limit: int, counter: TokenCounter) -> str:
    """The longest `shorten(kept)` that fits, by doubling and then halving the step."""
    fits, best = 0, shorten(0)
    too_many = min(whole, max(limit, 16))
    while counter.count(candidate := shorten(too_many)) <= limit:
        fits, best = too_many, candidate
        if too_many >= whole:
            return best
        too_many = min(whole, too_many * 2)
    while too_many - fits > 1:
        middle = (fits + too_many) // 2
        if counter.count(candidate := shorten(middle)) <= limit:
            fits, best = middle, candidate
        else:
            too_many = middle
    return best if counter.count(best) <= limit else ""


def _count_encoded(encoding: str, text: str) -> int:
    if len(text) <= 10_000:
        return _count_cached(encoding, text)
    if len(text) <= MAX_WHOLE_CHARACTERS:
        return len(load_encoding(encoding).encode_ordinary(text))
    return sum(
        len(load_encoding(encoding).encode_ordinary(piece)) + (0 if clean_cut else CUT_ALLOWANCE)
        for piece, clean_cut in split_pieces(text)
    )


_EXACT_COUNTERS = {name: TokenCounter(name, exact=True, count=partial(_count_encoded, name)) for name in PATTERNS}


@lru_cache(maxsize=8192)
def _count_cached(encoding: str, text: str) -> int:
    return len(load_encoding(encoding).encode_ordinary(text))
