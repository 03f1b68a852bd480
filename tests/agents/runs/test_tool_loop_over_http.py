"""A run whose model stands behind the real protocol: what is sent after a call is what endpoints accept."""

from collections.abc import Iterator

import pytest
from pytest_django.fixtures import Settings

from agents.models import Agent
from agents.runs.executor import execute_run
from openvibe.chat.models import Thread
from openvibe.workspaces.models import Member
from tests.agents.runs.scripted_runs import ask, reply_of
from tests.engines.llm.factories import EndpointFactory
from tests.engines.llm.model_server import Answer, FakeEndpoint, serving

CALL = ("call_0", "log_progress", '{"checkpoint": "Bed 1 is mulched"}')


@pytest.fixture
def endpoint(ana: Member, settings: Settings) -> Iterator[FakeEndpoint]:
    settings.ALLOW_PRIVATE_ENDPOINTS = True
    noting = Answer("Let me note that.", tool_calls=(CALL,), cached_tokens=64)
    with serving(noting, Answer(tool_calls=(CALL,), cached_tokens=128), Answer("In March.")) as server:
        EndpointFactory.create(
            workspace=ana.workspace,
            name="Steered",
            base_url=server.base_url,
            api_key="sk-test",
            model="gpt-4o",
            is_default=True,
        )
        yield server


def test_calls_and_results_are_sent_as_the_protocol_wants_them(
    endpoint: FakeEndpoint, ana: Member, vibe: Agent, thread: Thread
) -> None:
    run = ask(thread, ana)
    execute_run(run.pk)
    run.refresh_from_db()
    assert run.state == "done", run.error
    assert reply_of(run).body == "Let me note that.\n\nIn March."
    first, second, third = (asked.body for asked in endpoint.asked)
    assert {tool["function"]["name"] for tool in first["tools"]} == {"more_tools"}, "the others are there on demand"
    *_, assistant, result = second["messages"]
    assert assistant["content"] == "Let me note that."
    assert [call["id"] for call in assistant["tool_calls"]] == [result["tool_call_id"]] == ["call_0"]
    assert "Logged as progress" in result["content"]
    ids = [message["tool_call_id"] for message in third["messages"] if message["role"] == "tool"]
    assert len(set(ids)) == 2
    assert run.cached_tokens == 192
    assert run.output_tokens > 0
