"""Any endpoint that speaks the chat-completions protocol, through the official `openai` package.

The package's own retries, environment variables and redirects are off: this module decides when to try again
(only before the first piece of text), how long a call may take, and where it may connect. Endpoints differ in what
they leave out, so answers are read leniently: what is missing is taken as absent, and only what cannot be an answer
at all is refused. Some stream though they were not asked to, some do not though they were: there is one way to read
both.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import openai

from openvibe.llm import tokens
from openvibe.llm.endpoint_errors import empty_answer_error, no_answer_error
from openvibe.llm.errors import BadAnswer, EmptyAnswer, ModelError, ModelUnavailable
from openvibe.llm.event_stream import Event, EventStream
from openvibe.llm.fences import IncrementalCleaner, clean_text
from openvibe.llm.http_client import Connection, ResponseHead
from openvibe.llm.openai_sdk import (
    SDK_ERRORS,
    open_client,
    other_output_limit_name,
    refuses_stream_options,
    to_model_error,
)
from openvibe.llm.protocol import ModelStream
from openvibe.llm.retries import Retries, RetryPolicy
from openvibe.llm.special_tokens import break_in_messages, break_in_tools, may_read_special_tokens
from openvibe.llm.thoughts import AnswerText
from openvibe.llm.tool_calls import arguments_object, check_arguments, clean_identifier
from openvibe.llm.values import (
    ChatMessage,
    Completion,
    StreamEnd,
    TextDelta,
    TextReset,
    ToolCallRequest,
    ToolSpec,
    Usage,
)

MAX_CALLS = 1_000
"""Calls of one answer that are read."""


class OpenAIModel:
    """A ModelClient for one endpoint. Opens a connection per call and keeps none."""

    def __init__(
        self, connection: Connection, *, model: str, retry_policy: RetryPolicy | None = None, is_free: bool = False
    ) -> None:
        self.model, self.is_free = model, is_free
        self._connection = connection
        self._retry_policy = retry_policy or RetryPolicy()
        official = (urlsplit(connection.base_url).hostname or "").endswith("openai.com")
        self._limit_name = "max_completion_tokens" if official else "max_tokens"
        self._breaks_special_tokens = may_read_special_tokens(connection.base_url)
        self._asks_for_usage = True

    def complete(
        self, messages: Sequence[ChatMessage], *, tools: Sequence[ToolSpec] = (), max_output_tokens: int | None = None
    ) -> Completion:
        retries = _Retries(self)
        while True:
            try:
                request = self._build_request(messages, tools, max_output_tokens)
                *_, end = self._read(request | {"extra_body": {"stream": False}}, retries, retries.remaining_seconds())
                assert isinstance(end, StreamEnd)
                return self._with_usage(end.completion, messages, tools)
            except ModelError as error:
                retries.wait_or_raise(error)

    def stream(
        self, messages: Sequence[ChatMessage], *, tools: Sequence[ToolSpec] = (), max_output_tokens: int | None = None
    ) -> ModelStream:
        retries = _Retries(self)
        while True:
            has_text = False
            try:
                request = self._build_request(messages, tools, max_output_tokens)
                if self._asks_for_usage:
                    request["stream_options"] = {"include_usage": True}
                with closing(self._read(request, retries, retries.first_answer_seconds())) as pieces:
                    for piece in pieces:
                        if isinstance(piece, StreamEnd):
                            piece = StreamEnd(self._with_usage(piece.completion, messages, tools))
                        has_text = True
                        yield piece
                return
            except ModelError as error:
                if has_text:
                    raise
                retries.wait_or_raise(error)
                yield TextReset()

    def list_models(self) -> list[str]:
        """The names of the models that the endpoint offers. Raises ModelError."""
        retries = _Retries(self)
        with self._connect(retries, retries.first_answer_seconds()) as sdk:
            return [_decode_text(model.id) for model in sdk.models.list().data]

    def _read(self, request: dict[str, Any], retries: _Retries, read_timeout: float) -> ModelStream:
        """One call: the pieces of its answer, then the whole, without usage where the endpoint reports none."""
        events, accumulator = EventStream(_adapt_event), _StreamAccumulator()
        with self._connect(retries, read_timeout, events) as sdk:
            for chunk in sdk.chat.completions.create(**request, stream=True):
                yield from accumulator.add(chunk)
            yield from accumulator.answer.end()
            completion = accumulator.completion(events)
        yield StreamEnd(completion)

    @contextmanager
    def _connect(
        self, retries: _Retries, read_timeout: float, events: EventStream | None = None
    ) -> Iterator[openai.OpenAI]:
        """The official client over a guarded connection; whatever goes wrong inside leaves as a ModelError."""
        head, key = ResponseHead(), self._connection.api_key
        try:
            with open_client(
                self._connection, read_timeout=read_timeout, total_seconds=retries.remaining_seconds(), events=events
            ) as (sdk, head):
                yield sdk
        except SDK_ERRORS as error:
            retries.output_limit_name = other_output_limit_name(error)
            retries.refuses_usage = self._asks_for_usage and refuses_stream_options(error)
            raise to_model_error(error, key=key, head=head) from None
        except EmptyAnswer:
            raise
        except BadAnswer as error:
            raise no_answer_error(head, key, error) from None

    def _build_request(
        self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpec], max_output_tokens: int | None
    ) -> dict[str, Any]:
        if self._breaks_special_tokens:
            messages, tools = break_in_messages(messages), break_in_tools(tools)
        request: dict[str, Any] = {"model": self.model, "messages": _encode_messages(messages)}
        if tools:
            request["tools"] = [
                {
                    "type": "function",
                    "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters},
                }
                for tool in tools
            ]
        if max_output_tokens is not None:
            request[self._limit_name] = max_output_tokens
        return request

    def _with_usage(
        self, completion: Completion, messages: Sequence[ChatMessage], tools: Sequence[ToolSpec]
    ) -> Completion:
        """The completion with its usage counted here where the endpoint reported none. Raises EmptyAnswer if empty."""
        empty = empty_answer_error(completion.text, completion.stop_reason)
        if empty and not completion.tool_calls:
            raise empty
        return tokens.with_usage(completion, self.model, messages, tools)


class _Retries(Retries):
    """Besides, the call is made once more in the way the endpoint asks for."""

    def __init__(self, client: OpenAIModel) -> None:
        super().__init__(client._retry_policy)
        self._client = client
        self.output_limit_name: str | None = None  # what the endpoint wants the output limit to be called
        self.refuses_usage = False  # it streams, and cannot be asked for what was used

    def wait_or_raise(self, error: ModelError) -> None:
        if self.refuses_usage:
            self._client._asks_for_usage = self.refuses_usage = False
            return
        if self.output_limit_name and self.output_limit_name != self._client._limit_name and not self._attempts:
            self._client._limit_name = self.output_limit_name
            self._attempts += 1
            return
        super().wait_or_raise(error)


def _encode_messages(messages: Sequence[ChatMessage]) -> list[dict[str, Any]]:
    """Neighbours of one role as one message: the templates of many open models want people and model by turns."""
    encoded: list[dict[str, Any]] = []
    for message in map(_encode_message, messages):
        before = encoded[-1] if encoded else {}
        is_answer = message["role"] == "tool" or "tool_calls" in before
        if is_answer or before.get("role") != message["role"]:
            encoded.append(message)
        else:
            gap = "" if before["content"].endswith("\n") else "\n\n"
            encoded[-1] = before | message | {"content": f"{before['content']}{gap}{message['content']}"}
    return encoded


def _encode_message(message: ChatMessage) -> dict[str, Any]:
    """One message as the protocol writes it, without control characters or lone surrogates."""
    encoded_message: dict[str, Any] = {"role": message.role, "content": clean_text(message.content)}
    if message.tool_calls:
        encoded_message["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": clean_identifier(call.name), "arguments": _encode_arguments(call.arguments)},
            }
            for call in message.tool_calls
        ]
    if message.tool_call_id is not None:
        encoded_message["tool_call_id"] = message.tool_call_id
    return encoded_message


def _encode_arguments(arguments: str) -> str:
    """Word for word where they are an object: llama.cpp and vLLM read what they are given back."""
    text = clean_text(arguments)
    value = arguments_object(text)
    return text if "malformed" not in value else json.dumps(value, ensure_ascii=False)


def _adapt_event(event: Event) -> Event:
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
class _StreamAccumulator:
    """A streamed answer as it grows."""

    answer: AnswerText = field(default_factory=AnswerText)
    _calls: list[_CallFragments] = field(default_factory=list)
    _usage: Usage | None = None
    _stop_reason: str | None = None
    _has_begun: bool = False
    _cleaner: IncrementalCleaner = field(default_factory=IncrementalCleaner)

    def add(self, chunk: Any) -> Iterable[TextDelta | TextReset]:
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
        text = _decode_text(delta.content or delta.refusal or None, self._cleaner.clean)
        return self.answer.add(text)

    def completion(self, events: EventStream) -> Completion:
        """The whole. Raises ModelUnavailable if the stream ended before the answer did, BadAnswer if it held none."""
        if self._stop_reason is None and events.is_done:  # some never say why
            self._stop_reason = "tool_calls" if self._calls else "stop"
        if self._stop_reason is None:
            if self._has_begun or events.is_silent:
                raise ModelUnavailable("The model broke off in the middle of its answer.")
            raise BadAnswer("The endpoint did not answer in the chat-completions format.")
        calls = tuple(_tool_call(number, call.id, call.name, call.arguments) for number, call in enumerate(self._calls))
        return Completion(self.answer.text, calls, self._usage or Usage(0, 0), clean_text(str(self._stop_reason))[:40])

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


def _decode_text(content: Any, clean: Callable[[str], str] = clean_text) -> str:
    """The text of an answer. Some endpoints give it in parts, and what the model thought as parts of other types."""
    if content is None:
        return ""
    if isinstance(content, list):
        return "".join(_decode_text(part, clean) for part in content)
    if isinstance(content, dict) and ("type" in content or "text" in content):
        is_text = content.get("type", "text") in ("text", "output_text")
        return _decode_text(content.get("text"), clean) if is_text else ""
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
