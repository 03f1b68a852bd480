"""Answers in the chat-completions protocol, read leniently as they come in. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from openvibe.llm import tokens
from openvibe.llm.errors import BadAnswer, ModelUnavailable
from openvibe.llm.event_stream import Event, EventStream
from openvibe.llm.fences import IncrementalCleaner, clean_text
from openvibe.llm.thoughts import AnswerEvent, AnswerText
from openvibe.llm.tool_calls import check_arguments, stop_reason_of
from openvibe.llm.values import Completion, ToolCallRequest, Usage

MAX_CALLS = 1_000
"""Calls of one answer that are read."""


def adapt_event(event: Event) -> Event:
    """A whole message as the delta, and an error in the place, where the official package looks for them."""
    if event.name != "error" and '"message"' not in event.data:
        return event
    try:
        chunk = json.loads(event.data)
    except (ValueError, RecursionError):
        return event
    if not isinstance(chunk, dict) or chunk.get("error"):
        return event
    choices = chunk.get("choices")
    choices = [each for each in choices if isinstance(each, dict)] if isinstance(choices, list) else []
    is_error = event.name == "error" or chunk.get("object") == "error"
    if error := chunk if is_error else next((each["error"] for each in choices if each.get("error")), None):
        return Event(json.dumps({"error": error}))
    for choice in choices:
        if isinstance(choice.get("message"), dict) and choice.get("delta") is None:
            choice["delta"] = _whole_delta(choice["message"])
            if chunk.get("object") != "chat.completion.chunk":
                choice["finish_reason"] = choice.get("finish_reason") or "stop"
    return Event(json.dumps(chunk), event.name)


def _whole_delta(message: dict[str, Any]) -> dict[str, Any]:
    """The message with its calls counted, as they are in a stream."""
    calls = message.get("tool_calls")
    if not isinstance(calls, list):
        return message
    return message | {
        "tool_calls": [call | {"index": index} if isinstance(call, dict) else call for index, call in enumerate(calls)]
    }


@dataclass
class _CallFragments:
    """A streamed call as it grows. `index` is what the endpoint counts it by, if it does."""

    index: Any
    id: str = ""
    name: str = ""
    pieces: list[str] = field(default_factory=list)

    @property
    def arguments(self) -> str:
        return "".join(self.pieces)

    def is_complete(self) -> bool:
        try:
            json.loads(self.arguments)
        except (ValueError, RecursionError):
            return False
        return True


@dataclass
class ChatAccumulator:
    """A streamed answer as it grows."""

    answer: AnswerText = field(default_factory=AnswerText)
    _calls: list[_CallFragments] = field(default_factory=list)
    _usage: Usage | None = None
    _stop_reason: str | None = None
    _has_begun: bool = False
    _cleaner: IncrementalCleaner = field(default_factory=IncrementalCleaner)

    def add(self, chunk: Any) -> Iterable[AnswerEvent]:
        """Take in one chunk; what it brings to the text, which may be nothing."""
        usage = _decode_usage(getattr(chunk, "usage", None))
        if usage and (usage.input_tokens or usage.output_tokens):
            self._usage = usage
        choices = getattr(chunk, "choices", None)
        if choices is not None and not isinstance(choices, list):
            raise BadAnswer("The endpoint did not answer in the chat-completions format.")
        if not choices:
            return ()
        self._has_begun = True
        self._stop_reason = choices[0].finish_reason or self._stop_reason
        delta = choices[0].delta
        if delta is None:
            return ()
        for fragment in delta.tool_calls or ():
            self._add_call(fragment.index, fragment.id, fragment.function)
        if not delta.tool_calls:
            self._add_call(None, None, delta.function_call)  # from before there could be several
        text = decode_text(delta.content or delta.refusal or None, self._cleaner.clean)
        return self.answer.add(text)

    def completion(self, events: EventStream) -> Completion:
        """The whole. Raises ModelUnavailable if the stream ended before the answer did, BadAnswer if it held none."""
        if self._stop_reason is None and events.is_done:  # some never say why
            self._stop_reason = "tool_calls" if self._calls else "stop"
        if self._stop_reason is None:
            if self._has_begun or events.is_silent:
                raise ModelUnavailable("The model broke off in the middle of its answer.")
            raise BadAnswer("The endpoint did not answer in the chat-completions format.")
        calls = self.answer.all_calls(
            [_tool_call(number, call.id, call.name, call.arguments) for number, call in enumerate(self._calls)]
        )
        reason = stop_reason_of(clean_text(str(self._stop_reason))[:40], calls)
        usage = self._usage or Usage(0, 0)
        return Completion(self.answer.text, calls, usage, reason, reasoning=self.answer.reasoning)

    def _add_call(self, index: Any, call_id: Any, function: Any) -> None:
        """A call comes in fragments: id and name once, arguments piece by piece."""
        if function is None and not call_id:
            return
        name = (function.name if function is not None else None) or ""
        call = self._find_call(index, call_id, name)
        if call is None:
            if len(self._calls) >= MAX_CALLS:
                raise BadAnswer(f"The model called more than {MAX_CALLS:,} tools at once.")
            call = _CallFragments(index)
            self._calls.append(call)
        call.id = call.id or str(call_id or "")
        call.name = call.name or name
        if function is not None:
            call.pieces.append(_decode_arguments(function.arguments))

    def _find_call(self, index: Any, call_id: Any, name: str) -> _CallFragments | None:
        """The call that a fragment goes on with, or None where it begins one.

        Some endpoints leave out the index or give all calls the same one, some repeat the name or the id, and some
        tell the id last.
        """
        calls = [call for call in self._calls if index is None or call.index == index]
        for call in calls:
            if call_id and call.id == call_id:
                return call
        if not calls:
            return None
        last = calls[-1]
        is_another = name and ((call_id and last.id) or (index is None and last.is_complete()))
        return None if is_another else last


def _tool_call(index: int, call_id: Any, name: Any, arguments: Any) -> ToolCallRequest:
    """Without an id it gets one, without arguments none. Raises BadAnswer for a call without a name."""
    if not isinstance(name, str) or not name:
        raise BadAnswer("The model called a tool without naming it.")
    arguments = clean_text(check_arguments(_decode_arguments(arguments)))
    return ToolCallRequest(
        str(call_id or f"call_{index}"), clean_text(name)[:200], arguments if arguments.strip() else "{}"
    )


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
    input_tokens = tokens.read_count(getattr(usage, "prompt_tokens", None)) or 0
    output_tokens = tokens.read_count(getattr(usage, "completion_tokens", None)) or 0
    return Usage(input_tokens, output_tokens, _cached_tokens(usage, input_tokens))


def _cached_tokens(usage: Any, input_tokens: int) -> int | None:
    """What the endpoint read from its cache, by OpenAI's name, else by DeepSeek's; None where it does not say."""
    details = getattr(usage, "prompt_tokens_details", None)
    for value in (getattr(details, "cached_tokens", None), getattr(usage, "prompt_cache_hit_tokens", None)):
        if (cached := tokens.read_count(value)) is not None:
            return min(input_tokens, cached)
    return None
