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
from openvibe.llm.connecting import UNREADABLE, connected
from openvibe.llm.errors import EmptyAnswer, ModelError, ModelTimedOut, RateLimited
from openvibe.llm.openai_errors import other_limit_name, translated
from openvibe.llm.outbound import Resolve, resolve_name
from openvibe.llm.protocol import ModelStream
from openvibe.llm.values import ChatMessage, Completion, Finished, TextDelta, ToolSpec, Usage

_LONGEST_PAUSE = 30.0  # seconds; an endpoint that asks for more is not waited for


@dataclass(frozen=True)
class Limits:
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
        limits: Limits | None = None,
        allow_private: bool = False,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
        jitter: Callable[[], float] = random.random,
        resolve: Resolve = resolve_name,
    ) -> None:
        self.model = model
        self._base_url = base_url
        self._api_key = api_key
        self._limits = limits or Limits()
        self._allow_private = allow_private
        self._sleep, self._clock, self._jitter, self._resolve = sleep, clock, jitter, resolve
        official = (urlsplit(base_url).hostname or "").endswith("openai.com")
        self._limit_name = "max_completion_tokens" if official else "max_tokens"

    def complete(
        self,
        messages: Sequence[ChatMessage],
        *,
        tools: Sequence[ToolSpec] = (),
        max_output_tokens: int | None = None,
    ) -> Completion:
        patience = _Patience(self)
        while True:
            try:
                with self._connected(patience, waits=patience.left()) as sdk:
                    request = self._request(messages, tools, max_output_tokens)
                    answered = sdk.chat.completions.create(**request)
                    return self._counted(wire.completion(answered), messages, tools)
            except ModelError as error:
                patience.pause_or_raise(error)

    def stream(
        self,
        messages: Sequence[ChatMessage],
        *,
        tools: Sequence[ToolSpec] = (),
        max_output_tokens: int | None = None,
    ) -> ModelStream:
        patience = _Patience(self)
        while True:
            begun = False
            try:
                waits = min(self._limits.first_answer_seconds, patience.left())
                with self._connected(patience, waits=waits) as sdk:
                    request = self._request(messages, tools, max_output_tokens)
                    request |= {"stream": True, "stream_options": {"include_usage": True}}
                    gathered = wire.Gathered()
                    for chunk in sdk.chat.completions.create(**request):
                        if text := gathered.add(chunk):
                            begun = True
                            yield TextDelta(text)
                    finished = self._counted(gathered.completion(), messages, tools)
                yield Finished(finished)
                return
            except ModelError as error:
                if begun:
                    raise
                patience.pause_or_raise(error)

    @contextmanager
    def _connected(self, patience: _Patience, *, waits: float) -> Iterator[openai.OpenAI]:
        """The official client over a guarded connection; whatever goes wrong inside leaves as a ModelError."""
        try:
            with connected(
                base_url=self._base_url,
                api_key=self._api_key,
                waits=waits,
                total_seconds=patience.left(),
                allow_private=self._allow_private,
                resolve=self._resolve,
                clock=self._clock,
            ) as sdk:
                yield sdk
        except UNREADABLE as error:
            patience.limit_name = other_limit_name(error)
            raise translated(error, key=self._api_key) from error

    def _request(
        self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpec], max_output_tokens: int | None
    ) -> dict[str, Any]:
        request: dict[str, Any] = {"model": self.model, "messages": [wire.message(m) for m in messages]}
        if tools:
            request["tools"] = [wire.tool(spec) for spec in tools]
        if max_output_tokens is not None:
            request[self._limit_name] = max_output_tokens
        return request

    def _counted(
        self, completion: Completion, messages: Sequence[ChatMessage], tools: Sequence[ToolSpec]
    ) -> Completion:
        """The completion with its usage counted here where the endpoint told none. Raises EmptyAnswer if empty."""
        if not completion.text.strip() and not completion.tool_calls:
            raise _empty(completion.stop_reason)
        if completion.usage.input_tokens:
            return completion
        counter = tokens.counter_for(self.model)
        usage = Usage(tokens.prompt_tokens(messages, tools, counter), counter.count(completion.text))
        return replace(completion, usage=usage)


class _Patience:
    """How often and how long one call is tried again."""

    def __init__(self, client: OpenAIModel) -> None:
        self._client = client
        self._ends_at = client._clock() + client._limits.total_seconds
        self._tried = 0
        self.limit_name: str | None = None  # what the endpoint wants the output limit to be called

    def left(self) -> float:
        """Seconds this call may still take. Raises ModelTimedOut when there are none."""
        left = self._ends_at - self._client._clock()
        if left <= 0:
            raise ModelTimedOut("The model did not finish its answer in time.")
        return left

    def pause_or_raise(self, error: ModelError) -> None:
        """Wait before the next try, or raise the error where another try is pointless."""
        self._tried += 1
        if self.limit_name and self._tried == 1:
            self._client._limit_name = self.limit_name
            return
        limits = self._client._limits
        if not error.may_pass or self._tried >= limits.attempts:
            raise error
        pause = error.retry_after if isinstance(error, RateLimited) else None
        if pause is None:
            pause = limits.first_pause * 2 ** (self._tried - 1) * (0.75 + 0.5 * self._client._jitter())
        if pause > min(_LONGEST_PAUSE, self._ends_at - self._client._clock()):
            raise error
        self._client._sleep(pause)


def _empty(stop_reason: str) -> EmptyAnswer:
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
