"""An endpoint whose answers are no vectors of the texts: nothing of them is stored, the other texts go on, and what it
cannot take is set aside and tried again. Over real HTTP, from the choice in the admin on."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from django.utils import timezone
from pytest_django.fixtures import Settings

from openvibe.chat.models import Message, MessageToEmbed, MessageVector, Thread
from openvibe.chat.wiring import embed_pending_messages
from openvibe.engines.search.embedder_choice import use_embedder
from openvibe.engines.search.models import VectorSpace
from openvibe.engines.search.space_lifecycle import advance_spaces, diagnose_search, space_statuses
from openvibe.engines.search.spaces import embed_query
from openvibe.workspaces.models import Member
from tests.engines.llm.embedding_server import BUILT_IN, answer
from tests.engines.llm.factories import EndpointFactory
from tests.engines.llm.model_server import Answer, Asked, FakeEndpoint, serving
from tests.factories import access, say

POISON = "Cursed"


class CursedEmbeddings:
    """Vectors of the built-in embedder; of a text with the word `Cursed` this `number` only, while it is set."""

    def __init__(self, number: float | None) -> None:
        self.number = number
        self.is_down = False

    def __call__(self, asked: Asked) -> Answer:
        if self.is_down:
            return Answer(status=503, error={"message": "Loading the model"})
        texts: list[str] = asked.body["input"]
        return answer([self._vector(text) for text in texts])

    def _vector(self, text: str) -> list[Any]:
        if self.number is not None and POISON in text:
            return [self.number] * 256
        vector: list[Any] = BUILT_IN.embed([text])[0].tolist()
        return vector


@pytest.fixture(params=[math.nan, math.inf, 0.0], ids=["not a number", "infinite", "zeros"])
def script(request: pytest.FixtureRequest) -> CursedEmbeddings:
    return CursedEmbeddings(request.param)


@pytest.fixture
def server(script: CursedEmbeddings) -> Iterator[FakeEndpoint]:
    with serving(script=script) as running:
        yield running


@pytest.fixture
def space(ana: Member, thread: Thread, server: FakeEndpoint, settings: Settings) -> VectorSpace:
    """A space that is chosen for a workspace with three messages, the last of which the endpoint cannot take."""
    settings.ALLOW_PRIVATE_ENDPOINTS = True
    for body in ("When do we prune?", "In March.", f"{POISON} be the hedge."):
        say(thread, ana, body)
    endpoint = EndpointFactory.create(
        workspace=ana.workspace, name="Embeddings", base_url=server.base_url, model="small", api_key="k"
    )
    use_embedder(workspace=ana.workspace, kind="openai", endpoint=endpoint, by=access(ana))
    return VectorSpace.objects.get(workspace=ana.workspace, kind="openai")


def embed_again(space: VectorSpace) -> int:
    """Embeds again, as if the pause after a failure were over."""
    VectorSpace.objects.filter(pk=space.pk).update(try_again_at=timezone.now())
    made = embed_pending_messages(space.pk)
    space.refresh_from_db()
    return made


def test_vectors_that_are_none_are_refused_and_the_other_texts_go_on(
    ana: Member, space: VectorSpace, script: CursedEmbeddings
) -> None:
    assert embed_pending_messages(space.pk) == 0
    space.refresh_from_db()
    assert "vectors that say nothing" in space.problem or "not finite" in space.problem
    assert not MessageVector.objects.filter(space=space).exists()

    assert embed_again(space) == 2
    assert space.problem == ""
    assert all(np.isfinite(row.own).all() and any(row.own) for row in MessageVector.objects.filter(space=space))
    assert MessageToEmbed.objects.get(space=space).message.body.startswith(POISON)
    assert embed_again(space) == 0, "it is left alone for a while"
    assert [(status.pending, status.set_aside) for status in space_statuses(ana.workspace_id)] == [(3, 0), (0, 1)]
    assert "1 text got no usable vector" in diagnose_search()[1]

    embed_pending_messages()
    assert advance_spaces() == 1, "one text does not keep all others waiting"
    assert embed_query(ana.workspace_id, "When do we prune?") is not None
    assert embed_query(ana.workspace_id, POISON) is None, "words have to do"

    script.number = None
    MessageToEmbed.objects.update(try_again_at=timezone.now())
    assert embed_again(space) == 1
    assert MessageVector.objects.get(space=space, message=Message.objects.last()).own is not None


@pytest.mark.parametrize("script", [CursedEmbeddings(None)], ids=["down"])
def test_an_endpoint_that_is_down_sets_nothing_aside(space: VectorSpace, script: CursedEmbeddings) -> None:
    script.is_down = True
    for _ in range(3):
        assert embed_again(space) == 0
    assert space.failures == 3
    assert "Loading the model" in space.problem or space.problem
    assert not MessageToEmbed.objects.filter(space=space).exclude(try_again_at=None).exists()
    script.is_down = False
    assert embed_again(space) == 3
