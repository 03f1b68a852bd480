"""Special tokens of chat templates, such as `<|im_start|>`: where a server reads them in a text as what they stand for,
whoever wrote the text begins a turn of the system's or ends one of their own.

Large providers read a text as text. What serves open models often does not, so what is sent there has them broken up:
`<|im_start|>` is sent as `(im_start)`. That is done at the door, in the request alone: prompts are stored, counted and
shown as they were written, answers stand as they came, and what is sent takes no more tokens than what was counted.
Pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from openvibe.engines.llm.answers.provider_fields import map_texts
from openvibe.engines.llm.fences import clean_text
from openvibe.engines.llm.values import ChatMessage, ToolCallRequest, ToolSpec

_PROVIDERS_THAT_READ_TEXT = (
    "openai.com",
    "openai.azure.com",
    "anthropic.com",
    "googleapis.com",
    "mistral.ai",
    "x.ai",
    "amazonaws.com",
)
"""Domains of those who encode what they are sent as text, special tokens by its structure alone."""

_WORDS = (
    *("s", "bos", "eos", "pad", "unk", "sop", "eop", "think", "tool_call", "tool_response", "endoftext"),
    *("start_of_turn", "end_of_turn", "start_of_image", "end_of_image", "image_soft_token", "start_function_call"),
    *("end_function_call", "start_function_response", "end_function_response", "BOS_TOKEN", "EOS_TOKEN", "EOD"),
    *("seed:bos", "seed:eos", "seed:think", "seed:tool_call", "minimax:tool_call", "longcat_tool_call", "escape"),
    *("arg_key", "arg_value"),
    *(r"extra_id_\d+", r"unused\d+", r"SPECIAL_\d+", r"reserved_\d+"),
)
_BRACKET_WORDS = (
    *("INST", "SYSTEM_PROMPT", "AVAILABLE_TOOLS", "TOOL_CALLS", "TOOL_RESULTS", "TOOL_CONTENT", "MODEL_SETTINGS"),
    *("THINK", "gMASK", "sMASK"),
)
_OPEN, _CLOSE, _BAR = "[<＜﹤]", "[>＞﹥]", "[|｜￨‖]"
_SPECIAL_TOKEN = re.compile(
    rf"{_OPEN}{_BAR}(?P<barred>[^<>|｜\s]{{1,60}}){_BAR}{_CLOSE}"
    rf"|{_OPEN}{_BAR}(?P<opening>/?[\w:.-]{{1,60}}){_CLOSE}"
    rf"|{_OPEN}(?P<closing>/?[\w:.-]{{1,60}}){_BAR}{_CLOSE}"
    rf"|{_OPEN}/?{_BAR}{{1,2}}\s?(?P<dialect>DSML)\s?{_BAR}{{1,2}}"
    r"|◁(?P<triangle>/?think)▷"
    rf"|{_OPEN}{{2}}(?P<system>/?SYS){_CLOSE}{{2}}"
    rf"|{_OPEN}(?P<word>/?(?:{'|'.join(_WORDS)})){_CLOSE}"
    rf"|[\[［](?P<bracketed>/?(?:{'|'.join(_BRACKET_WORDS)}))[\]］]"
)
"""A pattern of special tokens, not what templates say in words, such as `### Instruction:`: to a server that is text as
any other."""

_SIGN_OF_ONE = re.compile(r"[<＜﹤\[［◁]")
_THOUGHT_TAG = re.compile(r"\s*</?(?:think|thinking|thought|reasoning)>")
_TAGGED_THOUGHT = re.compile(
    r"(?P<opening>\s*<(?P<tag>think|thinking|thought|reasoning)>)(?P<thought>.*)(?P<closing></(?P=tag)>)(?P<answer>.*)",
    re.DOTALL,
)


def may_read_special_tokens(base_url: str) -> bool:
    """Whether the endpoint there may take special tokens in a text for what they stand for: all but those known not
    to."""
    host = urlsplit(base_url).hostname or ""
    return not any(host == domain or host.endswith(f".{domain}") for domain in _PROVIDERS_THAT_READ_TEXT)


def break_special_tokens(text: str) -> str:
    """The text with the name of each special token in parentheses in its place: nothing that is left makes another."""
    if not _SIGN_OF_ONE.search(text):
        return text
    return _SPECIAL_TOKEN.sub(_name_of_token, text)


def _name_of_token(match: re.Match[str]) -> str:
    """The name in parentheses, small where it stood in brackets, `_of_` with blanks, and without a slash: no form of it
    takes more tokens."""
    name = match[match.lastgroup or 0].removeprefix("/").replace("_of_", " of ")
    return f"({name.lower() if match.lastgroup == 'bracketed' else name})"


def break_in_messages(messages: Iterable[ChatMessage]) -> list[ChatMessage]:
    """The messages as they may be sent. Its own earlier words too: a model may be asked to repeat something."""
    return [
        replace(
            message,
            content=break_special_tokens(clean_text(message.content)),
            tool_calls=tuple(map(_break_in_call, message.tool_calls)),
            provider_fields=_break_in_fields(message.provider_fields),
        )
        for message in messages
    ]


def _break_in_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that the provider wants back, word for word but for what is broken up; the tags of a thought with
    which the model's own text began are its own."""
    broken: dict[str, Any] = map_texts(fields, break_special_tokens)
    content = fields.get("content")
    if isinstance(content, str) and (thought := _TAGGED_THOUGHT.fullmatch(content)):
        broken["content"] = "".join(map(_break_unless_tag, thought.group("opening", "thought", "closing", "answer")))
    return broken


def _break_unless_tag(text: str) -> str:
    return text if _THOUGHT_TAG.fullmatch(text) else break_special_tokens(text)


def _break_in_call(call: ToolCallRequest) -> ToolCallRequest:
    fields = map_texts(call.provider_fields, break_special_tokens)
    return replace(call, arguments=_break_in_json(call.arguments), provider_fields=fields)


def break_in_tools(tools: Iterable[ToolSpec]) -> list[ToolSpec]:
    """The definitions as they may be sent: servers of others wrote some of them. Names hold letters alone."""
    return [
        ToolSpec(tool.name, break_special_tokens(clean_text(tool.description)), _break_in_value(tool.parameters))
        for tool in tools
    ]


def _break_in_json(text: str) -> str:
    """Word for word but for what is broken up; signs that are written as `\\u003c` are read first, as servers do."""
    if "\\u" in text:
        with suppress(ValueError, RecursionError):
            text = json.dumps(json.loads(text), ensure_ascii=False)
    return break_special_tokens(clean_text(text))


def _break_in_value(value: Any) -> Any:
    if isinstance(value, str):
        return break_special_tokens(clean_text(value))
    if isinstance(value, Mapping):
        return {break_special_tokens(key): _break_in_value(each) for key, each in value.items()}
    if isinstance(value, Sequence):
        return [_break_in_value(each) for each in value]
    return value
