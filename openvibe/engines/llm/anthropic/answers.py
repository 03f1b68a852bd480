"""Answers in Anthropic's Messages protocol, read leniently as they come in."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from openvibe.engines.llm import tokens
from openvibe.engines.llm.answers.provider_fields import extra_fields
from openvibe.engines.llm.answers.streamed_text import Gain, StreamedText
from openvibe.engines.llm.answers.thoughts import AnswerEvent, AnswerText
from openvibe.engines.llm.answers.tool_calls import join_arguments, make_call, stop_reason_of
from openvibe.engines.llm.endpoint_errors.endpoint_errors import content_filter_error
from openvibe.engines.llm.errors import BadAnswer, ContextTooLong, ModelUnavailable
from openvibe.engines.llm.fences import IncrementalCleaner, clean_text
from openvibe.engines.llm.values import Completion, TextReset, ToolCallRequest, Usage
from openvibe.engines.network.event_stream import Event, EventStream
from openvibe.engines.text.cleaning import has_visible_character

Fields = Mapping[str, Any]

_STOP_REASONS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
    "refusal": "content_filter",
    "pause_turn": "pause",
}
THINKING_BLOCKS = ("thinking", "redacted_thinking")
_BLOCKS_OF_DELTAS = {
    "text_delta": "text",
    "thinking_delta": "thinking",
    "signature_delta": "thinking",
    "input_json_delta": "tool_use",
}
_CALL_FIELDS = ("type", "id", "name", "input", "cache_control", "caller", "toolset_name")
_USAGE_NAMES = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")


def read_event(event: Event) -> Fields:
    """An event whose type stands in its data; a whole message as one that begins, an error where it is looked for."""
    value, name = event.data, event.name
    if not name or name == "message":
        if value.get("type") == "message":
            return {"type": "message_start", "message": value}
        name = "error" if value.get("error") else ""
    return {"error": value} if name == "error" else {"type": name, **value}


@dataclass
class _Block:
    """One block of an answer as it grows: text, thinking or a call. `start` is what it began with."""

    type: str
    start: Fields = field(default_factory=dict)
    text: StreamedText = field(default_factory=StreamedText)
    pieces: list[str] = field(default_factory=list)  # of a call's arguments
    signature: str | None = None
    is_over: bool = False
    cleaner: IncrementalCleaner = field(default_factory=IncrementalCleaner)

    @property
    def is_thought(self) -> bool:
        return self.type in THINKING_BLOCKS


@dataclass
class MessageAccumulator:
    """A streamed answer as it grows. Endpoints count blocks anew, begin them twice, or not at all."""

    read = staticmethod(read_event)

    answer: AnswerText = field(default_factory=AnswerText)
    _blocks: list[_Block] = field(default_factory=list)
    _numbered: dict[Any, _Block] = field(default_factory=dict)
    _usage: dict[str, int] = field(default_factory=dict)
    _has_begun: bool = False
    _stop_reason: str | None = None
    _explanation: str = ""

    def add(self, event: Fields) -> Iterator[AnswerEvent]:
        """Takes in one event; returns what it brings to the answer, which may be nothing."""
        match event.get("type"):
            case "message_start":
                self._has_begun = True
                self._add_usage(event["message"].get("usage"))
                self._add_end(event["message"])
                yield from self._add_whole(event["message"])  # an endpoint that does not stream has all in it
            case "content_block_start":
                yield from self._start_block(event.get("index"), event["content_block"])
            case "content_block_delta":
                yield from self._add_delta(event.get("index"), event.get("delta"))
            case "content_block_stop":
                yield from self._stop_block(event)
            case "message_delta":
                self._add_end(event.get("delta"))
                self._add_usage(event.get("usage"))
            case "message_stop":
                message = event.get("message")
                yield from self._add_whole(message) if isinstance(message, dict) else ()

    def end(self) -> Iterator[AnswerEvent]:
        """What is known of the answer once all of it has come; to be read to its end."""
        resets = [block.text.end().is_reset for block in self._blocks]
        if any(resets):
            yield from self._say_anew()
        yield from self.answer.end()

    def completion(self, events: EventStream) -> Completion:
        """The whole. Raises ModelUnavailable if the stream ended before the answer did, BadAnswer if it held none."""
        if self._stop_reason is None:
            if self._has_begun or events.is_silent:
                raise ModelUnavailable("The model broke off in the middle of its answer.")
            raise BadAnswer("The endpoint did not answer in the format of the Messages API.")
        reason = _STOP_REASONS.get(str(self._stop_reason), clean_text(str(self._stop_reason))[:40])
        call_blocks = [block for block in self._blocks if block.type == "tool_use"]
        calls = self.answer.all_calls([_tool_call(number, block) for number, block in enumerate(call_blocks)])
        reason = stop_reason_of(reason, calls)
        if reason == "content_filter":
            raise content_filter_error(self._explanation)
        is_empty = not calls and not has_visible_character(self.answer.text)
        if is_empty and self._stop_reason == "model_context_window_exceeded":
            raise ContextTooLong("The prompt leaves the model no room for an answer.")
        fields = _message_fields(self._blocks)
        return Completion(self.answer.text, calls, self._total_usage(), reason, fields, self.answer.reasoning)

    def _add_end(self, end: Any) -> None:
        self._stop_reason = _get(end, "stop_reason") or self._stop_reason
        self._explanation = _get(_get(end, "stop_details"), "explanation") or self._explanation

    def _add_whole(self, message: Fields) -> Iterator[AnswerEvent]:
        """A whole message, which may come after its blocks: what they lack of it."""
        starts = list(message.get("content") or ())
        if not self._blocks:
            for index, start in enumerate(starts):
                yield from self._start_block(index, start)
            return
        for block, start in zip(self._blocks, starts, strict=False):
            if block.type == str(start.get("type")):
                yield from self._complete_block(block, start)
        for index, start in enumerate(starts[len(self._blocks) :], start=len(self._blocks)):
            yield from self._start_block(index, start)

    def _start_block(self, index: Any, start: Fields) -> Iterator[AnswerEvent]:
        """A block begins, or begins once more."""
        before, start_type = self._numbered.get(index), str(start.get("type"))
        is_repeated = before is not None and before.type == start_type and _is_same_block(before, start)
        block = before if before is not None and is_repeated else _Block(start_type)
        if block is not before:
            self._numbered[index] = block
            self._blocks.append(block)
        block.start = block.start or start
        signature = start.get("signature")
        block.signature = signature if isinstance(signature, str) else block.signature
        text = block.cleaner.clean(_block_text(start))
        yield from self._gain(block, block.text.add_whole(text) if is_repeated else block.text.add_start(text))

    def _complete_block(self, block: _Block, whole: Fields) -> Iterator[AnswerEvent]:
        """The same block once more, as a whole."""
        signature = whole.get("signature")
        block.signature = signature if isinstance(signature, str) and signature else block.signature
        tool_input = whole.get("input")
        if isinstance(tool_input, dict) and tool_input:
            block.pieces = [json.dumps(tool_input, ensure_ascii=False)]
        yield from self._gain(block, block.text.add_whole(clean_text(_block_text(whole)), may_go_on=False))

    def _stop_block(self, event: Fields) -> Iterator[AnswerEvent]:
        block = self._numbered.get(event.get("index"))
        if block is None:
            return
        block.is_over = True
        whole = event.get("content_block")
        if isinstance(whole, dict):
            yield from self._complete_block(block, whole)

    def _add_delta(self, index: Any, delta: Any) -> Iterator[AnswerEvent]:
        if delta is None:
            return
        kind = str(delta.get("type"))
        block = self._find_block(index, _BLOCKS_OF_DELTAS.get(kind))
        if block is None:
            return
        if kind == "signature_delta":
            block.signature = str(delta.get("signature"))
        elif kind == "input_json_delta":
            block.pieces.append(decode_text(delta.get("partial_json"), block.cleaner.clean))
        elif kind in ("text_delta", "thinking_delta"):
            text = decode_text(delta.get(kind.removesuffix("_delta")), block.cleaner.clean)
            yield from self._gain(block, block.text.add(text))

    def _find_block(self, index: Any, block_type: str | None) -> _Block | None:
        """The block that a delta goes on with; one that begins with it where none of its type had begun. Raises
        BadAnswer for arguments of a call that nothing named."""
        block = self._numbered.get(index)
        if block is None and index is None and self._blocks:
            block = self._blocks[-1]
        if block_type is None or (block is not None and block.type == block_type):
            return block
        if block_type == "tool_use":
            raise BadAnswer("The model called a tool without naming it.")
        block = self._numbered[index] = _Block(block_type)
        self._blocks.append(block)
        return block

    def _gain(self, block: _Block, gain: Gain) -> Iterator[AnswerEvent]:
        """What the answer gains by a block, or all of it anew where something is taken back."""
        if gain.is_reset:
            yield from self._say_anew()
        elif gain.text and block.is_thought:
            yield from self.answer.add_reasoning(gain.text)
        elif gain.text and block.type == "text":
            yield from self.answer.add(gain.text)

    def _say_anew(self) -> Iterator[AnswerEvent]:
        self.answer = AnswerText(tools=self.answer.tools)
        yield TextReset()
        for block in self._blocks:
            yield from self._gain(block, Gain(block.text.text))

    def _add_usage(self, usage: Any) -> None:
        details = _get(usage, "output_tokens_details")
        for part, names in ((usage, _USAGE_NAMES), (details, ("thinking_tokens",))):
            for name in names:
                if (count := tokens.read_count(_get(part, name))) is not None:
                    self._usage[name] = count

    def _total_usage(self) -> Usage:
        """The protocol counts what is read from the cache and what is written to it apart from the rest."""
        cache_reads, cache_writes = (
            self._usage.get("cache_read_input_tokens"),
            self._usage.get("cache_creation_input_tokens"),
        )
        total = self._usage.get("input_tokens", 0) + (cache_reads or 0) + (cache_writes or 0)
        output, thinking = self._usage.get("output_tokens", 0), self._usage.get("thinking_tokens")
        thinking = None if thinking is None else min(thinking, output)
        return Usage(total, output, cache_reads, cache_writes, thinking)


def _is_same_block(block: _Block, start: Fields) -> bool:
    """Whether a block that begins where one has begun is that one again."""
    if block.type == "tool_use":
        return bool(block.start.get("id") == start.get("id"))
    if block.type == "redacted_thinking":
        return bool(block.start.get("data") == start.get("data"))
    return not block.is_over


def _get(part: Any, name: str) -> Any:
    """A field of an object; None of what is none, though one is wanted."""
    return part.get(name) if isinstance(part, Mapping) else None


def _block_text(block: Fields) -> str:
    return decode_text(block.get("text" if block.get("type") == "text" else "thinking"), str)


def _message_fields(blocks: Sequence[_Block]) -> dict[str, Any]:
    """What the model thought, as it wants it back: signed, or sealed. `layout`: the types of all blocks, where thinking
    does not come before all else."""
    thinking = tuple(_thinking(blocks))
    if not thinking:
        return {}
    layout = [block.type for block in blocks if block.is_thought or block.type in ("text", "tool_use")]
    is_first = not any(kind in THINKING_BLOCKS for kind in layout[len(thinking) :])
    return {"thinking": thinking} if is_first else {"thinking": thinking, "layout": layout}


def _thinking(blocks: Iterable[_Block]) -> Iterator[dict[str, Any]]:
    for block in blocks:
        more = extra_fields(block.start, ("type", "thinking", "signature", "data", "cache_control"))
        if block.type == "thinking":
            signature = {} if block.signature is None else {"signature": block.signature}
            yield {"type": "thinking", "thinking": block.text.text, **signature, **more}
        elif block.type == "redacted_thinking":
            yield {"type": "redacted_thinking", "data": str(block.start.get("data")), **more}


def _tool_call(number: int, block: _Block) -> ToolCallRequest:
    tool_input = block.start.get("input")
    whole = json.dumps(tool_input) if isinstance(tool_input, dict) else ""
    call_id, name = block.start.get("id"), block.start.get("name")
    fields = extra_fields(block.start, _CALL_FIELDS)
    return make_call(number, call_id, name, join_arguments(block.pieces).strip() or whole, fields)


def decode_text(text: Any, clean: Callable[[str], str] = clean_text) -> str:
    if text is None:
        return ""
    if not isinstance(text, str):
        raise BadAnswer("The endpoint answered with something that is not text.")
    return clean(text)
