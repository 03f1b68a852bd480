"""An endpoint's own usage corrects the estimate of its tokens."""

import pytest

from openvibe.engines.llm.endpoints.token_factors import MAX_FACTOR, MIN_FACTOR, learn_token_factor
from openvibe.engines.llm.models import Endpoint
from openvibe.engines.llm.tokens import counter_for
from openvibe.engines.llm.values import Usage
from openvibe.workspaces.models import Member
from tests.engines.llm.factories import EndpointFactory

pytestmark = pytest.mark.django_db


@pytest.fixture
def endpoint(ana: Member) -> Endpoint:
    return EndpointFactory.create(workspace=ana.workspace, model="somebodys-own")


def learn(endpoint: Endpoint, estimated: int, read: int, *, exact: bool = False) -> float:
    learn_token_factor(endpoint, estimated=estimated, exact=exact, usage=Usage(read, 10))
    endpoint.refresh_from_db()
    return endpoint.token_factor


def test_a_count_that_was_too_low_is_raised_at_once(endpoint: Endpoint) -> None:
    assert learn(endpoint, 1_000, 1_200) >= 1.2
    counter = counter_for(endpoint.model, endpoint.token_factor)
    assert counter.count("word " * 100) >= 1.2 * counter_for(endpoint.model).count("word " * 100)


def test_a_count_that_was_plainly_too_high_is_lowered_and_stays_enough(endpoint: Endpoint) -> None:
    factor = learn(endpoint, 1_000, 600)
    assert 0.6 <= factor < 0.75
    assert learn(endpoint, 600, 590) == factor  # a small surplus moves no prompt


def test_what_says_nothing_teaches_nothing(endpoint: Endpoint) -> None:
    assert learn(endpoint, 100, 200) == 1  # mostly wrapping
    assert learn(endpoint, 10_000, 2_000) == 1  # the rest was left unread
    assert learn(endpoint, 10_000, 0) == 1
    assert learn(endpoint, 1_000, 700, exact=True) == 1


def test_a_known_vocabulary_under_a_wrong_name_is_raised(endpoint: Endpoint) -> None:
    assert learn(endpoint, 1_000, 1_020, exact=True) == 1
    assert learn(endpoint, 1_000, 1_300, exact=True) >= 1.3


def test_factors_stay_within_bounds(endpoint: Endpoint) -> None:
    assert learn(endpoint, 1_000, 90_000) == MAX_FACTOR
    for _ in range(12):
        learn(endpoint, 1_000, 550)
    assert endpoint.token_factor == MIN_FACTOR


def test_an_endpoint_that_was_changed_meanwhile_is_left_alone(endpoint: Endpoint) -> None:
    stale = Endpoint.objects.get(pk=endpoint.pk)
    Endpoint.objects.filter(pk=endpoint.pk).update(model="another")
    learn_token_factor(stale, estimated=1_000, exact=False, usage=Usage(2_000, 10))
    endpoint.refresh_from_db()
    assert endpoint.token_factor == 1
