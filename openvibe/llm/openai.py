"""Any endpoint that speaks the chat-completions protocol, through the official `openai` package.

The package's own retries, environment variables and redirects are off: this module decides when to try again
(only before the first piece of text), how long a call may take, and where it may connect.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit

import openai

from openvibe.llm import chat_completions as wire
from openvibe.llm import tokens
from openvibe.llm.errors import EmptyAnswer, ModelError, ModelTimeout, RateLimited
from openvibe.llm.openai_sdk import SDK_ERRORS, open_client, other_output_limit_name, to_model_error
from openvibe.llm.protocol import ModelStream
from openvibe.llm.ssrf_guard import NameResolver, resolve_name
from openvibe.llm.values import ChatMessage, Completion, StreamEnd, TextDelta, ToolSpec, Usage

_MAX_RETRY_PAUSE = 30.0  # seconds; an endpoint that asks for more is not waited for


@dataclass(frozen=True)
class CallLimits:
    """How patient a client is. All times in seconds."""

    first_answer_seconds: float = 60
    total_seconds: float = 300
    attempts: int = 3
    first_pause: float = 0.5


class OpenAIModel:
    """A ModelClient for one endpoint. Opens a connection per call and keeps none.

    `sleep`, `clock`, `jitter` and `resolve` are there to be replaced in tests.
    """

    def __init__(
        self,
        *,
        base_url: str,
        api_key: str,
        model: str,
        limits: CallLimits | None = None,
        allow_private: bool = False,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
        jitter: Callable[[], float] = random.random,
        resolve: NameResolver = resolve_name,
    ) -> None:
        self.model = model
        self._base_url = base_url
        self._api_key = api_key
        self._limits = limits or CallLimits()
        self._allow_private = allow_private
        self._sleep, self._clock, self._jitter, self._resolve = sleep, clock, jitter, resolve
        official = (urlsplit(base_url).hostname or "").endswith("openai.com")
        self._limit_name = "max_completion_tokens" if official else "max_tokens"

    def complete(
        self, messages: Sequence[ChatMessage], *, tools: Sequence[ToolSpec] = (), max_output_tokens: int | None = None
    ) -> Completion:
        retries = _RetryState(self)
        while True:
            try:
                with self._open_client(retries, read_timeout=retries.remaining_seconds()) as sdk:
                    request = self._build_request(messages, tools, max_output_tokens)
                    response = sdk.chat.completions.create(**request)
                    return self._with_usage(wire.decode_completion(response), messages, tools)
            except ModelError as error:
                retries.wait_or_raise(error)

    def stream(
        self, messages: Sequence[ChatMessage], *, tools: Sequence[ToolSpec] = (), max_output_tokens: int | None = None
    ) -> ModelStream:
        retries = _RetryState(self)
        while True:
            has_text = False
            try:
                read_timeout = min(self._limits.first_answer_seconds, retries.remaining_seconds())
                with self._open_client(retries, read_timeout=read_timeout) as sdk:
                    request = self._build_request(messages, tools, max_output_tokens)
                    request |= {"stream": True, "stream_options": {"include_usage": True}}
                    accumulator = wire.StreamAccumulator()
                    for chunk in sdk.chat.completions.create(**request):
                        if text := accumulator.add(chunk):
                            has_text = True
                            yield TextDelta(text)
                    completion = self._with_usage(accumulator.completion(), messages, tools)
                yield StreamEnd(completion)
                return
            except ModelError as error:
                if has_text:
                    raise
                retries.wait_or_raise(error)

    @contextmanager
    def _open_client(self, retries: _RetryState, *, read_timeout: float) -> Iterator[openai.OpenAI]:
        """The official client over a guarded connection; whatever goes wrong inside leaves as a ModelError."""
        try:
            with open_client(
                base_url=self._base_url,
                api_key=self._api_key,
                read_timeout=read_timeout,
                total_seconds=retries.remaining_seconds(),
                allow_private=self._allow_private,
                resolve=self._resolve,
                clock=self._clock,
            ) as sdk:
                yield sdk
        except SDK_ERRORS as error:
            retries.output_limit_name = other_output_limit_name(error)
            raise to_model_error(error, key=self._api_key) from error

    def _build_request(
        self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpec], max_output_tokens: int | None
    ) -> dict[str, Any]:
        request: dict[str, Any] = {"model": self.model, "messages": [wire.encode_message(m) for m in messages]}
        if tools:
            request["tools"] = [wire.encode_tool(spec) for spec in tools]
        if max_output_tokens is not None:
            request[self._limit_name] = max_output_tokens
        return request

    def _with_usage(
        self, completion: Completion, messages: Sequence[ChatMessage], tools: Sequence[ToolSpec]
    ) -> Completion:
        """The completion with its usage counted here where the endpoint told none. Raises EmptyAnswer if empty."""
        if not completion.text.strip() and not completion.tool_calls:
            raise _empty_answer_error(completion.stop_reason)
        if completion.usage.input_tokens:
            return completion
        counter = tokens.counter_for(self.model)
        usage = Usage(tokens.count_prompt_tokens(messages, tools, counter), counter.count(completion.text))
        return replace(completion, usage=usage)


class _RetryState:
    """How often and how long one call is tried again."""

    def __init__(self, client: OpenAIModel) -> None:
        self._client = client
        self._ends_at = client._clock() + client._limits.total_seconds
        self._attempts = 0
        self.output_limit_name: str | None = None  # what the endpoint wants the output limit to be called

    def remaining_seconds(self) -> float:
        """Seconds this call may still take. Raises ModelTimedOut when there are none."""
        remaining = self._ends_at - self._client._clock()
        if remaining <= 0:
            raise ModelTimeout("The model did not finish its answer in time.")
        return remaining

    def wait_or_raise(self, error: ModelError) -> None:
        """Wait before the next try, or raise the error where another try is pointless."""
        self._attempts += 1
        if self.output_limit_name and self._attempts == 1:
            self._client._limit_name = self.output_limit_name
            return
        limits = self._client._limits
        if not error.may_pass or self._attempts >= limits.attempts:
            raise error
        pause = error.retry_after if isinstance(error, RateLimited) else None
        if pause is None:
            pause = limits.first_pause * 2 ** (self._attempts - 1) * (0.75 + 0.5 * self._client._jitter())
        if pause > min(_MAX_RETRY_PAUSE, self._ends_at - self._client._clock()):
            raise error
        self._client._sleep(pause)


def _empty_answer_error(stop_reason: str) -> EmptyAnswer:
    if stop_reason == "length":
        return EmptyAnswer(
            "The model used all its output tokens before it said a word.",
            advice="Give the agent more output tokens, or use a model that thinks less before it answers.",
        )
    if stop_reason == "content_filter":
        return EmptyAnswer(
            "The provider's content filter held the answer back.", advice="Put the request in other words."
        )
    return EmptyAnswer("The model answered nothing.")
