"""How much a model reads, as its server tells: taken where no person set it, said where one did."""

import json
from typing import Any

import pytest
from pytest_django.fixtures import Settings

from agents.connect.window_checks import model_facts, take_known_prices, try_and_measure
from openvibe.engines.llm.endpoints.server_models import ServerModel
from openvibe.engines.llm.endpoints.windows import unread_tokens, window_notes
from openvibe.engines.llm.models import Endpoint
from openvibe.engines.llm.values import Usage
from openvibe.workspaces.models import Member
from tests.engines.llm.factories import EndpointFactory
from tests.engines.llm.model_server import Answer, Asked, FakeEndpoint, serving
from tests.factories import signed_in

VLLM = {"/v1/models": {"data": [{"id": "m", "object": "model", "max_model_len": 8_192}]}}
OLLAMA = {
    "/v1/models": {"data": [{"id": "m"}]},
    "/api/tags": {"models": [{"name": "m", "digest": "d"}]},
    "/api/show": {"model_info": {"qwen2.context_length": 32_768}},
    "/api/ps": {"models": [{"name": "m", "context_length": 4_096}]},
}
LLAMA = {
    "/v1/models": {"data": [{"id": "m", "meta": {"n_ctx_train": 32_768}}]},
    "/props": {"default_generation_settings": {"n_ctx": 16_384}},
}
STUDIO = {
    "/v1/models": {"data": [{"id": "m"}]},
    "/api/v0/models": {
        "data": [
            {"id": "m", "type": "llm", "state": "loaded", "loaded_context_length": 12_288, "max_context_length": 40_960}
        ]
    },
}
TINY = {"/v1/models": {"data": [{"id": "m", "max_model_len": 512}]}}


@pytest.fixture(autouse=True)
def loopback(settings: Settings) -> None:
    settings.ALLOW_PRIVATE_ENDPOINTS = True


def telling(pages: dict[str, Any]) -> Any:
    def answer(asked: Asked) -> Answer:
        if asked.path.endswith("/chat/completions"):
            return Answer("Hello.")
        path = asked.path.partition("?")[0]
        return Answer(body=json.dumps(pages[path]).encode()) if path in pages else Answer(status=404)

    return answer


def endpoint_at(server: FakeEndpoint, ana: Member, **more: Any) -> Endpoint:
    return EndpointFactory.create(workspace=ana.workspace, name="Own", base_url=server.base_url, model="m", **more)


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("pages", "window", "reserve"),
    [(VLLM, 8_192, 2_000), (OLLAMA, 4_096, 1_024), (LLAMA, 16_384, 2_000), (STUDIO, 12_288, 2_000)],
    ids=["vLLM", "Ollama: what it gives the model, not what the model could", "llama.cpp", "LM Studio"],
)
def test_a_test_takes_what_the_server_tells(ana: Member, pages: dict[str, Any], window: int, reserve: int) -> None:
    with serving(script=telling(pages)) as server:
        endpoint = endpoint_at(server, ana)
        result = try_and_measure(endpoint=endpoint)
    stored = Endpoint.objects.get()
    assert result.ok
    assert f"set to {window:,} tokens" in result.summary
    for row in (endpoint, stored):
        assert (row.context_window, row.output_reserve, row.window_source) == (window, reserve, "server")
        assert row.told_window == window
    assert stored.tested_at is not None
    assert any(f"Its server says {window:,} tokens" in note for note in window_notes(stored))


@pytest.mark.django_db
def test_what_a_person_set_stays_and_the_page_says_what_the_server_tells(ana: Member) -> None:
    form = {"name": "Own", "kind": "openai", "model": "m", "output_reserve": 1_000, "timeout_seconds": 60}
    with serving(script=telling(VLLM)) as server:
        form |= {"base_url": server.base_url, "context_window": 16_000}
        new = f"/w/{ana.workspace.slug}/settings/models/new/"
        assert signed_in(ana).post(new, form).status_code == 302
        endpoint = Endpoint.objects.get()
        assert endpoint.window_source == "person"
        page = f"/w/{ana.workspace.slug}/settings/models/{endpoint.pk}/"
        said = signed_in(ana).post(page, {"act": "test"}, follow=True).content.decode()
        assert "It reads 8,192 tokens" in said
        assert "16,000 are set here and hold" in said
        offered = signed_in(ana).post(f"/w/{ana.workspace.slug}/settings/models/offered/", form).json()
    endpoint.refresh_from_db()
    assert (endpoint.context_window, endpoint.told_window) == (16_000, 8_192)
    assert "longer prompts will fail or be cut" in signed_in(ana).get(page).content.decode()
    assert offered["facts"]["m"]["context_window"] == "8192"

    filled_in = {**form, "name": "Two", "context_window": 8_192, "window_told": "8192"}
    assert signed_in(ana).post(new, filled_in).status_code == 302
    assert Endpoint.objects.get(name="Two").window_source == "server", "filled in by the page, not typed"


@pytest.mark.django_db
def test_another_model_begins_without_what_the_one_before_taught(ana: Member) -> None:
    with serving(script=telling(VLLM)) as server:
        endpoint = endpoint_at(server, ana, told_window=8_192, learned_window=4_000, unread_read=1, unread_sent=2)
        endpoint = Endpoint.objects.get()
        endpoint.name = "Renamed"
        endpoint.save()
        assert Endpoint.objects.get().learned_window == 4_000
        endpoint.model = "other"
        endpoint.save()
    stored = Endpoint.objects.get()
    assert (stored.told_window, stored.learned_window, stored.unread_read) == (None, None, None)


@pytest.mark.django_db
def test_a_window_that_is_too_small_is_said(ana: Member) -> None:
    with serving(script=telling(TINY)) as server:
        result = try_and_measure(endpoint=endpoint_at(server, ana))
    assert "reads 512 tokens" in result.summary
    assert "at least 2,000" in result.summary
    assert Endpoint.objects.get().usable_reserve < 512


def test_known_models_fill_in_what_their_provider_does_not_tell() -> None:
    url = "https://api.openai.com/v1"
    facts = model_facts("gpt-4o-mini", url, ServerModel("gpt-4o-mini"))
    assert (facts.window, facts.reserve) == (128_000, 2_000)
    assert facts.to_json()["price_in"] == "0.15"
    assert "known as of" in facts.source
    assert model_facts("gpt-4o-mini", "http://localhost:8000/v1", None).window is None
    assert model_facts("m", url, ServerModel("m", context_window=4_096, output_limit=512)).reserve == 512
    endpoint = Endpoint(kind="openai", base_url=url, model="gpt-4o-mini")
    take_known_prices(endpoint)
    assert endpoint.price_out is not None
    typed = Endpoint(kind="openai", base_url=url, model="gpt-4o-mini", price_in=0, price_out=0)
    take_known_prices(typed)
    assert typed.price_in == 0


@pytest.mark.parametrize(
    ("sent", "usage", "is_unread"),
    [
        (1_700, Usage(512, 5), True),
        (1_700, Usage(1_100, 5), False),
        (300, Usage(120, 5), False),
        (9_000, Usage(400, 5, cached_tokens=8_600), False),
        (9_000, Usage(400, 5, cached_tokens=400), False),
        (9_000, Usage(512, 5, cached_tokens=0), True),
    ],
    ids=["cut", "another tokenizer", "a short prompt", "cached beside", "all of it cached", "cut, nothing cached"],
)
def test_what_counts_as_unread(sent: int, usage: Usage, is_unread: bool) -> None:
    assert unread_tokens(sent, usage) is is_unread
