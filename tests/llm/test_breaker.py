from __future__ import annotations

import pytest

from openvibe.llm.breaker import BreakerClient, CircuitBreaker
from openvibe.llm.errors import AuthRefused, BadAnswer, ModelError, ModelTimeout, ModelUnavailable
from openvibe.llm.protocol import ModelClient
from tests.llm.conformance import PROMPT, ModelClientSuite
from tests.llm.scripted_client import ScriptedModel, ScriptedReply


class Clock:
    now = 1_000.0

    def __call__(self) -> float:
        return self.now


class TestWithBreaker(ModelClientSuite):
    @pytest.fixture
    def answering(self) -> ModelClient:
        scripted = ScriptedModel(["Prune them in March, before the buds open."])
        return BreakerClient(scripted, breaker=CircuitBreaker(), endpoint=1)


def guarded(
    clock: Clock, *replies: ScriptedReply, breaker: CircuitBreaker | None = None
) -> tuple[BreakerClient, ScriptedModel]:
    scripted = ScriptedModel(replies)
    return BreakerClient(scripted, breaker=breaker or CircuitBreaker(clock=clock), endpoint="ours"), scripted


def fail(client: ModelClient, times: int) -> None:
    for _ in range(times):
        with pytest.raises(ModelError):
            client.complete(PROMPT)


@pytest.mark.parametrize("error", [ModelUnavailable, ModelTimeout, AuthRefused])
def test_five_failures_in_a_row_give_the_endpoint_a_rest(error: type[ModelError]) -> None:
    clock = Clock()
    client, scripted = guarded(clock, error("It is down."))
    fail(client, 5)
    with pytest.raises(ModelUnavailable, match=r"5 times in a row\. It is tried again in 60 seconds"):
        client.complete(PROMPT)
    with pytest.raises(ModelUnavailable, match="tried again"):
        list(client.stream(PROMPT))
    assert len(scripted.calls) == 5


def test_after_the_rest_one_call_tries_and_success_opens_the_way() -> None:
    clock = Clock()
    client, _ = guarded(clock, *[ModelUnavailable("It is down.")] * 5, "Back again.")
    fail(client, 5)
    clock.now += 61
    assert client.complete(PROMPT).text == "Back again."
    assert client.complete(PROMPT).text == "Back again."


def test_after_the_rest_one_failure_starts_the_rest_again() -> None:
    clock = Clock()
    client, scripted = guarded(clock, ModelUnavailable("It is down."))
    fail(client, 5)
    clock.now += 61
    fail(client, 3)
    assert len(scripted.calls) == 6


def test_a_success_in_between_starts_the_count_anew() -> None:
    down = ModelUnavailable("It is down.")
    client, _ = guarded(Clock(), *[down] * 4, "Fine.", *[down] * 4, "Fine.")
    fail(client, 4)
    client.complete(PROMPT)
    fail(client, 4)
    assert client.complete(PROMPT).text == "Fine."


def test_bad_answers_do_not_count() -> None:
    client, scripted = guarded(Clock(), BadAnswer("It answered nothing."))
    fail(client, 12)
    assert len(scripted.calls) == 12


def test_a_stopped_try_lets_the_next_one_try() -> None:
    clock = Clock()
    client, _ = guarded(clock, *[ModelUnavailable("It is down.")] * 5, "Back again for good.")
    fail(client, 5)
    clock.now += 61
    stream = client.stream(PROMPT)
    next(stream)
    stream.close()
    assert client.complete(PROMPT).text == "Back again for good."


def test_endpoints_do_not_share_a_breaker() -> None:
    breaker = CircuitBreaker(clock=Clock())
    client, _ = guarded(Clock(), ModelUnavailable("It is down."), breaker=breaker)
    fail(client, 5)
    other = BreakerClient(ScriptedModel(["Fine."]), breaker=breaker, endpoint="theirs")
    assert other.complete(PROMPT).text == "Fine."
