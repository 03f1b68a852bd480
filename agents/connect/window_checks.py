"""Asking a server how much its model reads, and setting that where no person has set anything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from openvibe.engines.llm.endpoints.endpoints import EndpointTryResult, ModelList, fetch_models, try_endpoint
from openvibe.engines.llm.endpoints.server_models import ServerModel
from openvibe.engines.llm.endpoints.windows import fit_to_window, save_window, store_told_window
from openvibe.engines.llm.known_models import find_hosted_model, known_models
from openvibe.engines.llm.models import MIN_WINDOW, Endpoint

ASK_SECONDS = 5
"""The time for what a server tells about a model, after the model has answered: somebody waits."""


@dataclass(frozen=True)
class ModelFacts:
    """What the form of an endpoint may be filled with. Sizes in tokens, prices per million, None where nobody says;
    `source`: who says so, as the end of a sentence."""

    window: int | None = None
    reserve: int | None = None
    price_in: Decimal | None = None
    price_out: Decimal | None = None
    source: str = ""

    def to_json(self) -> dict[str, Any]:
        prices = {"price_in": self.price_in, "price_out": self.price_out}
        sizes = {"context_window": self.window, "output_reserve": self.reserve}
        values = {name: str(value) for name, value in {**sizes, **prices}.items() if value is not None}
        return {**values, "source": self.source}


def try_and_measure(*, endpoint: Endpoint) -> EndpointTryResult:
    """`try_endpoint`; once it has answered, its server is asked how much the model reads. Where no person set the
    window it is set to that; else the result says where the two differ. Never raises a ModelError."""
    result = try_endpoint(endpoint=endpoint)
    if not result.ok or endpoint.kind == Endpoint.Kind.OFFLINE:
        return result
    offer = fetch_models(endpoint=endpoint, seconds=ASK_SECONDS)
    sentence = take_window(endpoint, offer.server_models)
    return replace(result, notices=(*result.notices, sentence)) if sentence else result


def take_window(endpoint: Endpoint, models: Sequence[ServerModel]) -> str:
    """Remembers what the server says of the endpoint's model, and sets window and reserve where no person did: to that,
    or to what is known of the model at its own provider's. Saved where the endpoint is. What came of it, as a sentence;
    empty where nothing is known."""
    told = next((model for model in models if model.name == endpoint.model), None)
    if told is not None:
        store_told_window(endpoint, told.context_window, "by what it tells about its models")
    facts = model_facts(endpoint.model, endpoint.base_url, told)
    if facts.window is None:
        return ""
    is_other = facts.window != endpoint.context_window
    is_set = is_other and endpoint.window_source != Endpoint.WindowSource.PERSON
    if is_set:
        fit_to_window(endpoint, facts.window, facts.reserve)
        endpoint.window_source = (
            Endpoint.WindowSource.SERVER if told and told.context_window else Endpoint.WindowSource.KNOWN
        )
        save_window(endpoint)
    if facts.window < MIN_WINDOW:
        return (
            f"The model reads {facts.window:,} tokens ({facts.source}), which is too few: agents need a window of at "
            f"least {MIN_WINDOW:,}. Start it with a larger one, or take another."
        )
    if is_set:
        return f"Its context window is set to {facts.window:,} tokens ({facts.source})."
    if is_other:
        return f"It reads {facts.window:,} tokens ({facts.source}); {endpoint.context_window:,} are set here and hold."
    return ""


def model_facts(name: str, base_url: str, told: ServerModel | None) -> ModelFacts:
    """What the server tells about a model, and what is known of it where its own provider serves it."""
    known = find_hosted_model(name, base_url)
    default_reserve = Endpoint._meta.get_field("output_reserve").default
    window = told.context_window if told is not None else None
    output = (told.output_limit if told is not None else None) or (known.output if known else None)
    source = "its server says so"
    if window is None and known is not None:
        window, source = known.usable_window(default_reserve), f"known as of {known_models().date:%-d %b %Y}"
    if window is None:
        return ModelFacts(price_in=known.price_in, price_out=known.price_out) if known else ModelFacts()
    reserve = max(min(default_reserve, output or default_reserve, window // 4), 1)
    price_in, price_out = (known.price_in, known.price_out) if known else (None, None)
    return ModelFacts(window, reserve, price_in, price_out, source)


def offered_facts(offer: ModelList, base_url: str) -> dict[str, dict[str, Any]]:
    """The facts of each offered model of which something is known, by its name, for the form."""
    facts = {model.name: model_facts(model.name, base_url, model) for model in offer.server_models}
    return {name: fact.to_json() for name, fact in facts.items() if fact != ModelFacts()}


def take_known_prices(endpoint: Endpoint) -> None:
    """The prices of a model at its own provider's, where none are set. Not saved."""
    known = find_hosted_model(endpoint.model, endpoint.base_url)
    if known is not None and endpoint.price_in is None and endpoint.price_out is None:
        endpoint.price_in, endpoint.price_out = known.price_in, known.price_out
