"""Answers in the chat-completions protocol, read leniently as they come in; why they ended, in the
words of many providers."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from openvibe.engines.llm import tokens
from openvibe.engines.llm.answers.provider_fields import FieldMerger, extra_fields, part_reasoning, reasoning_texts
from openvibe.engines.llm.answers.streamed_text import Gain, StreamedText
from openvibe.engines.llm.answers.thoughts import AnswerEvent, AnswerText
from openvibe.engines.llm.answers.tool_calls import is_object, join_arguments, make_call, stop_reason_of
from openvibe.engines.llm.endpoint_errors.endpoint_errors import report_in
from openvibe.engines.llm.errors import BadAnswer, ModelError, ModelUnavailable
from openvibe.engines.llm.fences import IncrementalCleaner, clean_text
from openvibe.engines.llm.values import Completion, TextReset, Usage
from openvibe.engines.network.event_stream import Event, EventStream

_WORDS = {
    "stop": "complete completed eos eos_token end end_turn stop_sequence stop_token finish finished",
    "length": "max_tokens max_output_tokens max_new_tokens max_length model_length length_limit token_limit",
    "content_filter": (
        "safety sensitive blocklist prohibited_content spii recitation refusal image_safety error_toxic"
        " guardrail_intervened"
    ),
    "tool_calls": "tool_call tool_use function_call function_calls",
}
_OURS = {word: ours for ours, words in _WORDS.items() for word in words.split()}
_BROKEN_OFF = frozenset(
    (
        *("error", "abort", "aborted", "cancelled", "canceled"),
        *("network_error", "engine_error", "insufficient_system_resource"),
    )
)
_LOST_CALL = ("malformed_function_call", "unexpected_tool_call", "malformed_tool_call")


def read_stop_reason(reason: object) -> str:
    """The reason in our words; the provider's own where it is another."""
    text = _plain(reason)
    word = text.lower().replace("-", "_").removeprefix("finish_reason_")
    if word.startswith("content_filter"):
        return "content_filter"
    if word in _OURS.values():
        return word
    return _OURS.get(word, text[:40])


def _plain(reason: object) -> str:
    return " ".join(clean_text(str(reason)).split())[:80]


def failure_of(reason: object) -> ModelError | None:
    """The error where the reason says that the answer is none."""
    reason = _plain(reason)
    word = reason.lower().replace("-", "_")
    if word in _BROKEN_OFF:
        return ModelUnavailable(f"The model broke off in the middle of its answer. Its provider says: {reason}.")
    if any(each in word for each in _LOST_CALL) or word.startswith("function_call_filter"):
        return BadAnswer(
            f"The provider could not read the call of a tool that its model wrote. It says: {reason}.",
            advice="Try again. If it happens often, another model is better at tools.",
            may_pass=True,
        )
    return None


MAX_CALLS = 1_000
"""Calls of one answer that are read."""

_DELTA_FIELDS = frozenset({"role", "content", "refusal", "tool_calls", "function_call"})
_CALL_FIELDS = frozenset({"index", "id", "type", "function"})
_FUNCTION_FIELDS = frozenset({"name", "arguments"})
_TAGGED_THOUGHT = re.compile(r"\s*<(think|thinking|thought|reasoning)>.*</\1>(?P<answer>.*)", re.DOTALL)


def read_event(event: Event) -> Mapping[str, Any]:
    """A chunk with an error in the one place where it is looked for, and a whole message that says that it is one."""
    chunk = event.data
    if chunk.get("error"):
        return chunk
    choices = chunk.get("choices")
    choices = [each for each in choices if isinstance(each, dict)] if isinstance(choices, list) else []
    is_error = event.name == "error" or chunk.get("object") == "error"
    if not choices and not is_error:
        is_error = report_in(chunk) is not None
    if error := chunk if is_error else next((each["error"] for each in choices if each.get("error")), None):
        return {"error": error}
    if chunk.get("object") != "chat.completion.chunk":
        for choice in choices:
            if isinstance(choice.get("message"), dict) and choice.get("delta") is None:
                choice["finish_reason"] = choice.get("finish_reason") or "stop"
    return chunk


@dataclass
class _CallFragments:
    """A streamed call as it grows. `index` is what the endpoint counts it by, if it does."""

    index: Any
    id: str = ""
    name: str = ""
    pieces: list[str] = field(default_factory=list)
    fields: FieldMerger = field(default_factory=FieldMerger)

    @property
    def arguments(self) -> str:
        return join_arguments(self.pieces)

    def is_complete(self) -> bool:
        try:
            json.loads(self.arguments)
        except (ValueError, RecursionError):
            return False
        return True

    def is_after(self, arguments: str) -> bool:
        """Whether arguments cannot go on with these: what begins an object does not stand within one's beginning."""
        return bool(self.arguments) and arguments.lstrip().startswith("{")

    def add_name(self, name: str) -> None:
        """The name as a whole, again and again perhaps, or in pieces, which come before the arguments."""
        if not self.name or (name.startswith(self.name) and not self.arguments):
            self.name = name or self.name
        elif name != self.name and not self.arguments:
            self.name += name


@dataclass
class ChatAccumulator:
    """A streamed answer as it grows."""

    read = staticmethod(read_event)

    answer: AnswerText = field(default_factory=AnswerText)
    _calls: list[_CallFragments] = field(default_factory=list)
    _fields: FieldMerger = field(default_factory=FieldMerger)
    _parts: FieldMerger = field(default_factory=FieldMerger)
    _text: StreamedText = field(default_factory=StreamedText)
    _reasoning: StreamedText = field(default_factory=StreamedText)
    _reasoning_name: str = ""
    _has_message_pieces: bool = False
    _usage: Usage | None = None
    _stop_reason: str | None = None
    _has_begun: bool = False
    _cleaner: IncrementalCleaner = field(default_factory=IncrementalCleaner)
    _reasoning_cleaner: IncrementalCleaner = field(default_factory=IncrementalCleaner)

    def add(self, chunk: Mapping[str, Any]) -> Iterable[AnswerEvent]:
        """Takes in one chunk; returns what it brings to the answer, which may be nothing."""
        choices = chunk.get("choices")
        if choices is not None and not isinstance(choices, list):
            raise BadAnswer("The endpoint did not answer in the chat-completions format.")
        for place in (chunk, chunk.get("x_groq"), *(choices or ())):
            usage = _decode_usage(_get(place, "usage"))
            if usage and (usage.input_tokens or usage.output_tokens):
                self._usage = usage
                break
        if not choices:
            return ()
        self._has_begun = True
        choice = next((each for each in choices if not each.get("index")), choices[0])
        reason, message, delta = choice.get("finish_reason"), choice.get("message"), choice.get("delta")
        self._stop_reason = reason or self._stop_reason
        if isinstance(message, Mapping):
            return self._add_message(message, delta, is_last=bool(reason))
        text = choice.get("text")  # completions of text, from before there were chats
        return self._add_delta({"content": text} if isinstance(text, str) and delta is None else delta)

    def end(self) -> Iterator[AnswerEvent]:
        """What is known of the answer once all of it has come; to be read to its end."""
        if self._text.end().is_reset or self._reasoning.end().is_reset:
            yield from self._say_anew()
        yield from self.answer.end()

    def completion(self, events: EventStream) -> Completion:
        """The whole. Raises ModelUnavailable if the stream ended before the answer did, BadAnswer if it held none."""
        if self._stop_reason is None and events.is_done:  # some never say why
            self._stop_reason = "tool_calls" if self._calls else "stop"
        if self._stop_reason is None:
            if self._has_begun or events.is_silent:
                raise ModelUnavailable("The model broke off in the middle of its answer.")
            raise BadAnswer("The endpoint did not answer in the chat-completions format.")
        if failure := failure_of(self._stop_reason):
            raise failure
        calls = self.answer.all_calls(
            [
                make_call(number, call.id, call.name, call.arguments, call.fields.fields())
                for number, call in enumerate(self._calls)
            ]
        )
        reason = stop_reason_of(read_stop_reason(self._stop_reason), calls)
        fields = self._fields.fields() | self._content_field(has_calls=bool(calls))
        usage = _with_unseen_thought(self._usage, fields) if self._usage else Usage(0, 0)
        return Completion(self.answer.text, calls, usage, reason, fields, self.answer.reasoning)

    def _content_field(self, *, has_calls: bool) -> dict[str, Any]:
        """The content that goes back in place of the text alone: with parts that are no text, or with the thought that
        stands in it, which some models have to read again beside their calls."""
        if parts := self._parts.fields().get("parts"):
            return {"content": parts}
        match = _TAGGED_THOUGHT.fullmatch(self._text.text) if has_calls else None
        is_whole = match is not None and match["answer"].strip() == self.answer.text.strip()
        return {"content": self._text.text} if is_whole else {}

    def _add_message(self, message: Mapping[str, Any], delta: Any, *, is_last: bool) -> Iterator[AnswerEvent]:
        """A message where a delta is expected. Where it is the last, it is the whole, after its deltas perhaps."""
        if not is_last or self._has_message_pieces:
            has_delta = bool(extra_fields(delta, _DELTA_FIELDS)) or bool(_get(delta, "content"))
            self._has_message_pieces = self._has_message_pieces or not has_delta
            yield from self._add_delta(delta if has_delta else _with_counted_calls(message))
            return
        text = decode_text(message.get("content") or message.get("refusal") or None)
        if delta is not None and not (text and decode_text(_get(delta, "content")) == text):
            yield from self._add_delta(delta)
        self._put_calls(message)
        self._fields.put(extra_fields(message))
        self._add_parts(message.get("content"), is_whole=True)
        yield from self._gain(
            self._reasoning.add_whole(clean_text(self._read_reasoning(message)), may_go_on=delta is None),
            self._text.add_whole(text, may_go_on=delta is None),
        )

    def _add_delta(self, delta: Any) -> Iterator[AnswerEvent]:
        if delta is None:
            return
        calls = _get(delta, "tool_calls") or ()
        for fragment in calls if isinstance(calls, list) else (calls,):  # some send one where a list is wanted
            self._add_call(fragment)
        if not _get(delta, "tool_calls") and _get(delta, "function_call") is not None:
            self._add_call({"function": _get(delta, "function_call")})  # from before there could be several
        self._fields.add(extra_fields(delta))
        content = _get(delta, "content")
        self._add_parts(content)
        reasoning = self._reasoning_cleaner.clean(self._read_reasoning(delta))
        text = decode_text(content or _get(delta, "refusal") or None, self._cleaner.clean)
        yield from self._gain(self._reasoning.add(reasoning), self._text.add(text))

    def _gain(self, reasoning: Gain, text: Gain) -> Iterator[AnswerEvent]:
        """What the answer gains, or all of it anew where something is taken back."""
        if reasoning.is_reset or text.is_reset:
            yield from self._say_anew()
            return
        if reasoning.text:
            yield from self.answer.add_reasoning(reasoning.text)
        if text.text:
            yield from self.answer.add(text.text)

    def _say_anew(self) -> Iterator[AnswerEvent]:
        self.answer = AnswerText(tools=self.answer.tools)
        yield TextReset()
        yield from self.answer.add_reasoning(self._reasoning.text)
        yield from self.answer.add(self._text.text)

    def _read_reasoning(self, part: Any) -> str:
        """What a message or delta says that the model thought, of one field throughout: some say it under several."""
        texts = reasoning_texts(extra_fields(part))
        content = _get(part, "content")
        if isinstance(content, list) and (text := "".join(map(part_reasoning, content))):
            texts["content"] = text
        if not self._reasoning_name:
            self._reasoning_name = next(iter(texts), "")
        return texts.get(self._reasoning_name, "")

    def _add_parts(self, content: Any, *, is_whole: bool = False) -> None:
        """Keeps the parts of a content that are no text, in their order."""
        if not isinstance(content, list):
            return
        parts = [
            {"index": 0, **part}
            for part in content
            if isinstance(part, dict) and part.get("type", "text") not in ("text", "output_text", "refusal")
        ]
        if parts and is_whole:
            self._parts.put({"parts": parts})
        elif parts:
            self._parts.add({"parts": parts})

    def _put_calls(self, message: Mapping[str, Any]) -> None:
        """The calls of a whole message: all there are, where it has as many as have come."""
        whole = ChatAccumulator()
        fragments = _with_counted_calls(message).get("tool_calls") or ()
        for fragment in fragments:
            whole._add_call(fragment)
        if not fragments and message.get("function_call") is not None:
            whole._add_call({"function": message["function_call"]})
        if len(whole._calls) < len(self._calls):
            return
        for call, before in zip(whole._calls, self._calls, strict=False):
            call.id, call.name = call.id or before.id, call.name or before.name
            call.pieces = call.pieces if call.arguments.strip() else before.pieces
            before.fields.put(call.fields.fields())
            call.fields = before.fields
        self._calls = whole._calls

    def _add_call(self, fragment: Any) -> None:
        """A call comes in fragments: id and name once, arguments piece by piece."""
        index, call_id, function = _get(fragment, "index"), _get(fragment, "id"), _get(fragment, "function")
        if function is None and not call_id:
            return
        name = _get(function, "name") or ""
        call = self._find_call(index, call_id, name, _decode_arguments(_get(function, "arguments")))
        if call is None:
            if len(self._calls) >= MAX_CALLS:
                raise BadAnswer(f"The model called more than {MAX_CALLS:,} tools at once.")
            call = _CallFragments(index)
            self._calls.append(call)
        call.id = call.id or str(call_id or "")
        call.add_name(name)
        call.fields.add(extra_fields(fragment, _CALL_FIELDS))
        if function is not None:
            call.pieces.append(_decode_arguments(_get(function, "arguments")))
            if more := extra_fields(function, _FUNCTION_FIELDS):
                call.fields.add({"function": more})

    def _find_call(self, index: Any, call_id: Any, name: str, arguments: str) -> _CallFragments | None:
        """The call that a fragment goes on with, or None where it begins one.

        Some endpoints leave out the index or give all calls the same one, some repeat the name or the id, some tell the
        id last, and some give each fragment an id of its own, or none to any call.
        """
        calls = [call for call in self._calls if index is None or call.index == index]
        for call in calls:
            if call_id and call.id == call_id:
                return call
        if not calls:
            return None
        last = calls[-1]
        if not name:
            return last
        if call_id and last.id:
            is_another = name != last.name or last.is_complete() or is_object(arguments) or last.is_after(arguments)
        elif index is None:
            is_another = last.is_complete()
        else:
            is_said_again = name == last.name and arguments == last.arguments
            is_another = last.is_complete() and is_object(arguments) and not is_said_again
        return None if is_another else last


def _with_counted_calls(message: Mapping[str, Any]) -> dict[str, Any]:
    """The message with its calls counted, as they are in a stream."""
    calls = message.get("tool_calls")
    if not isinstance(calls, list):
        return dict(message)
    counted = [{**call, "index": index} if isinstance(call, dict) else call for index, call in enumerate(calls)]
    return {**message, "tool_calls": counted}


def _get(part: Any, name: str) -> Any:
    """A field of an object; None of what is none, though one is wanted."""
    return part.get(name) if isinstance(part, Mapping) else None


def _decode_arguments(arguments: Any) -> str:
    """JSON text as the protocol wants it; some endpoints give the object itself."""
    if arguments is None:
        return ""
    if isinstance(arguments, dict):
        return json.dumps(arguments, ensure_ascii=False)
    if not isinstance(arguments, str):
        raise BadAnswer("The model called a tool with arguments that cannot be read.")
    return arguments


def decode_text(content: Any, clean: Callable[[str], str] = clean_text) -> str:
    """The text of an answer. Some endpoints give it in parts, and what the model thought as parts of other types."""
    if content is None:
        return ""
    if isinstance(content, list):
        return "".join(decode_text(part, clean) for part in content)
    if isinstance(content, dict) and ("type" in content or "text" in content):
        is_text = content.get("type", "text") in ("text", "output_text")
        return decode_text(content.get("text"), clean) if is_text else ""
    if not isinstance(content, str):
        raise BadAnswer("The endpoint answered with something that is not text.")
    return clean(content)


def _decode_usage(usage: Any) -> Usage | None:
    if usage is None:
        return None
    input_tokens = tokens.read_count(_get(usage, "prompt_tokens")) or 0
    output_tokens = tokens.read_count(_get(usage, "completion_tokens")) or 0
    total_tokens = tokens.read_count(_get(usage, "total_tokens")) or 0
    reasoning_tokens = tokens.read_count(_get(_get(usage, "completion_tokens_details"), "reasoning_tokens"))
    if reasoning_tokens is None:
        reasoning_tokens = tokens.read_count(_get(usage, "reasoning_tokens"))
    if reasoning_tokens and total_tokens == input_tokens + output_tokens + reasoning_tokens:
        output_tokens += reasoning_tokens  # xAI counts them apart
    cached = _cached_tokens(usage, input_tokens)
    unseen = max(total_tokens - input_tokens - output_tokens, 0)
    return _ToldUsage(input_tokens, output_tokens, cached, reasoning_tokens=reasoning_tokens, unseen_tokens=unseen)


@dataclass(frozen=True)
class _ToldUsage(Usage):
    """The usage that an endpoint told, with what the total has beyond prompt and answer."""

    unseen_tokens: int = 0


def _with_unseen_thought(usage: Usage, fields: Mapping[str, Any]) -> Usage:
    """Gemini's thoughts stand in the total alone: they are part of the answer's price."""
    unseen = getattr(usage, "unseen_tokens", 0) if "extra_content" in fields else 0
    output, reasoning = usage.output_tokens + unseen, usage.reasoning_tokens
    return Usage(
        usage.input_tokens,
        output,
        usage.cached_tokens,
        reasoning_tokens=(reasoning or 0) + unseen if unseen else min(reasoning, output) if reasoning else reasoning,
    )


def _cached_tokens(usage: Any, input_tokens: int) -> int | None:
    """What the endpoint read from its cache, by OpenAI's name, DeepSeek's or Kimi's; None where it does not say."""
    details = _get(usage, "prompt_tokens_details")
    names = ("prompt_cache_hit_tokens", "cached_tokens")
    for value in (_get(details, "cached_tokens"), *(_get(usage, name) for name in names)):
        if (cached := tokens.read_count(value)) is not None:
            return min(input_tokens, cached)
    return None
