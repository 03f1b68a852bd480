"""The chat-completions protocol: our values into its JSON, its answers into our values.

Endpoints differ in what they leave out, so answers are read leniently: what is missing is taken as absent, and
only what cannot be an answer at all is refused.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from openvibe.llm.errors import BadAnswer, ModelUnavailable
from openvibe.llm.fences import clean_text
from openvibe.llm.values import ChatMessage, Completion, ToolCallRequest, ToolSpec, Usage


def encode_message(value: ChatMessage) -> dict[str, Any]:
    """One message as the protocol writes it, without control characters or lone surrogates."""
    encoded: dict[str, Any] = {"role": value.role, "content": clean_text(value.content)}
    if value.tool_calls:
        encoded["tool_calls"] = [
            {"id": c.id, "type": "function", "function": {"name": c.name, "arguments": clean_text(c.arguments)}}
            for c in value.tool_calls
        ]
    if value.tool_call_id is not None:
        encoded["tool_call_id"] = value.tool_call_id
    return encoded


def encode_tool(value: ToolSpec) -> dict[str, Any]:
    """One tool as the protocol writes it."""
    function = {"name": value.name, "description": value.description, "parameters": value.parameters}
    return {"type": "function", "function": function}


def decode_completion(response: Any) -> Completion:
    """An unstreamed answer. Raises BadAnswer if it is not one."""
    choices = getattr(response, "choices", None)
    if not isinstance(choices, list) or not choices:
        raise BadAnswer("The endpoint did not answer in the chat-completions format.")
    answer = choices[0].message
    calls = tuple(
        ToolCallRequest(
            str(call.id or f"call_{index}"), _tool_name(call.function.name), _arguments(call.function.arguments)
        )
        for index, call in enumerate(answer.tool_calls or ())
    )
    return Completion(
        text=_text(answer.content),
        tool_calls=calls,
        usage=_usage(response.usage) or Usage(0, 0),
        stop_reason=clean_text(str(choices[0].finish_reason or "stop"))[:40],
    )


@dataclass
class StreamAccumulator:
    """A streamed answer as it grows."""

    _pieces: list[str] = field(default_factory=list)
    _calls: dict[int, dict[str, str]] = field(default_factory=dict)
    _usage: Usage | None = None
    _stop_reason: str | None = None

    def add(self, chunk: Any) -> str:
        """Take in one chunk; the text it brings, which may be empty."""
        self._usage = _usage(getattr(chunk, "usage", None)) or self._usage
        choices = getattr(chunk, "choices", None)
        if choices is not None and not isinstance(choices, list):
            raise BadAnswer("The endpoint did not answer in the chat-completions format.")
        if not choices:
            return ""
        self._stop_reason = choices[0].finish_reason or self._stop_reason
        delta = choices[0].delta
        for fragment in (delta.tool_calls if delta else None) or ():
            self._add_call(fragment)
        text = _text(delta.content if delta else None)
        self._pieces.append(text)
        return text

    def completion(self) -> Completion:
        """The whole. Raises ModelUnavailable if the stream ended before the answer did, BadAnswer if it held none."""
        text = "".join(self._pieces)
        if self._stop_reason is None:
            if text or self._calls:
                raise ModelUnavailable("The model broke off in the middle of its answer.")
            raise BadAnswer("The model answered nothing.")
        calls = tuple(
            ToolCallRequest(call["id"] or f"call_{index}", _tool_name(call["name"]), _arguments(call["arguments"]))
            for index, call in sorted(self._calls.items())
        )
        return Completion(text, calls, self._usage or Usage(0, 0), clean_text(str(self._stop_reason))[:40])

    def _add_call(self, fragment: Any) -> None:
        """A call comes in fragments: id and name once, arguments piece by piece. Some endpoints leave out the index."""
        index = fragment.index
        if index is None:
            last = max(self._calls, default=-1)
            index = last + 1 if fragment.id or last < 0 else last
        call = self._calls.setdefault(int(index), {"id": "", "name": "", "arguments": ""})
        call["id"] = call["id"] or str(fragment.id or "")
        if fragment.function is not None:
            call["name"] = call["name"] or fragment.function.name or ""
            call["arguments"] += fragment.function.arguments or ""


def _text(content: Any) -> str:
    if content is None:
        return ""
    if not isinstance(content, str):
        raise BadAnswer("The endpoint answered with something that is not text.")
    return clean_text(content)


def _arguments(value: Any) -> str:
    return clean_text(value) if isinstance(value, str) and value.strip() else "{}"


def _usage(value: Any) -> Usage | None:
    if value is None:
        return None
    details = getattr(value, "prompt_tokens_details", None)
    input_tokens = _token_count(getattr(value, "prompt_tokens", 0))
    return Usage(
        input_tokens=input_tokens,
        output_tokens=_token_count(getattr(value, "completion_tokens", 0)),
        cached_tokens=min(input_tokens, _token_count(getattr(details, "cached_tokens", 0))),
    )


def _token_count(value: Any) -> int:
    """A count of tokens; what is none, or absurd, counts as not told."""
    return value if isinstance(value, int) and 0 <= value < 1_000_000_000 else 0


def _tool_name(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise BadAnswer("The model called a tool without naming it.")
    return clean_text(value)[:200]
