from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from openvibe.engines.llm.endpoints.breaker import BreakerClient, EndpointBreaker
from openvibe.engines.llm.errors import AuthRefused, BadAnswer, ModelError, ModelTimeout, ModelUnavailable
from openvibe.engines.llm.models import Endpoint
from openvibe.engines.llm.protocol import ModelClient
from openvibe.workspaces.models import Member
from tests.engines.llm.conformance import PROMPT, ModelClientSuite
from tests.engines.llm.factories import EndpointFactory
from tests.engines.llm.scripted_client import ScriptedModel, ScriptedReply

pytestmark = pytest.mark.django_db


@pytest.fixture
def endpoint(ana: Member) -> Endpoint:
    return EndpointFactory.create(workspace=ana.workspace, name="Garden", kind="offline")


class TestWithBreaker(ModelClientSuite):
    @pytest.fixture
    def answering(self, endpoint: Endpoint) -> ModelClient:
        return guarded(endpoint, "Prune them in March, before the buds open.")[0]


def guarded(endpoint: Endpoint, *replies: ScriptedReply) -> tuple[BreakerClient, ScriptedModel]:
    """A client as another process would make it: with a row of its own."""
    scripted = ScriptedModel(replies)
    row = Endpoint.objects.get(pk=endpoint.pk)
    return BreakerClient(scripted, breaker=EndpointBreaker(), endpoint=row), scripted


def after_the_rest() -> None:
    Endpoint.objects.update(rests_until=timezone.now())


def fail(client: ModelClient, times: int) -> None:
    for _ in range(times):
        with pytest.raises(ModelError):
            client.complete(PROMPT)


@pytest.mark.parametrize("error", [ModelUnavailable, ModelTimeout, AuthRefused])
def test_five_failures_in_a_row_give_the_endpoint_a_rest(error: type[ModelError], endpoint: Endpoint) -> None:
    client, scripted = guarded(endpoint, error("It is down."))
    fail(client, 5)
    with pytest.raises(ModelUnavailable, match=r"5 times in a row\. It is tried again in 60 seconds"):
        client.complete(PROMPT)
    with pytest.raises(ModelUnavailable, match="tried again"):
        list(client.stream(PROMPT))
    assert len(scripted.calls) == 5


def test_after_the_rest_one_call_tries_and_success_opens_the_way(endpoint: Endpoint) -> None:
    client, _ = guarded(endpoint, *[ModelUnavailable("It is down.")] * 5, "Back again.")
    fail(client, 5)
    after_the_rest()
    assert client.complete(PROMPT).text == "Back again."
    assert client.complete(PROMPT).text == "Back again."


def test_a_rest_that_began_while_the_clock_was_ahead_is_over(endpoint: Endpoint) -> None:
    client, _ = guarded(endpoint, *[ModelUnavailable("It is down.")] * 5, "Back again.")
    fail(client, 5)
    Endpoint.objects.update(rests_until=timezone.now() + timedelta(hours=1))
    assert client.complete(PROMPT).text == "Back again."


def test_after_the_rest_one_failure_starts_the_rest_again(endpoint: Endpoint) -> None:
    client, scripted = guarded(endpoint, ModelUnavailable("It is down."))
    fail(client, 5)
    after_the_rest()
    fail(client, 3)
    assert len(scripted.calls) == 6


def test_a_success_in_between_starts_the_count_anew(endpoint: Endpoint) -> None:
    down = ModelUnavailable("It is down.")
    client, _ = guarded(endpoint, *[down] * 4, "Fine.", *[down] * 4, "Fine.")
    fail(client, 4)
    client.complete(PROMPT)
    fail(client, 4)
    assert client.complete(PROMPT).text == "Fine."


def test_bad_answers_do_not_count(endpoint: Endpoint) -> None:
    client, scripted = guarded(endpoint, BadAnswer("It answered nothing."))
    fail(client, 12)
    assert len(scripted.calls) == 12


def test_a_stopped_try_lets_the_next_one_try(endpoint: Endpoint) -> None:
    client, _ = guarded(endpoint, *[ModelUnavailable("It is down.")] * 5, "Back again for good.")
    fail(client, 5)
    after_the_rest()
    stream = client.stream(PROMPT)
    next(stream)
    stream.close()
    assert client.complete(PROMPT).text == "Back again for good."


def test_endpoints_do_not_share_a_breaker(endpoint: Endpoint) -> None:
    theirs = EndpointFactory.create(workspace=endpoint.workspace, name="Orchard", kind="offline")
    fail(guarded(endpoint, ModelUnavailable("It is down."))[0], 5)
    assert guarded(theirs, "Fine.")[0].complete(PROMPT).text == "Fine."


def test_processes_share_it(endpoint: Endpoint) -> None:
    down = ModelUnavailable("It is down.")
    fail(guarded(endpoint, down)[0], 3)
    fail(guarded(endpoint, down)[0], 2)
    other, asked = guarded(endpoint, "Back again.")
    with pytest.raises(ModelUnavailable, match="5 times in a row"):
        other.complete(PROMPT)
    assert asked.calls == []

    waiting = guarded(endpoint, down)[0]
    after_the_rest()
    assert other.complete(PROMPT).text == "Back again."
    fail(waiting, 4)  # it begins anew for all: the fifth in a row would be the next


def test_of_many_that_wait_for_the_rest_to_end_one_tries(endpoint: Endpoint) -> None:
    down = ModelUnavailable("It is down.")
    fail(guarded(endpoint, down)[0], 5)
    (one, tried), (other, asked) = guarded(endpoint, down), guarded(endpoint, down)
    after_the_rest()
    fail(one, 1)
    fail(other, 1)
    assert (len(tried.calls), len(asked.calls)) == (1, 0)


def test_an_endpoint_that_is_well_costs_no_statement(
    endpoint: Endpoint, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    client, _ = guarded(endpoint, "Fine.")
    with django_assert_num_queries(0):
        client.complete(PROMPT)
