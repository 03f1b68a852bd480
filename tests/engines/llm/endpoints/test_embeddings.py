"""Vectors over HTTP: the rules of every embedder, and answers that are refused."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from threading import Event
from typing import Any

import numpy as np
import pytest
from pytest_django.fixtures import Settings

from openvibe.engines.llm.endpoints.embeddings import MAX_BATCH_TEXTS, HttpEmbedder, embedder_for
from openvibe.engines.llm.errors import (
    AuthRefused,
    BadAnswer,
    ContextTooLong,
    ModelError,
    ModelTimeout,
    ModelUnavailable,
    RateLimited,
)
from openvibe.engines.llm.models import Endpoint
from openvibe.engines.search.embedders import Embedder
from openvibe.workspaces.models import Member
from tests.engines.llm.embedding_server import Embeddings, answer, embedding
from tests.engines.llm.factories import EndpointFactory
from tests.engines.llm.model_server import Answer, FakeEndpoint
from tests.engines.search.embedder_conformance import RULES

KEY = "sk-canary-0123456789abcdef0123"
TEXTS = ["Prune the roses in March.", "The invoice is due on Friday."]


@pytest.fixture
def endpoint() -> Iterator[tuple[FakeEndpoint, Embeddings]]:
    with embedding() as served:
        yield served


def embedder(server: FakeEndpoint, **values: Any) -> HttpEmbedder:
    defaults: dict[str, Any] = {"base_url": server.base_url, "api_key": KEY, "model": "small", "allow_private": True}
    return HttpEmbedder(**(defaults | values))


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_every_rule_of_embedders_holds(
    rule: Callable[[Embedder], None], endpoint: tuple[FakeEndpoint, Embeddings]
) -> None:
    rule(embedder(endpoint[0]))


def test_the_request_is_the_protocols(endpoint: tuple[FakeEndpoint, Embeddings]) -> None:
    server, _ = endpoint
    embedder(server).embed(TEXTS)

    (asked,) = server.asked
    assert asked.path == "/v1/embeddings"
    assert asked.headers["authorization"] == f"Bearer {KEY}"
    assert asked.body == {"model": "small", "input": TEXTS, "encoding_format": "float"}


def test_vectors_come_in_the_order_asked_for_however_they_are_sent(endpoint: tuple[FakeEndpoint, Embeddings]) -> None:
    server, script = endpoint
    script.instead = answer([[3.0, 0], [0, 0.5]])

    assert embedder(server).embed(TEXTS).tolist() == [[1, 0], [0, 1]]


def test_many_texts_go_in_several_requests_and_empty_ones_in_none(endpoint: tuple[FakeEndpoint, Embeddings]) -> None:
    server, script = endpoint
    texts = [f"Row {number}" for number in range(MAX_BATCH_TEXTS + 5)]
    vectors = embedder(server).embed(["", *texts])

    assert [len(part) for part in script.asked] == [MAX_BATCH_TEXTS, 5]
    assert len(vectors) == len(texts) + 1
    assert not vectors[0].any()
    assert np.allclose(np.linalg.norm(vectors[1:], axis=1), 1, atol=1e-3)


def test_texts_that_are_too_long_for_the_model_are_cut(endpoint: tuple[FakeEndpoint, Embeddings]) -> None:
    server, script = endpoint
    script.longest = 600
    assert embedder(server).embed(["roses " * 2_000]).shape == (1, 256)
    assert [len(part[0]) for part in script.asked] == [8_000, 2_000, 500]

    script.longest = 100
    with pytest.raises(ContextTooLong):
        embedder(server).embed(["roses " * 2_000])


NOT_VECTORS = {
    "too few": answer([[1.0, 2.0]]),
    "too many": answer([[1.0, 2.0]] * 3),
    "two dimensions": answer([[1.0, 2.0], [1.0]]),
    "words": answer([["1.0", "2.0"], ["1.0", "2.0"]]),
    "nothing": answer([[], []]),
    "null": answer([None, None]),
    "not a number": answer([[1.0, 2.0], [1.0, math.nan]]),
    "not finite": answer([[1.0, 2.0], [1.0, math.inf]]),
    "zeros": answer([[1.0, 2.0], [0.0, 0.0]]),
    "far too large": answer([[1, 2], [1, 10**400]]),
    "the same text twice": answer([], data=[{"index": 0, "embedding": [1.0]}] * 2),
    "no list": answer([], data="vectors"),
    "a chat completion": Answer(body=json.dumps({"choices": [{"message": {"content": "Hello"}}]}).encode()),
    "a page": Answer(body=b"<html>Welcome</html>"),
    "a number": Answer(body=b"7"),
    "no bytes": Answer(body=b""),
    "deep": Answer(body=b'{"data":' + b"[" * 5_000 + b"]" * 5_000 + b"}"),
}


@pytest.mark.parametrize("what", NOT_VECTORS)
def test_an_answer_that_is_not_vectors_is_refused(what: str) -> None:
    with embedding(instead=NOT_VECTORS[what]) as (server, _), pytest.raises(BadAnswer) as error:
        embedder(server).embed(TEXTS)
    assert "chat completion" not in str(error.value)
    assert KEY not in str(error.value)


def test_vectors_without_numbers_are_taken_as_they_come() -> None:
    rows = [{"embedding": [2, 0]}, {"embedding": [0, 2]}]
    with embedding(instead=answer([], data=rows)) as (server, _):
        assert embedder(server).embed(TEXTS).tolist() == [[1, 0], [0, 1]]


def test_an_endpoint_that_changes_its_dimension_is_refused(endpoint: tuple[FakeEndpoint, Embeddings]) -> None:
    server, script = endpoint
    client = embedder(server)
    client.embed(TEXTS)
    script.dimension = 128
    with pytest.raises(BadAnswer, match="two dimensions"):
        client.embed(TEXTS)


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (401, AuthRefused),
        (404, BadAnswer),
        (429, RateLimited),
        (500, ModelUnavailable),
        (503, ModelUnavailable),
        (307, BadAnswer),
    ],
)
def test_refusals_are_told_apart(status: int, error: type[ModelError]) -> None:
    said = Answer(status=status, headers={"Location": "http://127.0.0.1:1/"}, error={"message": f"no, {KEY}"})
    with embedding(instead=said) as (server, script), pytest.raises(error) as problem_error:
        embedder(server).embed(TEXTS)
    assert len(script.asked) == 1, "whoever calls decides whether to try again"
    assert KEY not in str(problem_error.value)


def test_an_endpoint_that_does_not_answer_is_not_waited_for() -> None:
    held = Event()
    with embedding(instead=Answer(hold=held, body=b"{}")) as (server, _):
        with pytest.raises(ModelTimeout):
            embedder(server, total_seconds=0.2).embed(TEXTS)
        held.set()


def test_addresses_inside_are_not_called(endpoint: tuple[FakeEndpoint, Embeddings]) -> None:
    server, script = endpoint
    with pytest.raises(ModelUnavailable, match="own network"):
        embedder(server, allow_private=False).embed(TEXTS)
    assert script.asked == []


def row_for(ana: Member, server: FakeEndpoint) -> Endpoint:
    return EndpointFactory.create(
        workspace=ana.workspace, name="Embeddings", base_url=server.base_url, model="small", api_key=KEY
    )


def test_an_endpoint_that_was_changed_or_deleted_is_another_embedder(
    ana: Member, settings: Settings, endpoint: tuple[FakeEndpoint, Embeddings]
) -> None:
    settings.ALLOW_PRIVATE_ENDPOINTS = True
    row = row_for(ana, endpoint[0])
    fields: dict[str, Any] = {"address": row.base_url, "model": row.model, "for_query": False}
    assert embedder_for(row.pk, **fields).embed(TEXTS).shape == (2, 256)

    with pytest.raises(ModelUnavailable, match="was changed"):
        embedder_for(row.pk, **(fields | {"model": "large"}))
    row.delete()
    with pytest.raises(ModelUnavailable, match="was deleted"):
        embedder_for(row.pk, **fields)


def test_questions_leave_an_endpoint_that_fails_alone(
    ana: Member, settings: Settings, endpoint: tuple[FakeEndpoint, Embeddings]
) -> None:
    settings.ALLOW_PRIVATE_ENDPOINTS = True
    server, script = endpoint
    row = row_for(ana, server)
    script.instead = Answer(status=503)
    for _ in range(4):
        client = embedder_for(row.pk, address=row.base_url, model=row.model, for_query=True)
        with pytest.raises(ModelUnavailable):
            client.embed(TEXTS)
    assert len(script.asked) == 2
