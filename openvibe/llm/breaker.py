"""Model endpoints behind a circuit breaker."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from openvibe.base.circuit_breaker import CircuitBreaker
from openvibe.base.text import pluralize
from openvibe.llm.errors import AuthRefused, ContextTooLong, ModelTimeout, ModelUnavailable
from openvibe.llm.models import Endpoint
from openvibe.llm.protocol import ModelClient, ModelStream
from openvibe.llm.tokens import count_prompt_tokens, counter_for
from openvibe.llm.values import NO_OPTIONS, CallOptions, ChatMessage, Completion, ToolSpec
from openvibe.llm.windows import learn_window


class EndpointBreaker(CircuitBreaker):
    def is_failure(self, error: BaseException) -> bool:
        return isinstance(error, (ModelUnavailable, ModelTimeout, AuthRefused))

    def rest_error(self, row: Any, failures: int, seconds: int) -> ModelUnavailable:
        error = ModelUnavailable(
            f"The model endpoint failed {failures} times in a row. It is tried again in {pluralize(seconds, 'second')}."
        )
        error.attempts = failures
        return error


class BreakerClient:
    """A model client behind a breaker, which remembers how long a prompt may be."""

    def __init__(self, client: ModelClient, *, breaker: EndpointBreaker, endpoint: Endpoint) -> None:
        self.model, self.is_free = client.model, client.is_free
        self._client = client
        self._breaker = breaker
        self.endpoint = endpoint

    def complete(
        self,
        messages: Sequence[ChatMessage],
        *,
        tools: Sequence[ToolSpec] = (),
        max_output_tokens: int | None = None,
        options: CallOptions = NO_OPTIONS,
    ) -> Completion:
        """What a refusal says of the model's window is remembered; whoever streams does that itself, in its thread."""
        try:
            with self._breaker.guard(self.endpoint):
                return self._client.complete(
                    messages, tools=tools, max_output_tokens=max_output_tokens, options=options
                )
        except ContextTooLong as error:
            sent = count_prompt_tokens(messages, tools, counter_for(self.model))
            learn_window(self.endpoint, error.smaller_window(sent, max_output_tokens or 0), str(error))
            raise

    def stream(
        self,
        messages: Sequence[ChatMessage],
        *,
        tools: Sequence[ToolSpec] = (),
        max_output_tokens: int | None = None,
        options: CallOptions = NO_OPTIONS,
    ) -> ModelStream:
        with self._breaker.guard(self.endpoint):
            yield from self._client.stream(messages, tools=tools, max_output_tokens=max_output_tokens, options=options)
