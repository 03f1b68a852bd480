"""Anthropic's Messages protocol. Every answer is streamed, whole ones too."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, ClassVar

from openvibe.engines.llm.adaptations.adaptations import CallPlan
from openvibe.engines.llm.adaptations.request_options import MESSAGES_LACKS, THINKING_LACKS, messages_options
from openvibe.engines.llm.answers.thoughts import AnswerText
from openvibe.engines.llm.answers.tool_calls import arguments_object, clean_identifier
from openvibe.engines.llm.anthropic.answers import THINKING_BLOCKS, MessageAccumulator
from openvibe.engines.llm.fences import clean_text
from openvibe.engines.llm.http_model import Accumulator, HttpModel
from openvibe.engines.llm.images import messages_blocks
from openvibe.engines.llm.values import ChatMessage, ToolSpec

MAX_BREAKPOINTS = 4
"""Cache breakpoints of one request, by the protocol."""

MIN_CACHED_CHARACTERS = 2_000
"""The least length of a prefix: about 512 tokens, the least that any model caches. A breakpoint in a shorter one does
nothing."""

DEFAULT_OUTPUT_TOKENS = 4_096
"""The output limit where nobody says how long an answer may be: the protocol wants a number."""

_CACHE_CONTROL = {"type": "ephemeral"}


class AnthropicModel(HttpModel):
    """A ModelClient for one endpoint."""

    path: ClassVar[str] = "/messages"
    is_anthropic: ClassVar[bool] = True
    streams_whole_answers: ClassVar[bool] = True

    def _plan(self, plan: CallPlan) -> CallPlan:
        return replace(
            plan,
            max_output_tokens=plan.max_output_tokens or DEFAULT_OUTPUT_TOKENS,
            limit_names=(),
            asks_for_usage=False,
            thinks_adaptively=True,
            marks_cache=True,
        )

    def _protocol_lacks(self, plan: CallPlan) -> Mapping[str, str]:
        if plan.options.effort not in (None, "off") and "no_effort" not in self.adaptations.values():
            return MESSAGES_LACKS | THINKING_LACKS
        return MESSAGES_LACKS

    def _request(self, plan: CallPlan) -> dict[str, Any]:
        limit = plan.max_output_tokens or DEFAULT_OUTPUT_TOKENS
        request = build_request(self.model, plan.messages, plan.tools, limit, marks_cache=plan.marks_cache)
        request["stream"] = plan.streams
        return request | messages_options(
            plan.options, has_tools=bool(plan.tools), max_output_tokens=limit, is_adaptive=plan.thinks_adaptively
        )

    def _accumulator(self, plan: CallPlan) -> Accumulator:
        return MessageAccumulator(AnswerText(plan.tools))


def build_request(
    model: str,
    messages: Sequence[ChatMessage],
    tools: Sequence[ToolSpec],
    max_output_tokens: int | None,
    *,
    marks_cache: bool = True,
) -> dict[str, Any]:
    """The body of a request: the system's text by itself, neighbours of one role as one message, cache breakpoints."""
    breakpoints = choose_breakpoints(messages, tools) if marks_cache else frozenset()
    numbered_messages = list(enumerate(messages))
    system = [
        _with_breakpoint([{"type": "text", "text": clean_text(message.content)}], number in breakpoints)[0]
        for number, message in numbered_messages
        if message.role == "system" and message.content.strip()
    ]
    turns = [(number, message) for number, message in numbered_messages if message.role != "system"]
    encoded_messages = []
    for role, group in groupby(turns, key=lambda turn: "assistant" if turn[1].role == "assistant" else "user"):
        parts = [_with_breakpoint(_encode_blocks(message), number in breakpoints) for number, message in group]
        if blocks := [block for part in parts for block in part]:
            encoded_messages.append({"role": role, "content": blocks})
    if not encoded_messages or encoded_messages[0]["role"] == "assistant":
        encoded_messages.insert(0, {"role": "user", "content": [{"type": "text", "text": "(It begins here.)"}]})
    request: dict[str, Any] = {"model": model, "messages": encoded_messages}
    request["max_tokens"] = max_output_tokens or DEFAULT_OUTPUT_TOKENS
    if system:
        request["system"] = system
    if tools:
        request["tools"] = [
            {"name": tool.name, "description": tool.description, "input_schema": tool.parameters} for tool in tools
        ]
    return request


def choose_breakpoints(messages: Sequence[ChatMessage], tools: Sequence[ToolSpec] = ()) -> frozenset[int]:
    """The numbers of the messages after which the prompt is cached, tools and system before all.

    At most MAX_BREAKPOINTS: of more, the first, which the most prompts share, and the last. A cache is looked for at a
    breakpoint and up to 20 blocks before it, so one far from the end of the last round finds nothing.
    """
    numbers = []
    characters = sum(len(tool.description) + len(json.dumps(tool.parameters)) for tool in tools)
    for number, message in enumerate(messages):
        characters += len(message.content)
        if message.ends_stable_part and characters >= MIN_CACHED_CHARACTERS:
            numbers.append(number)
    return frozenset([*numbers[:1], *numbers[1:][1 - MAX_BREAKPOINTS :]])


def _with_breakpoint(blocks: list[dict[str, Any]], is_breakpoint: bool) -> list[dict[str, Any]]:
    if is_breakpoint and blocks and blocks[-1]["type"] not in THINKING_BLOCKS:
        blocks[-1]["cache_control"] = _CACHE_CONTROL
    return blocks


def _encode_blocks(message: ChatMessage) -> list[dict[str, Any]]:
    """One message as the protocol writes it; a text without a visible character is none to it."""
    text = clean_text(message.content)
    if message.role == "tool":
        call_id = clean_identifier(message.tool_call_id or "")
        return [{"type": "tool_result", "tool_use_id": call_id, "content": text if text.strip() else "(empty)"}]
    thinking = [dict(block) for block in message.provider_fields.get("thinking", ())]
    texts = [*messages_blocks(message.images), *([{"type": "text", "text": text}] if text.strip() else ())]
    calls = [
        {
            **call.provider_fields,
            "type": "tool_use",
            "id": clean_identifier(call.id),
            "name": clean_identifier(call.name),
            "input": arguments_object(call.arguments),
        }
        for call in message.tool_calls
    ]
    ordered: list[dict[str, Any]] = []
    for kind in message.provider_fields.get("layout", ()):  # the text stands where it began
        source = thinking if kind in THINKING_BLOCKS else texts if kind == "text" else calls
        ordered += [source.pop(0)] if source else []
    return [*ordered, *thinking, *texts, *calls]
