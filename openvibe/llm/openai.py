"""Any endpoint that speaks the chat-completions protocol, through the official `openai` package.

The package's own retries, environment variables and redirects are off: this module decides when to try again
(only before the first piece of text), how long a call may take, and where it may connect. Endpoints differ in what
they leave out, so answers are read leniently: what is missing is taken as absent, and only what cannot be an answer
at all is refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeGuard
from urllib.parse import urlsplit

import openai

from openvibe.llm import tokens
from openvibe.llm.endpoint_errors import empty_answer_error, no_answer_error
from openvibe.llm.errors import BadAnswer, EmptyAnswer, ModelError, ModelUnavailable
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
from openvibe.llm.values import ChatMessage, Completion, StreamEnd, TextDelta, ToolCallRequest, ToolSpec, Usage

_DONE = re.compile(rb"[\r\n]data: ?\[DONE\]")


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
        self._asks_for_usage = True

    def complete(
        self, messages: Sequence[ChatMessage], *, tools: Sequence[ToolSpec] = (), max_output_tokens: int | None = None
    ) -> Completion:
        retries = _Retries(self)
        while True:
            try:
                with self._connect(retries, retries.remaining_seconds()) as (sdk, _):
                    response = sdk.chat.completions.create(**self._build_request(messages, tools, max_output_tokens))
                    return self._with_usage(_decode_completion(response), messages, tools)
            except ModelError as error:
                retries.wait_or_raise(error)

    def stream(
        self, messages: Sequence[ChatMessage], *, tools: Sequence[ToolSpec] = (), max_output_tokens: int | None = None
    ) -> ModelStream:
        retries = _Retries(self)
        while True:
            has_text = False
            try:
                with self._connect(retries, retries.first_answer_seconds()) as (sdk, head):
                    request = self._build_request(messages, tools, max_output_tokens)
                    request["stream"] = True
                    if self._asks_for_usage:
                        request["stream_options"] = {"include_usage": True}
                    accumulator = _StreamAccumulator()
                    for chunk in sdk.chat.completions.create(**request):
                        if text := accumulator.add(chunk):
                            has_text = True
                            yield TextDelta(text)
                    is_done = _DONE.search(head.tail) is not None
                    completion = self._with_usage(accumulator.completion(is_done=is_done), messages, tools)
                yield StreamEnd(completion)
                return
            except ModelError as error:
                if has_text:
                    raise
                retries.wait_or_raise(error)

    def list_models(self) -> list[str]:
        """The names of the models that the endpoint offers. Raises ModelError."""
        retries = _Retries(self)
        with self._connect(retries, retries.first_answer_seconds()) as (sdk, _):
            return [_decode_text(model.id) for model in sdk.models.list().data]

    @contextmanager
    def _connect(self, retries: _Retries, read_timeout: float) -> Iterator[tuple[openai.OpenAI, ResponseHead]]:
        """The official client over a guarded connection, and the head of what it is answered; whatever goes wrong
        inside leaves as a ModelError."""
        head, key = ResponseHead(), self._connection.api_key
        try:
            with open_client(
                self._connection, read_timeout=read_timeout, total_seconds=retries.remaining_seconds()
            ) as (sdk, head):
                yield sdk, head
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
        request: dict[str, Any] = {"model": self.model, "messages": [_encode_message(each) for each in messages]}
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


def _encode_message(message: ChatMessage) -> dict[str, Any]:
    """One message as the protocol writes it, without control characters or lone surrogates."""
    encoded_message: dict[str, Any] = {"role": message.role, "content": clean_text(message.content)}
    if message.tool_calls:
        encoded_message["tool_calls"] = [
            {"id": c.id, "type": "function", "function": {"name": c.name, "arguments": clean_text(c.arguments)}}
            for c in message.tool_calls
        ]
    if message.tool_call_id is not None:
        encoded_message["tool_call_id"] = message.tool_call_id
    return encoded_message


def _decode_completion(response: Any) -> Completion:
    """An unstreamed answer. Raises BadAnswer if it is not one."""
    choices = getattr(response, "choices", None)
    if not isinstance(choices, list) or not choices:
        raise BadAnswer("The endpoint did not answer in the chat-completions format.")
    answer = choices[0].message
    calls = tuple(
        _tool_call(index, call.id, call.function.name, call.function.arguments)
        for index, call in enumerate(answer.tool_calls or ())
    )
    stop_reason = clean_text(str(choices[0].finish_reason or "stop"))[:40]
    return Completion(_decode_text(answer.content), calls, _decode_usage(response.usage) or Usage(0, 0), stop_reason)


@dataclass
class _CallFragments:
    """A streamed call as it grows. `index` is what the endpoint counts it by, if it does."""

    index: Any
    id: str = ""
    name: str = ""
    arguments: str = ""

    def is_complete(self) -> bool:
        try:
            json.loads(self.arguments)
        except (ValueError, RecursionError):
            return False
        return True


@dataclass
class _StreamAccumulator:
    """A streamed answer as it grows."""

    _pieces: list[str] = field(default_factory=list)
    _calls: list[_CallFragments] = field(default_factory=list)
    _usage: Usage | None = None
    _stop_reason: str | None = None
    _cleaner: IncrementalCleaner = field(default_factory=IncrementalCleaner)

    def add(self, chunk: Any) -> str:
        """Take in one chunk; the text it brings, which may be empty."""
        self._usage = _decode_usage(getattr(chunk, "usage", None)) or self._usage
        choices = getattr(chunk, "choices", None)
        if choices is not None and not isinstance(choices, list):
            raise BadAnswer("The endpoint did not answer in the chat-completions format.")
        if not choices:
            return ""
        self._stop_reason = choices[0].finish_reason or self._stop_reason
        delta = choices[0].delta
        for fragment in (delta.tool_calls if delta else None) or ():
            self._add_call(fragment)
        text = _decode_text(delta.content if delta else None, self._cleaner.clean)
        self._pieces.append(text)
        return text

    def completion(self, *, is_done: bool) -> Completion:
        """The whole. Raises ModelUnavailable if the stream ended before the answer did, BadAnswer if it held none.

        `is_done`: the endpoint said that this is all. Some never say why.
        """
        text = "".join(self._pieces)
        if self._stop_reason is None and is_done and (text or self._calls):
            self._stop_reason = "tool_calls" if self._calls else "stop"
        if self._stop_reason is None:
            if text or self._calls:
                raise ModelUnavailable("The model broke off in the middle of its answer.")
            raise BadAnswer("The model answered nothing.")
        calls = tuple(_tool_call(number, call.id, call.name, call.arguments) for number, call in enumerate(self._calls))
        return Completion(text, calls, self._usage or Usage(0, 0), clean_text(str(self._stop_reason))[:40])

    def _add_call(self, fragment: Any) -> None:
        """A call comes in fragments: id and name once, arguments piece by piece."""
        name = (fragment.function.name if fragment.function is not None else None) or ""
        call = self._find_call(fragment.index, fragment.id, name)
        if call is None:
            call = _CallFragments(fragment.index)
            self._calls.append(call)
        call.id = call.id or str(fragment.id or "")
        call.name = call.name or name
        if fragment.function is not None:
            call.arguments += _decode_arguments(fragment.function.arguments)

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
        is_another = (call_id and last.id) or (index is None and last.is_complete())
        return None if name and is_another else last


def _tool_call(index: int, call_id: Any, name: Any, arguments: Any) -> ToolCallRequest:
    """Without an id it gets one, without arguments none. Raises BadAnswer for a call without a name."""
    if not isinstance(name, str) or not name:
        raise BadAnswer("The model called a tool without naming it.")
    arguments = clean_text(_decode_arguments(arguments))
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
        return "".join(_decode_text(part["text"], clean) for part in content if part["type"] == "text")
    if not isinstance(content, str):
        raise BadAnswer("The endpoint answered with something that is not text.")
    return clean(content)


def _decode_usage(usage: Any) -> Usage | None:
    if usage is None:
        return None
    input_tokens = _token_count(getattr(usage, "prompt_tokens", 0))
    output_tokens = _token_count(getattr(usage, "completion_tokens", 0))
    return Usage(input_tokens, output_tokens, _cached_tokens(usage, input_tokens))


def _cached_tokens(usage: Any, input_tokens: int) -> int | None:
    """What the endpoint read from its cache, by OpenAI's name, else by DeepSeek's; None where it does not say."""
    details = getattr(usage, "prompt_tokens_details", None)
    for value in (getattr(details, "cached_tokens", None), getattr(usage, "prompt_cache_hit_tokens", None)):
        if _is_token_count(value):
            return min(input_tokens, value)
    return None


def _token_count(value: Any) -> int:
    """A count of tokens; one that is none, or absurd, counts as not reported."""
    return value if _is_token_count(value) else 0


def _is_token_count(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and 0 <= value < 1_000_000_000
