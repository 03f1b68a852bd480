"""Any endpoint that speaks the chat-completions protocol, through the official `openai` package.

The package's own retries, environment variables and redirects are off: this module decides when to try again
(only before the first piece of text), how long a call may take, and where it may connect. Endpoints differ in what
they leave out, so answers are read leniently: what is missing is taken as absent, and only what cannot be an answer
at all is refused. Some stream though they were not asked to, some do not though they were: there is one way to read
both.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

import openai

from openvibe.llm import tokens
from openvibe.llm.endpoint_errors import empty_answer_error, no_answer_error
from openvibe.llm.errors import BadAnswer, EmptyAnswer, ModelError
from openvibe.llm.event_stream import EventStream
from openvibe.llm.http_client import Connection, ResponseHead
from openvibe.llm.openai_answers import ChatAccumulator, adapt_event
from openvibe.llm.openai_requests import encode_messages
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
from openvibe.llm.values import (
    NO_OPTIONS,
    CallNotice,
    CallOptions,
    ChatMessage,
    Completion,
    StreamEnd,
    TextReset,
    ToolSpec,
)


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
        self,
        messages: Sequence[ChatMessage],
        *,
        tools: Sequence[ToolSpec] = (),
        max_output_tokens: int | None = None,
        options: CallOptions = NO_OPTIONS,
    ) -> Completion:
        retries, notices = _Retries(self), ()
        while True:
            try:
                request = self._build_request(messages, tools, max_output_tokens)
                *_, end = self._read(request | {"extra_body": {"stream": False}}, retries, retries.remaining_seconds())
                assert isinstance(end, StreamEnd)
                return _with_notices(self._with_usage(end.completion, messages, tools), notices)
            except ModelError as error:
                notices += retries.notices(error)
                retries.wait_or_raise(error)

    def stream(
        self,
        messages: Sequence[ChatMessage],
        *,
        tools: Sequence[ToolSpec] = (),
        max_output_tokens: int | None = None,
        options: CallOptions = NO_OPTIONS,
    ) -> ModelStream:
        retries, notices = _Retries(self), ()
        while True:
            has_text = False
            try:
                request = self._build_request(messages, tools, max_output_tokens)
                if self._asks_for_usage:
                    request["stream_options"] = {"include_usage": True}
                with closing(self._read(request, retries, retries.first_answer_seconds())) as pieces:
                    for piece in pieces:
                        if isinstance(piece, StreamEnd):
                            completion = self._with_usage(piece.completion, messages, tools)
                            piece = StreamEnd(_with_notices(completion, notices))
                        has_text = True
                        yield piece
                return
            except ModelError as error:
                if has_text:
                    raise
                notices += (more := retries.notices(error))
                yield from more
                retries.wait_or_raise(error)
                yield TextReset()

    def _read(self, request: dict[str, Any], retries: _Retries, read_timeout: float) -> ModelStream:
        """One call: the pieces of its answer, then the whole, without usage where the endpoint reports none."""
        events, accumulator = EventStream(adapt_event), ChatAccumulator()
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
            raise retries.with_limit(to_model_error(error, key=key, head=head)) from None
        except EmptyAnswer:
            raise
        except BadAnswer as error:
            raise no_answer_error(head, key, error) from None

    def _build_request(
        self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpec], max_output_tokens: int | None
    ) -> dict[str, Any]:
        if self._breaks_special_tokens:
            messages, tools = break_in_messages(messages), break_in_tools(tools)
        request: dict[str, Any] = {"model": self.model, "messages": encode_messages(messages)}
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


def _with_notices(completion: Completion, notices: tuple[CallNotice, ...]) -> Completion:
    return replace(completion, notices=(*notices, *completion.notices)) if notices else completion


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
