"""A question's vector: in the space that serves, remembered, and never an error."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from django.utils import timezone
from pytest_django import DjangoCaptureOnCommitCallbacks

from openvibe.engines.search.models import VectorSpace
from openvibe.engines.search.query import embed_question
from openvibe.engines.search.spaces import QUERY_CACHE_SIZE, clear_space_cache, embed_query, serving_space
from openvibe.workspaces.models import Member
from tests.engines.search.fakes import FakeEmbedder, Trouble


def set_space(ana: Member, **values: Any) -> VectorSpace:
    VectorSpace.objects.filter(workspace=ana.workspace).update(**values)
    clear_space_cache()
    return VectorSpace.objects.get(workspace=ana.workspace)


def test_every_workspace_has_the_built_in_embedder_from_the_start(ana: Member) -> None:
    space = serving_space(ana.workspace_id)
    question = embed_query(ana.workspace_id, "When do we prune the roses?")

    assert space is not None
    assert question is not None
    assert (question.space_id, question.dimension) == (space.id, 256)
    assert question.vector.shape == (256,)
    assert np.linalg.norm(question.vector) == pytest.approx(1, abs=1e-3)


def test_a_space_and_a_question_are_asked_for_once(
    ana: Member, fake_embedder: FakeEmbedder, django_assert_num_queries: Any
) -> None:
    set_space(ana, kind="openai", dimension=64)
    with django_assert_num_queries(1):
        for _ in range(3):
            assert embed_query(ana.workspace_id, "When do we   prune?") is not None
            assert embed_query(ana.workspace_id, "When do we prune?") is not None
    assert fake_embedder.asked == [["When do we prune?"]]
    assert fake_embedder.for_queries == 1, "it is asked with little patience"


def test_only_the_embedder_that_averages_words_is_spared_those_that_only_ask(
    ana: Member, fake_embedder: FakeEmbedder
) -> None:
    asked, told = "Wie früh muss ich meinen Urlaub beantragen?", "früh Urlaub beantragen"
    averaged, telling = embed_question(ana.workspace_id, asked), embed_query(ana.workspace_id, told)
    assert averaged is not None
    assert telling is not None
    assert averaged.vector.tolist() == telling.vector.tolist()
    set_space(ana, kind="openai", dimension=64)
    embed_question(ana.workspace_id, asked)
    assert fake_embedder.asked == [[asked]], "sentences without their stop words are none that anybody says"


def test_only_so_many_questions_are_remembered(ana: Member, fake_embedder: FakeEmbedder) -> None:
    set_space(ana, kind="openai", dimension=64)
    for number in range(QUERY_CACHE_SIZE + 1):
        embed_query(ana.workspace_id, f"Question {number}")
    embed_query(ana.workspace_id, "Question 1")
    assert len(fake_embedder.asked) == QUERY_CACHE_SIZE + 1
    embed_query(ana.workspace_id, "Question 0")
    assert len(fake_embedder.asked) == QUERY_CACHE_SIZE + 2


@pytest.mark.parametrize("text", ["", "   ", "\n", "\x00"])
def test_a_question_without_words_has_no_vector(ana: Member, text: str) -> None:
    assert embed_query(ana.workspace_id, text) is None


@pytest.mark.parametrize("text", ["🌹", "'", '"a b', "%", "a & | !", "修剪玫瑰", "roses " * 2_000, "half \ud83c"])
def test_any_question_may_be_asked(ana: Member, text: str) -> None:
    question = embed_query(ana.workspace_id, text)
    assert question is None or np.isfinite(question.vector).all()


def test_secrets_are_not_sent_to_an_endpoint(ana: Member, fake_embedder: FakeEmbedder) -> None:
    set_space(ana, kind="openai", dimension=64)
    embed_query(ana.workspace_id, "Who uses sk-0123456789abcdef0123456789?")
    assert fake_embedder.asked == [["Who uses [secret removed]?"]]


@pytest.mark.parametrize("values", [{"kind": "none"}, {"kind": "openai", "dimension": 0}, {"state": "retired"}])
def test_without_vectors_words_have_to_do(ana: Member, fake_embedder: FakeEmbedder, values: dict[str, Any]) -> None:
    set_space(ana, **values)
    assert embed_query(ana.workspace_id, "When do we prune?") is None
    assert fake_embedder.asked == []


def test_a_workspace_that_is_gone_has_no_vectors(db: None) -> None:
    assert embed_query(0, "When do we prune?") is None


def test_an_embedder_that_is_down_is_said_once_and_again_when_it_is_well(
    ana: Member, fake_embedder: FakeEmbedder, django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks
) -> None:
    space = set_space(ana, kind="openai", dimension=64)
    fake_embedder.trouble = Trouble("It is on fire.")

    with django_capture_on_commit_callbacks(execute=True) as told:
        for number in range(3):
            assert embed_query(ana.workspace_id, f"Question {number}") is None
    assert len(told) == 1
    space.refresh_from_db()
    assert space.problem == "It is on fire. Look at the endpoint."

    fake_embedder.trouble = None
    with django_capture_on_commit_callbacks(execute=True):
        assert embed_query(ana.workspace_id, "Question 1") is not None
    space.refresh_from_db()
    assert space.problem == ""


def test_an_embedder_that_is_left_alone_is_not_asked(ana: Member, fake_embedder: FakeEmbedder) -> None:
    set_space(ana, kind="openai", dimension=64, try_again_at=timezone.now() + timedelta(minutes=1))
    assert embed_query(ana.workspace_id, "When do we prune?") is None
    assert fake_embedder.asked == []


def test_an_embedder_that_failed_while_the_clock_was_ahead_is_asked_again(
    ana: Member, fake_embedder: FakeEmbedder
) -> None:
    set_space(ana, kind="openai", dimension=64, try_again_at=timezone.now() + timedelta(days=365))
    assert embed_query(ana.workspace_id, "When do we prune?") is not None


def test_a_vector_of_another_dimension_is_not_compared(
    ana: Member, fake_embedder: FakeEmbedder, django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks
) -> None:
    space = set_space(ana, kind="openai", dimension=128)
    with django_capture_on_commit_callbacks(execute=True):
        assert embed_query(ana.workspace_id, "When do we prune?") is None
    space.refresh_from_db()
    assert "answers with 64 numbers a vector now, and these vectors have 128" in space.problem


def test_what_goes_wrong_is_said_by_the_next_who_asks(ana: Member, fake_embedder: FakeEmbedder) -> None:
    set_space(ana, kind="openai", dimension=64)
    held = serving_space(ana.workspace_id)
    fake_embedder.trouble = Trouble("It is on fire.")
    assert embed_query(ana.workspace_id, "When do we prune?") is None
    after = serving_space(ana.workspace_id)
    assert held is not None
    assert after is not None
    assert (held.problem, bool(after.problem)) == ("", True)
