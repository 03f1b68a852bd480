from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from openvibe.engines.llm.errors import ContextTooLong, ModelUnavailable, RateLimited
from openvibe.engines.llm.http_client import Connection
from openvibe.engines.llm.openai.client import OpenAIModel
from openvibe.engines.llm.protocol import ModelClient
from openvibe.engines.llm.retries import CallLimits, RetryPolicy
from openvibe.engines.llm.values import ChatMessage, StreamEnd, ToolCallRequest
from tests.engines.llm.conformance import KEY, PROMPT, TEXT, EndpointSuite, Pauses
from tests.engines.llm.model_server import Answer, Asked, FakeEndpoint, serving


def client(server: FakeEndpoint, *, pauses: Pauses | None = None, **limits: Any) -> OpenAIModel:
    policy = RetryPolicy(CallLimits(**limits), sleep=Pauses() if pauses is None else pauses)
    return OpenAIModel(Connection(server.base_url, KEY, allow_private=True), model="gpt-4o-mini", retry_policy=policy)


class TestOpenAIModel(EndpointSuite):
    def build(self, connection: Connection, policy: RetryPolicy) -> ModelClient:
        return OpenAIModel(connection, model="gpt-4o-mini", retry_policy=policy)


def test_what_is_asked_is_what_the_protocol_wants() -> None:
    with serving(Answer(TEXT)) as server:
        client(server).complete(PROMPT, max_output_tokens=50)
    asked = server.asked[0]
    assert asked.path == "/v1/chat/completions"
    assert asked.headers["authorization"] == f"Bearer {KEY}"
    assert "openai-organization" not in asked.headers
    assert asked.body["max_tokens"] == 50
    assert [m["role"] for m in asked.body["messages"]] == ["system", "user"]


def test_what_people_say_stands_by_itself_and_what_the_model_said_is_one_message() -> None:
    """A small model answers best where the question is a message of its own."""
    call = ToolCallRequest("call_1", "memory", "{}")
    result = ChatMessage("tool", "Nothing found.", tool_call_id="call_1")
    messages = [
        ChatMessage("system", "Be kind."),
        ChatMessage("user", "<data>\nBed 1\n</data>\n\n"),
        ChatMessage("user", "<messages>\n1 Ana: Hello\n</messages>"),
        ChatMessage("assistant", "Hello."),
        ChatMessage("assistant", "In March."),
        ChatMessage("user", "When?"),
        ChatMessage("assistant", "", (call, replace(call, id="call_2"))),
        result,
        replace(result, tool_call_id="call_2"),
        ChatMessage("user", "Answer now."),
    ]
    with serving(Answer(TEXT)) as server:
        client(server).complete(messages)
    sent = [(message["role"], message["content"]) for message in server.asked[0].body["messages"]]
    assert sent == [
        ("system", "Be kind."),
        ("user", "<data>\nBed 1\n</data>\n\n"),
        ("user", "<messages>\n1 Ana: Hello\n</messages>"),
        ("assistant", "Hello.\n\nIn March."),
        ("user", "When?"),
        ("assistant", None),
        ("tool", "Nothing found."),
        ("tool", "Nothing found."),
        ("user", "Answer now."),
    ]


@pytest.mark.parametrize(
    ("name", "arguments", "sent"),
    [
        ("multi_tool_use.parallel", '{"x": 1}', ("multi_tool_use_parallel", '{"x": 1}')),
        ("look up!", '{"x":1 }', ("look_up_", '{"x":1 }')),
        ("a" * 90, '{"query": "ros', ("a" * 64, '{"malformed": "{\\"query\\": \\"ros"}')),
        ("memory", "[1]", ("memory", '{"malformed": "[1]"}')),
        ("memory", '{"malformed": 1}', ("memory", '{"malformed": 1}')),
    ],
)
def test_a_call_goes_back_in_a_form_that_endpoints_take(name: str, arguments: str, sent: tuple[str, str]) -> None:
    """OpenAI refuses names with other letters, llama.cpp and vLLM arguments that are no object, even their model's."""
    call = ToolCallRequest("call_1", name, arguments)
    result = ChatMessage("tool", "No such tool.", tool_call_id="call_1")
    with serving(Answer(TEXT)) as server:
        client(server).complete([*PROMPT, ChatMessage("assistant", "", (call,)), result])
    function = server.asked[0].body["messages"][-2]["tool_calls"][0]["function"]
    assert (function["name"], function["arguments"]) == sent


def test_an_endpoint_that_says_nothing_of_its_cache_has_not_said_zero() -> None:
    with serving(Answer(TEXT, cached_tokens=None)) as server:
        whole = client(server).complete(PROMPT).usage
        *_, last = client(server).stream(PROMPT)
    assert isinstance(last, StreamEnd)
    assert (whole.cached_tokens, last.completion.usage.cached_tokens) == (None, None)
    with serving(Answer(TEXT)) as server:
        assert client(server).complete(PROMPT).usage.cached_tokens == 0


@pytest.mark.parametrize(
    ("reported", "cached"),
    [
        ({"prompt_cache_hit_tokens": 5}, 5),  # DeepSeek's name
        ({"prompt_tokens_details": {"cached_tokens": 5}, "prompt_cache_hit_tokens": 4}, 5),
        ({"prompt_tokens_details": {"cached_tokens": 900}}, 20),  # more than was sent
        ({"prompt_tokens_details": {"cached_tokens": -1}}, None),
        ({"prompt_tokens_details": "many"}, None),
    ],
)
def test_cached_tokens_are_read_by_either_name(reported: dict[str, Any], cached: int | None) -> None:
    answer = {"choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": TEXT}}]}
    usage = {"prompt_tokens": 20, "completion_tokens": 9} | reported
    with serving(Answer(body=json.dumps(answer | {"usage": usage}).encode())) as server:
        assert client(server).complete(PROMPT).usage.cached_tokens == cached


def test_an_endpoint_that_knows_no_stream_options_streams_without() -> None:
    error = {"message": "Unrecognized request argument: stream_options", "code": None, "type": "invalid_request_error"}

    def strict(asked: Asked) -> Answer:
        return Answer(status=400, error=error) if "stream_options" in asked.body else Answer(TEXT)

    with serving(script=strict) as server:
        model = client(server, attempts=1)
        for _ in range(2):
            *_, last = model.stream(PROMPT)
            assert isinstance(last, StreamEnd)
            assert last.completion.text == TEXT
            assert (last.completion.usage.input_tokens > 20, last.completion.usage.cached_tokens) == (True, None)
    assert len(server.asked) == 3, "it is asked once only"


def test_a_used_up_quota_is_not_tried_again() -> None:
    error = {"message": "You exceeded your quota", "code": "insufficient_quota", "type": "insufficient_quota"}
    with serving(Answer(status=429, error=error)) as server, pytest.raises(RateLimited) as problem_error:
        client(server).complete(PROMPT)
    assert "quota" in str(problem_error.value)
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    "error",
    [
        {"message": "too many tokens", "code": "context_length_exceeded", "type": "invalid_request_error"},
        {"message": "This model's maximum context length is 4096 tokens.", "code": None, "type": "x"},
        {"message": "the request exceeds the available context size", "code": 400, "type": "x"},
    ],
)
def test_a_prompt_that_is_too_long_is_told_apart(error: dict[str, Any]) -> None:
    with serving(Answer(status=400, error=error)) as server, pytest.raises(ContextTooLong):
        client(server).complete(PROMPT)


def test_an_error_told_in_mid_stream_is_an_error() -> None:
    body = b'data: {"error": {"message": "out of memory", "type": "server_error"}}\n\n'
    with serving(Answer(body=body)) as server, pytest.raises(ModelUnavailable, match="out of memory"):
        list(client(server, attempts=1).stream(PROMPT))


def test_an_endpoint_that_wants_the_other_limit_name_gets_it() -> None:
    message = "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."
    error = {"message": message, "param": "max_tokens", "code": "unsupported_parameter", "type": "x"}
    pauses = Pauses()
    with serving(Answer(status=400, error=error), Answer(TEXT)) as server:
        assert client(server, pauses=pauses).complete(PROMPT, max_output_tokens=9).text == TEXT
    assert server.asked[1].body["max_completion_tokens"] == 9
    assert "max_tokens" not in server.asked[1].body
    assert pauses == []
