"""Model endpoints behind a circuit breaker."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import Any

from django.utils.crypto import salted_hmac

from openvibe.engines.jobs.circuit_breaker import CircuitBreaker
from openvibe.engines.llm.adaptations.adapted_calls import AdaptationMemory
from openvibe.engines.llm.answers.provider_fields import mark_completion, with_own_fields
from openvibe.engines.llm.endpoints.windows import learn_window
from openvibe.engines.llm.errors import AuthRefused, ContextTooLong, EndpointRests, ModelTimeout, ModelUnavailable
from openvibe.engines.llm.models import Endpoint
from openvibe.engines.llm.protocol import ModelClient, ModelStream
from openvibe.engines.llm.tokens import count_prompt_tokens, counter_for
from openvibe.engines.llm.values import NO_OPTIONS, CallOptions, ChatMessage, Completion, StreamEnd, ToolSpec
from openvibe.engines.text.cleaning import pluralize


class EndpointBreaker(CircuitBreaker):
    def is_failure(self, error: BaseException) -> bool:
        return isinstance(error, (ModelUnavailable, ModelTimeout, AuthRefused))

    def rest_error(self, row: Any, failures: int, seconds: int) -> ModelUnavailable:
        wait = pluralize(seconds, "second")
        words = f"The model endpoint failed {failures} times in a row. It is tried again in {wait}."
        error = EndpointRests(words, seconds=seconds)
        error.attempts = failures
        return error


def endpoint_origin(endpoint: Endpoint) -> str:
    """Stands for who answers there: another address, model or key is somebody else, to whom sealed thoughts of this one
    say nothing."""
    parts = (endpoint.kind, endpoint.base_url, endpoint.model, str(endpoint.api_key))
    return salted_hmac("openvibe.engines.llm.origin", "\n".join(parts), algorithm="sha256").hexdigest()[:32]


class BreakerClient:
    """A model client behind a breaker, which remembers how long a prompt may be. What the model's provider wants back
    goes back to it alone: `origin` stands for the endpoint with its address, model and key."""

    def __init__(self, client: ModelClient, *, breaker: EndpointBreaker, endpoint: Endpoint) -> None:
        self.model, self.is_free = client.model, client.is_free
        self.adaptations: AdaptationMemory | None = getattr(client, "adaptations", None)
        self._client = client
        self._breaker = breaker
        self.endpoint = endpoint
        self.origin = endpoint_origin(endpoint)

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
                completion = self._client.complete(
                    with_own_fields(messages, self.origin),
                    tools=tools,
                    max_output_tokens=max_output_tokens,
                    options=options,
                )
                return mark_completion(completion, self.origin)
        except ContextTooLong as error:
            sent = count_prompt_tokens(messages, tools, counter_for(self.model, self.endpoint.token_factor))
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
            own = with_own_fields(messages, self.origin)
            stream = self._client.stream(own, tools=tools, max_output_tokens=max_output_tokens, options=options)
            with closing(stream):
                for piece in stream:
                    if isinstance(piece, StreamEnd):
                        piece = StreamEnd(mark_completion(piece.completion, self.origin))
                    yield piece
