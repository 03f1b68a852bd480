"""Which client stands behind an endpoint."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from django.conf import settings

from openvibe.llm.breaker import Breaker, WithBreaker
from openvibe.llm.offline import OfflineModel
from openvibe.llm.protocol import ModelClient

if TYPE_CHECKING:
    from openvibe.llm.models import Endpoint

BREAKER = Breaker()


def _offline(endpoint: Endpoint) -> ModelClient:
    return OfflineModel()


def _openai(endpoint: Endpoint) -> ModelClient:
    from openvibe.llm.openai import Limits, OpenAIModel  # the package takes a second to import: only when it is used

    return OpenAIModel(
        base_url=endpoint.base_url,
        api_key=endpoint.api_key,
        model=endpoint.model,
        limits=Limits(
            first_answer_seconds=settings.MODEL_FIRST_ANSWER_SECONDS,
            total_seconds=min(endpoint.timeout_seconds, settings.MODEL_TOTAL_SECONDS),
        ),
        allow_private=settings.ALLOW_PRIVATE_ENDPOINTS,
    )


CLIENTS: dict[str, Callable[[Endpoint], ModelClient]] = {
    "offline": _offline,
    "openai": _openai,
}


def client_for(endpoint: Endpoint | None) -> ModelClient:
    """The client of an endpoint, behind its circuit breaker; without an endpoint, the offline model.

    An endpoint that was changed starts with a fresh breaker.
    """
    if endpoint is None:
        return OfflineModel()
    client = unbroken_client_for(endpoint)
    return WithBreaker(client, breaker=BREAKER, endpoint=(endpoint.pk, endpoint.updated_at))


def unbroken_client_for(endpoint: Endpoint) -> ModelClient:
    """The client of an endpoint that tries whatever happened before: for testing the endpoint."""
    return CLIENTS[endpoint.kind](endpoint)
