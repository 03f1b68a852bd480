"""Model endpoints behind a circuit breaker."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import Any

from django.utils.crypto import salted_hmac

from openvibe.base.circuit_breaker import CircuitBreaker
from openvibe.base.text import pluralize
from openvibe.llm.adapted_calls import AdaptationMemory
from openvibe.llm.errors import AuthRefused, ModelTimeout, ModelUnavailable
from openvibe.llm.models import Endpoint
from openvibe.llm.protocol import ModelClient, ModelStream
from openvibe.llm.provider_fields import mark_completion, with_own_fields
from openvibe.llm.values import NO_OPTIONS, CallOptions, ChatMessage, Completion, StreamEnd, ToolSpec


class EndpointBreaker(CircuitBreaker):
    def is_failure(self, error: BaseException) -> bool:
        return isinstance(error, (ModelUnavailable, ModelTimeout, AuthRefused))

    def rest_error(self, row: Any, failures: int, seconds: int) -> ModelUnavailable:
        return ModelUnavailable(
            f"The model endpoint failed {failures} times in a row. It is tried again in {pluralize(seconds, 'second')}."
        )


def endpoint_origin(endpoint: Endpoint) -> str:
    """Stands for who answers there: another address, model or key is somebody else, to whom sealed thoughts of this one
    say nothing."""
    parts = (endpoint.kind, endpoint.base_url, endpoint.model, str(endpoint.api_key))
    return salted_hmac("openvibe.llm.origin", "\n".join(parts), algorithm="sha256").hexdigest()[:32]


class BreakerClient:
    """A model client behind a breaker. What the model's provider wants back goes back to it alone: `origin` stands for
    the endpoint with its address, model and key."""

    def __init__(self, client: ModelClient, *, breaker: EndpointBreaker, endpoint: Endpoint) -> None:
        self.model, self.is_free = client.model, client.is_free
        self.adaptations: AdaptationMemory | None = getattr(client, "adaptations", None)
        self._client = client
        self._breaker = breaker
        self._endpoint = endpoint
        self.origin = endpoint_origin(endpoint)

    def complete(
        self,
        messages: Sequence[ChatMessage],
        *,
        tools: Sequence[ToolSpec] = (),
        max_output_tokens: int | None = None,
        options: CallOptions = NO_OPTIONS,
    ) -> Completion:
        with self._breaker.guard(self._endpoint):
            completion = self._client.complete(
                with_own_fields(messages, self.origin),
                tools=tools,
                max_output_tokens=max_output_tokens,
                options=options,
            )
            return mark_completion(completion, self.origin)

    def stream(
        self,
        messages: Sequence[ChatMessage],
        *,
        tools: Sequence[ToolSpec] = (),
        max_output_tokens: int | None = None,
        options: CallOptions = NO_OPTIONS,
    ) -> ModelStream:
        with self._breaker.guard(self._endpoint):
            own = with_own_fields(messages, self.origin)
            stream = self._client.stream(own, tools=tools, max_output_tokens=max_output_tokens, options=options)
            with closing(stream):
                for piece in stream:
                    if isinstance(piece, StreamEnd):
                        piece = StreamEnd(mark_completion(piece.completion, self.origin))
                    yield piece
