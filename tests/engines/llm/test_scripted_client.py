from __future__ import annotations

from threading import Event

import pytest

from openvibe.engines.llm.errors import ModelError, ModelUnavailable
from openvibe.engines.llm.protocol import ModelClient
from tests.engines.llm.conformance import CALLS, PROMPT, FailingSuite, ModelClientSuite, ToolCallingSuite
from tests.engines.llm.scripted_client import ScriptedAnswer, ScriptedModel


class TestScriptedModel(ModelClientSuite, ToolCallingSuite, FailingSuite):
    @pytest.fixture
    def answering(self) -> ModelClient:
        return ScriptedModel(["Prune them in March, before the buds open."])

    @pytest.fixture
    def calling(self) -> ModelClient:
        return ScriptedModel([ScriptedAnswer(tool_calls=CALLS)])

    def failing(self, error: type[ModelError]) -> ModelClient:
        return ScriptedModel([error("It went wrong.")])

    def breaking_off(self) -> ModelClient:
        return ScriptedModel([ScriptedAnswer("One two", then=ModelUnavailable("It broke off."))])

    def waiting(self, reached: Event, go_on: Event) -> ModelClient:
        return ScriptedModel([ScriptedAnswer("One two", reached=reached, go_on=go_on, hold_before=1)])


def test_replies_come_in_order_and_the_last_one_again() -> None:
    model = ScriptedModel(["One.", lambda messages: f"{len(messages)} messages."])
    assert [model.complete(PROMPT).text for _ in range(3)] == ["One.", "2 messages.", "2 messages."]


def test_it_remembers_what_it_was_asked() -> None:
    model = ScriptedModel()
    model.complete(PROMPT, max_output_tokens=7)
    assert model.calls[0].messages == PROMPT
    assert model.calls[0].max_output_tokens == 7
