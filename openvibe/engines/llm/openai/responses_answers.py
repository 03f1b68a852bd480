"""Answers in the Responses protocol, read leniently as they come in.

A stream says the same up to four times: piece by piece, as a part, as an item, and as the whole response. What comes
first is shown, and what comes later counts where it differs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from openvibe.engines.llm import tokens
from openvibe.engines.llm.answers.thoughts import AnswerEvent, AnswerText
from openvibe.engines.llm.answers.tool_calls import make_call, stop_reason_of
from openvibe.engines.llm.endpoint_errors.endpoint_errors import read_error
from openvibe.engines.llm.errors import BadAnswer, ModelUnavailable
from openvibe.engines.llm.fences import IncrementalCleaner, clean_text
from openvibe.engines.llm.values import Completion, TextReset, Usage
from openvibe.engines.network.event_stream import Event, EventStream

MAX_ITEMS = 1_000
MAX_ITEM_CHARACTERS = 8_000_000
"""The most characters of one answer, all that goes back to the provider together."""
MAX_ITEM_DEPTH = 40

_TEXT_TYPES = ("output_text", "text", "refusal")
_INCOMPLETE_REASONS = {"max_output_tokens": "length", "max_tokens": "length", "content_filter": "content_filter"}
_ENDS = ("response.completed", "response.done", "response.incomplete", "response.failed", "response.cancelled")
_NO_RESPONSE = "The endpoint did not answer in the format of the Responses API."

Fields = Mapping[str, Any]


def read_event(event: Event) -> Fields:
    """An event whose type stands in its data; a whole response as one that ends, an error where it is looked for."""
    value = event.data
    kind = value.get("type")
    if not isinstance(kind, str) or (kind != "error" and "." not in kind):
        if value.get("object") == "response" or isinstance(value.get("output"), list):
            if not (value.get("status") == "failed" or value.get("output")) and value.get("error"):
                return value
            value = {"type": "response.completed", "response": value}
        elif event.name:
            value = {**value, "type": event.name}
    if value.get("type") == "error" and not value.get("error"):
        value = {"error": {name: each for name, each in value.items() if name != "type"}}
    return value


@dataclass
class _Item:
    """One item of an answer as it grows. `whole` is it as it came at its end, `pieces` its text or arguments."""

    type: str
    id: str = ""
    index: Any = None
    call_id: str = ""
    name: str = ""
    pieces: list[str] = field(default_factory=list)
    thoughts: list[str] = field(default_factory=list)
    thought_part: Any = None
    whole: dict[str, Any] | None = None
    cleaner: IncrementalCleaner = field(default_factory=IncrementalCleaner)
    thought_cleaner: IncrementalCleaner = field(default_factory=IncrementalCleaner)

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    @property
    def thought(self) -> str:
        return "".join(self.thoughts)


@dataclass
class ResponseAccumulator:
    """A streamed answer as it grows. `key` is the endpoint's, to be kept out of what it reports as an error."""

    read = staticmethod(read_event)

    key: str = field(default="", repr=False)
    answer: AnswerText = field(default_factory=AnswerText)
    _items: list[_Item] = field(default_factory=list)
    _reasoning: list[str] = field(default_factory=list)
    _thought_kind: str = ""
    _usage: Usage = field(default_factory=lambda: Usage(0, 0))
    _stop_reason: str | None = None
    _has_begun: bool = False
    _characters: int = 0

    def add(self, event: Fields) -> Iterator[AnswerEvent]:
        """Takes in one event; returns what it brings to the answer, which may be nothing. Raises ModelError where it
        says that the answer failed."""
        kind = event.get("type")
        if not isinstance(kind, str):
            return
        self._has_begun = self._has_begun or kind.startswith("response.")
        match kind:
            case "response.output_item.added":
                yield from self._add_item(event, event.get("item"), is_whole=False)
            case "response.output_item.done":
                yield from self._add_item(event, event.get("item"), is_whole=True)
            case "response.output_text.delta" | "response.refusal.delta" | "response.content_part.delta":
                yield from self._add_text(self._find(event, "message"), _text(event.get("delta")))
            case "response.output_text.done" | "response.content_part.done":
                yield from self._end_part(event)
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" | "response.reasoning.delta":
                yield from self._add_thought(event, kind)
            case "response.function_call_arguments.delta":
                self._find(event, "function_call").pieces.append(_text(event.get("delta")))
            case "response.function_call_arguments.done":
                call = self._find(event, "function_call")
                call.name = call.name or str(event.get("name") or "")
                call.pieces = [_arguments(event["arguments"])] if event.get("arguments") else call.pieces
            case _ if kind in _ENDS:
                yield from self._end(event.get("response"), kind)

    def end(self) -> Iterator[AnswerEvent]:
        """What is known of the answer once all of it has come; to be read to its end."""
        yield from self.answer.end()

    def completion(self, events: EventStream) -> Completion:
        """The whole. Raises ModelUnavailable if the stream ended before the answer did, BadAnswer if it held none."""
        calls = self.answer.all_calls(
            [
                make_call(number, item.call_id or item.id, item.name, item.text)
                for number, item in enumerate(self._calls())
            ]
        )
        if self._stop_reason is None and events.is_done and self._items:  # some never say that they are through
            self._stop_reason = "tool_calls" if calls else "stop"
        if self._stop_reason is None:
            if self._has_begun or events.is_silent:
                raise ModelUnavailable("The model broke off in the middle of its answer.")
            raise BadAnswer(_NO_RESPONSE)
        items = [item.whole for item in self._items if item.whole is not None]
        fields = {"items": items} if any(item.get("type") == "reasoning" for item in items) else {}
        reason = stop_reason_of(self._stop_reason, calls)
        return Completion(self.answer.text, calls, self._usage, reason, fields, self.answer.reasoning)

    def _calls(self) -> list[_Item]:
        return [item for item in self._items if item.type == "function_call"]

    def _find(self, event: Fields, kind: str) -> _Item:
        """The item that an event belongs to, or a new one: not every server says that one begins."""
        item_id, index = event.get("item_id"), event.get("output_index")
        return self._known(kind, item_id, index) or self._new(kind, item_id, index)

    def _known(self, kind: str, item_id: Any, index: Any) -> _Item | None:
        same_kind = [item for item in self._items if item.type == kind]
        for item in same_kind:
            if item_id and item.id == item_id:
                return item
        if index is not None:
            return next((item for item in same_kind if item.index == index), None)
        return same_kind[-1] if same_kind and not item_id else None

    def _new(self, kind: str, item_id: Any, index: Any) -> _Item:
        if len(self._items) >= MAX_ITEMS:
            raise BadAnswer(f"The model answered with more than {MAX_ITEMS:,} items at once.")
        self._items.append(_Item(kind, str(item_id or ""), index))
        return self._items[-1]

    def _add_item(self, event: Fields, value: Any, *, is_whole: bool) -> Iterator[AnswerEvent]:
        if not isinstance(value, Mapping):
            raise BadAnswer(_NO_RESPONSE)
        kind, index = str(value.get("type") or "message"), event.get("output_index")
        item = self._known(kind, value.get("id"), index) if index is not None or value.get("id") else None
        call_id = str(value.get("call_id") or "")
        if kind == "function_call" and call_id:  # ids and places of items differ from event to event
            item = next((each for each in self._calls() if each.call_id == call_id), item)
        item = item or self._new(kind, value.get("id"), index)
        if kind == "function_call":
            item.call_id, item.name = str(value.get("call_id") or item.call_id), str(value.get("name") or item.name)
            if arguments := _arguments(value.get("arguments")):
                item.pieces = [arguments] if is_whole or not item.pieces else item.pieces
        if is_whole:
            item.whole = self._kept(value)
        if is_whole and kind == "reasoning":
            yield from self._whole_thought(item, value)
        elif kind == "message" and (is_whole or value.get("content")):
            yield from self._whole_text(item, value)

    def _add_text(self, item: _Item, piece: str) -> Iterator[AnswerEvent]:
        piece = item.cleaner.clean(piece)
        if not piece:
            return
        if not item.pieces and any(other.text for other in self._items if other.type == "message"):
            yield from self.answer.add("\n\n")
        item.pieces.append(piece)
        yield from self.answer.add(piece)

    def _end_part(self, event: Fields) -> Iterator[AnswerEvent]:
        """What a server says at the end of a part that says nothing of it in pieces."""
        text = _text(event.get("text")) or _part_text(event.get("part"))
        kind = event["part"].get("type") if isinstance(event.get("part"), Mapping) else "output_text"
        if text and kind in _TEXT_TYPES and not (item := self._find(event, "message")).text:
            yield from self._add_text(item, text)

    def _whole_text(self, item: _Item, value: Fields) -> Iterator[AnswerEvent]:
        content = value.get("content")
        parts = content if isinstance(content, list) else [{"text": content}]
        whole = clean_text("".join(map(_part_text, parts)))
        if whole.startswith(item.text):
            yield from self._add_text(item, whole[len(item.text) :])
        elif whole:
            item.pieces = [whole]
            yield from self._say_anew()

    def _say_anew(self) -> Iterator[AnswerEvent]:
        """The whole answer once more, where something that was said is said otherwise."""
        self.answer = AnswerText(tools=self.answer.tools)
        yield TextReset()
        yield from self.answer.add_reasoning("".join(self._reasoning))
        text = "\n\n".join(item.text for item in self._items if item.type == "message" and item.text)
        yield from self.answer.add(text)

    def _add_thought(self, event: Fields, kind: str) -> Iterator[AnswerEvent]:
        """What the model thinks: in short or in full, whichever comes first, not both."""
        kind = "summary" if "summary" in kind else "text"
        self._thought_kind = self._thought_kind or kind
        if kind != self._thought_kind:
            return
        item = self._find(event, "reasoning")
        part = event.get("summary_index", event.get("content_index"))
        yield from self._think(item, item.thought_cleaner.clean(_text(event.get("delta"))), part)

    def _think(self, item: _Item, piece: str, part: Any) -> Iterator[AnswerEvent]:
        if not piece:
            return
        is_new_part = bool(self._reasoning) and (not item.thoughts or part != item.thought_part)
        item.thought_part = part
        item.thoughts.append(piece)
        piece = f"\n\n{piece}" if is_new_part else piece
        self._reasoning.append(piece)
        yield from self.answer.add_reasoning(piece)

    def _whole_thought(self, item: _Item, value: Fields) -> Iterator[AnswerEvent]:
        """What a server shows that says nothing of it in pieces."""
        if item.thoughts:
            return
        for name, kind in (("summary", "summary"), ("content", "text")):
            texts = [_part_text(part) for part in value.get(name) or () if isinstance(part, Mapping)]
            if any(texts) and self._thought_kind in ("", kind):
                self._thought_kind = kind
                for part, text in enumerate(texts):
                    yield from self._think(item, clean_text(text), part)
                return

    def _end(self, response: Any, kind: str) -> Iterator[AnswerEvent]:
        if not isinstance(response, Mapping):
            if not self._items:
                raise BadAnswer(_NO_RESPONSE)
            response = {}
        status, error = str(response.get("status") or kind.removeprefix("response.")), response.get("error")
        if status in ("failed", "cancelled") or kind == "response.failed":
            raise read_error(error or f"The answer was {status}.").to_model_error(self.key)
        output = response.get("output")
        for index, value in enumerate(output if isinstance(output, list) else ()):
            yield from self._add_item({"output_index": index}, value, is_whole=True)
        if not output and not self._items and isinstance(text := response.get("output_text"), str) and text:
            yield from self._add_text(self._new("message", None, None), text)
        self._usage = _decode_usage(response.get("usage")) or self._usage
        details = response.get("incomplete_details")
        reason = str(details.get("reason") or "") if isinstance(details, Mapping) else ""
        if status == "incomplete" or reason:
            self._stop_reason = _INCOMPLETE_REASONS.get(reason, clean_text(reason)[:40] or "length")
        else:
            self._stop_reason = "stop"

    def _kept(self, value: Fields) -> dict[str, Any]:
        kept = self._sendable(value, 0)
        assert isinstance(kept, dict)
        return kept

    def _sendable(self, value: Any, depth: int) -> Any:
        """The value in letters that can be sent back. Raises BadAnswer where it is endless."""
        if depth > MAX_ITEM_DEPTH:
            raise BadAnswer("The endpoint sent something beside the model's answer that is nested too deeply.")
        if isinstance(value, Mapping):
            return {str(name): self._sendable(each, depth + 1) for name, each in value.items() if each is not None}
        if isinstance(value, list):
            return [self._sendable(each, depth + 1) for each in value]
        if not isinstance(value, str):
            return value
        self._characters += len(value)
        if self._characters > 2 * MAX_ITEM_CHARACTERS:  # each comes twice: as an item, and in the whole
            raise BadAnswer(f"The endpoint sent more than {MAX_ITEM_CHARACTERS:,} characters in one answer.")
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _part_text(part: Any) -> str:
    """The text of a part of a message or of a thought; empty for other parts."""
    if not isinstance(part, Mapping):
        return part if isinstance(part, str) else ""
    kind = part.get("type", "text")
    if kind in _TEXT_TYPES or kind in ("summary_text", "reasoning_text"):
        return _text(part.get("refusal") if kind == "refusal" else part.get("text"))
    return ""


def _text(value: Any) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise BadAnswer("The endpoint answered with something that is not text.")
    return value


def _arguments(value: Any) -> str:
    """JSON text as the protocol wants it; some endpoints give the object itself."""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, Mapping) else _text(value)


def _decode_usage(usage: Any) -> Usage | None:
    if not isinstance(usage, Mapping):
        return None
    inputs, outputs = (usage.get(f"{name}_tokens_details") for name in ("input", "output"))
    inputs, outputs = (each if isinstance(each, Mapping) else {} for each in (inputs, outputs))
    input_tokens = tokens.read_count(usage.get("input_tokens")) or 0
    output_tokens = tokens.read_count(usage.get("output_tokens")) or 0
    cached = tokens.read_count(inputs.get("cached_tokens"))
    thought = tokens.read_count(outputs.get("reasoning_tokens"))
    return Usage(
        input_tokens,
        output_tokens,
        None if cached is None else min(cached, input_tokens),
        tokens.read_count(inputs.get("cache_write_tokens")),
        None if thought is None else min(thought, output_tokens),
    )
