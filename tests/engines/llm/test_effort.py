"""How long a model may think, in the words of each protocol, and where an endpoint wants other words."""

from __future__ import annotations

from typing import Any

import pytest

from openvibe.engines.llm.adaptations.adapted_calls import AdaptationMemory
from openvibe.engines.llm.anthropic.client import AnthropicModel
from openvibe.engines.llm.http_client import Connection
from openvibe.engines.llm.openai.client import OpenAIModel
from openvibe.engines.llm.openai.responses import ResponsesModel
from openvibe.engines.llm.retries import RetryPolicy
from openvibe.engines.llm.values import CallOptions
from tests.engines.llm.conformance import KEY, PROMPT, TEXT, Pauses
from tests.engines.llm.model_server import Answer, FakeEndpoint, serving

CLIENTS: dict[str, type[OpenAIModel | AnthropicModel]] = {
    "openai": OpenAIModel,
    "anthropic": AnthropicModel,
    "responses": ResponsesModel,
}
NOT_ADAPTIVE = "adaptive thinking is not supported on this model"
NO_EFFORT = "This model does not support the effort parameter."


def bodies(
    server: FakeEndpoint, protocol: str, options: CallOptions, limit: int | None = 4_000
) -> list[dict[str, Any]]:
    connection, policy = Connection(server.base_url, KEY, allow_private=True), RetryPolicy(sleep=Pauses())
    client = CLIENTS[protocol](connection, model="m", retry_policy=policy, adaptations=AdaptationMemory())
    assert client.complete(PROMPT, max_output_tokens=limit, options=options).text == TEXT
    return [asked.body for asked in server.asked]


@pytest.mark.parametrize(
    ("protocol", "effort", "fields"),
    [
        ("openai", "off", {"reasoning_effort": "none"}),
        ("openai", "high", {"reasoning_effort": "high"}),
        ("responses", "off", {"reasoning": {"effort": "none"}}),
        ("responses", "medium", {"reasoning": {"effort": "medium", "summary": "auto"}}),
        ("anthropic", "off", {"thinking": {"type": "disabled"}}),
        (
            "anthropic",
            "low",
            {"thinking": {"type": "adaptive", "display": "summarized"}, "output_config": {"effort": "low"}},
        ),
        ("openai", None, {}),
        ("responses", None, {"reasoning": {"summary": "auto"}}),
        ("anthropic", None, {}),
    ],
)
def test_each_protocol_has_its_words_for_effort(protocol: str, effort: Any, fields: dict[str, Any]) -> None:
    with serving(Answer(TEXT)) as server:
        (body,) = bodies(server, protocol, CallOptions(effort=effort))
    names = ("reasoning_effort", "reasoning", "thinking", "output_config")
    assert {name: body[name] for name in names if name in body} == fields


@pytest.mark.parametrize("refusal", [NOT_ADAPTIVE, NO_EFFORT, "output_config: Extra inputs are not permitted"])
@pytest.mark.parametrize(
    ("limit", "effort", "budget"), [(8_000, "low", 2_000), (2_000, "high", 1_600), (100_000, "low", 4_096)]
)
def test_an_older_model_thinks_within_a_budget(refusal: str, limit: int, effort: Any, budget: int) -> None:
    refused = Answer(status=400, error={"type": "invalid_request_error", "message": refusal})
    with serving(refused, Answer(TEXT)) as server:
        body = bodies(server, "anthropic", CallOptions(effort=effort), limit)[-1]
    assert body["thinking"] == {"type": "enabled", "budget_tokens": budget}
    assert "output_config" not in body
    assert 1_024 <= budget < body["max_tokens"]


def test_an_answer_too_short_for_a_thought_has_none() -> None:
    refused = Answer(status=400, error={"type": "invalid_request_error", "message": NOT_ADAPTIVE})
    with serving(refused, Answer(TEXT)) as server:
        assert "thinking" not in bodies(server, "anthropic", CallOptions(effort="high"), 900)[-1]


def test_a_thought_and_a_temperature_exclude_one_another_there() -> None:
    with serving(Answer(TEXT)) as server:
        (thinks,) = bodies(server, "anthropic", CallOptions(effort="low", temperature=0.2, top_p=0.5))
        (_, does_not) = bodies(server, "anthropic", CallOptions(effort="off", temperature=0.2))
    assert {"temperature", "top_p"}.isdisjoint(thinks)
    assert does_not["temperature"] == 0.2


@pytest.mark.parametrize(
    ("protocol", "message", "effort"),
    [
        (
            "openai",
            "Unsupported value: 'none' is not supported. Supported values are: 'minimal', 'low', 'medium'.",
            "minimal",
        ),
        ("responses", "Unsupported value: 'none' is not supported. Supported values are: 'low' and 'high'.", "low"),
        ("openai", "Unrecognized request argument supplied: reasoning_effort", None),
    ],
)
def test_a_model_that_cannot_do_without_thinks_as_little_as_it_can(
    protocol: str, message: str, effort: str | None
) -> None:
    param = "reasoning_effort" if protocol == "openai" else "reasoning.effort"
    refused = Answer(status=400, error={"code": "unsupported_value", "param": param, "message": message})
    with serving(refused, Answer(TEXT)) as server:
        body = bodies(server, protocol, CallOptions(effort="off"))[-1]
    said = body.get("reasoning_effort") or body.get("reasoning", {}).get("effort")
    assert said == effort
