"""Model endpoints in use: the client that stands behind an endpoint, and trying one out."""

from __future__ import annotations

import time
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import structlog
from django.conf import settings
from django.db import DatabaseError, connection
from django.dispatch import Signal
from django.utils import timezone

from openvibe.base.fields import UnreadableSecret
from openvibe.base.registers import Register
from openvibe.base.ssrf_guard import AddressRefused, check_url
from openvibe.llm.adaptation_store import StoredAdaptations, TestedAdaptations
from openvibe.llm.adapted_calls import AdaptationMemory
from openvibe.llm.breaker import BreakerClient, EndpointBreaker
from openvibe.llm.errors import BadAnswer, ModelError
from openvibe.llm.fences import fence
from openvibe.llm.http_client import Connection
from openvibe.llm.models import Endpoint
from openvibe.llm.offline import OfflineModel
from openvibe.llm.protocol import ModelClient
from openvibe.llm.retries import CallLimits, RetryPolicy
from openvibe.llm.values import ChatMessage, Usage

if TYPE_CHECKING:
    from openvibe.llm.anthropic import AnthropicModel
    from openvibe.llm.openai import OpenAIModel
    from openvibe.llm.responses import ResponsesModel

CIRCUIT_BREAKER = EndpointBreaker()
log = structlog.get_logger(__name__)
MAX_LISTED_MODELS = 1_000
FETCH_SECONDS_LIMIT = 15
"""For a list of models: somebody waits for it before a form."""
TRY_SECONDS_LIMIT = 45
"""For saying hello: somebody waits for it, and a model on this machine may have to be loaded first."""
TRY_OUTPUT_TOKENS = 1_000
"""For saying hello: some models think before they speak, and what they think counts."""
TOO_MANY_TESTS = "You tested many times within an hour. Wait a little, then test again."
TOO_MANY_LISTS = "You asked for many lists of models within an hour. Type the model's name, or wait a little."

ENDPOINT_CHECK: Register[Callable[[Endpoint], None]] = Register("openvibe.llm.endpoints.ENDPOINT_CHECK")
"""Raises Problem, with its numbers, for an endpoint, saved or not, into whose window an agent's prompt does not fit."""
# A person tried an endpoint out, and it answered:
#   endpoint: Endpoint
endpoint_answered = Signal()


def _openai_client(
    endpoint: Endpoint, adaptations: AdaptationMemory | None = None, *, for_run: bool = False
) -> OpenAIModel:
    from openvibe.llm.openai import OpenAIModel  # its SDK takes a second to import: only when it is used

    return OpenAIModel(
        _connection(endpoint),
        model=endpoint.model,
        retry_policy=_retry_policy(endpoint),
        is_free=endpoint.is_free,
        adaptations=adaptations or StoredAdaptations(endpoint, defers=for_run),
        hands_back_tools=for_run,
    )


def _anthropic_client(
    endpoint: Endpoint, adaptations: AdaptationMemory | None = None, *, for_run: bool = False
) -> AnthropicModel:
    from openvibe.llm.anthropic import AnthropicModel

    return AnthropicModel(
        _connection(endpoint),
        model=endpoint.model,
        retry_policy=_retry_policy(endpoint),
        is_free=endpoint.is_free,
        adaptations=adaptations or StoredAdaptations(endpoint, defers=for_run),
        hands_back_tools=for_run,
    )


def _responses_client(
    endpoint: Endpoint, adaptations: AdaptationMemory | None = None, *, for_run: bool = False
) -> ResponsesModel:
    from openvibe.llm.responses import ResponsesModel

    return ResponsesModel(
        _connection(endpoint),
        model=endpoint.model,
        retry_policy=_retry_policy(endpoint),
        is_free=endpoint.is_free,
        adaptations=adaptations or StoredAdaptations(endpoint, defers=for_run),
        hands_back_tools=for_run,
    )


def _connection(endpoint: Endpoint) -> Connection:
    return Connection(endpoint.base_url, endpoint.api_key, endpoint.allows_private)


def _retry_policy(endpoint: Endpoint) -> RetryPolicy:
    return RetryPolicy(
        CallLimits(
            first_answer_seconds=settings.MODEL_FIRST_ANSWER_SECONDS,
            total_seconds=min(endpoint.timeout_seconds, settings.MODEL_TOTAL_SECONDS),
        )
    )


class ClientFactory(Protocol):
    """Makes the client of an endpoint. `adaptations`: what is known of it, without one what is stored of it; `for_run`
    as in `client_for`."""

    def __call__(
        self, endpoint: Endpoint, adaptations: AdaptationMemory | None = None, *, for_run: bool = False
    ) -> ModelClient: ...


CLIENT_FACTORIES: dict[str, ClientFactory] = {
    "offline": lambda endpoint, adaptations=None, *, for_run=False: OfflineModel(),
    "openai": _openai_client,
    "anthropic": _anthropic_client,
    "responses": _responses_client,
}


def import_client_packages() -> None:
    """What the clients of today's endpoints need, in the calling thread, whose database connection is closed."""
    try:
        for endpoint in Endpoint.objects.exclude(kind=Endpoint.Kind.OFFLINE).order_by("kind").distinct("kind"):
            CLIENT_FACTORIES[endpoint.kind](endpoint)
    except DatabaseError:
        log.warning("clients_not_imported", exc_info=True)
    finally:
        connection.close()


def client_for(endpoint: Endpoint | None, *, for_run: bool = False) -> ModelClient:
    """The client of an endpoint, behind its circuit breaker; without an endpoint, the offline model.

    An endpoint that was changed starts with a fresh breaker. `for_run`: where the endpoint takes no tools, the caller
    is told by ToolsRefused, before anything was answered; and as it reads streams in a thread of their own, it writes
    down what was learned by `save_adaptations`.
    """
    if endpoint is None:
        return OfflineModel()
    client = CLIENT_FACTORIES[endpoint.kind](endpoint, for_run=for_run)
    return BreakerClient(client, breaker=CIRCUIT_BREAKER, endpoint=endpoint)


def is_adapted(client: ModelClient, kind: str) -> bool:
    """Whether it is known that what the client asks needs this kind of adaptation, such as `no_tools`."""
    memory = getattr(client, "adaptations", None)
    return isinstance(memory, AdaptationMemory) and kind in memory.values()


def save_adaptations(client: ModelClient) -> None:
    """Write down what the client of a run learned, where it learned anything."""
    memory = getattr(client, "adaptations", None)
    if isinstance(memory, AdaptationMemory):
        memory.save()


@dataclass(frozen=True)
class EndpointTryResult:
    """How a try went. `message` is the model's answer or, where `ok` is False, what is wrong and what to do. `usage` is
    None where there was no answer."""

    ok: bool
    message: str
    seconds: float
    model: str = ""
    usage: Usage | None = None

    @property
    def summary(self) -> str:
        """Seconds, model and tokens, as a sentence."""
        figures = [f"{self.seconds:.1f} s"]
        if self.usage:
            cached = self.usage.cached_tokens
            of_cache = "not told how many from its cache" if cached is None else f"{cached:,} from its cache"
            figures.append(f"{self.usage.input_tokens:,} tokens read ({of_cache})")
            if self.usage.cache_write_tokens:
                figures.append(f"{self.usage.cache_write_tokens:,} written to it")
            figures.append(f"{self.usage.output_tokens:,} answered")
        return f"{self.model} answered: {', '.join(figures)}."


def try_endpoint(*, endpoint: Endpoint) -> EndpointTryResult:
    """Ask the endpoint, saved or not, one tiny question, whatever its breaker says, for `TRY_SECONDS_LIMIT` at most.
    Never raises a ModelError.

    When a saved one answers, its breaker closes and `endpoint_answered` is rung. How it went stands on it.
    """
    result = _ask_endpoint(endpoint)
    rows = Endpoint.objects.filter(pk=endpoint.pk, updated_at=endpoint.updated_at)
    rows.update(tested_at=timezone.now(), test_problem="" if result.ok else result.message[:500])
    return result


def _ask_endpoint(endpoint: Endpoint) -> EndpointTryResult:
    question = [ChatMessage("user", fence("request", "Say hello in one short sentence."))]
    start_time = time.monotonic()
    hasty_endpoint = copy(endpoint)
    hasty_endpoint.timeout_seconds = min(endpoint.timeout_seconds, TRY_SECONDS_LIMIT)
    client = CLIENT_FACTORIES[endpoint.kind](hasty_endpoint, TestedAdaptations(endpoint))
    try:
        completion = client.complete(question, max_output_tokens=TRY_OUTPUT_TOKENS)
    except ModelError as error:
        return EndpointTryResult(False, f"{error} {error.advice}", time.monotonic() - start_time)
    if endpoint.pk is not None:
        CIRCUIT_BREAKER.reset(endpoint)
        endpoint_answered.send(sender=Endpoint, endpoint=endpoint)
    seconds = time.monotonic() - start_time
    return EndpointTryResult(True, completion.text.strip(), seconds, client.model, completion.usage)


@dataclass(frozen=True)
class ModelList:
    """Names of models, in the order of the alphabet, and a sentence for the admin who asked.

    `is_list`: it answered with a list, which may be empty; `error` is why it did not, where it was asked."""

    models: list[str]
    message: str
    is_list: bool = False
    error: ModelError | None = None


def find_endpoint_problem(*, endpoint: Endpoint, seconds: int) -> str:
    """Why the endpoint cannot be asked now, in sentences; empty when it answers. Costs no tokens, and never raises."""
    if isinstance(endpoint.api_key, UnreadableSecret):
        return "Its key cannot be read with today's OPENVIBE_SECRET_KEY. Enter it again."
    endpoint.timeout_seconds = seconds
    client = CLIENT_FACTORIES[endpoint.kind](endpoint)
    try:
        getattr(client, "list_models", list)()
    except BadAnswer:  # it answered: many offer no list of models
        return ""
    except ModelError as error:
        return f"{error} {error.advice}"
    return ""


def fetch_models(*, endpoint: Endpoint, seconds: int = FETCH_SECONDS_LIMIT) -> ModelList:
    """What the endpoint, saved or not, offers. Never raises: where it offers no list, the sentence says so."""
    factories: dict[str, Callable[[Endpoint], OpenAIModel | AnthropicModel]] = {
        Endpoint.Kind.OPENAI: _openai_client,
        Endpoint.Kind.ANTHROPIC: _anthropic_client,
        Endpoint.Kind.RESPONSES: _responses_client,
    }
    if endpoint.kind not in factories:
        return ModelList([], "The offline model has no list of models.")
    if not endpoint.base_url or not endpoint.api_key.isascii() or not endpoint.api_key.isprintable():
        return ModelList([], "Enter the address, and the key as its provider shows it, first.")
    endpoint.timeout_seconds = seconds
    try:
        check_url(endpoint.base_url, allow_private=endpoint.allows_private)
        names = factories[endpoint.kind](endpoint).list_models()
    except AddressRefused as refusal:
        return ModelList([], f"No list of models came: {refusal}")
    except ModelError as error:
        return ModelList([], f"No list of models came: {error} The model's name can be typed as well.", error=error)
    models = sorted({name[:200] for name in names if name.strip()})[:MAX_LISTED_MODELS]
    return ModelList(models, f"It offers {len(models)} models. Choose one, or type another name.", is_list=True)
