from __future__ import annotations

from typing import Any

import pytest

from openvibe.engines.llm.anthropic.client import MAX_BREAKPOINTS, AnthropicModel, build_request, choose_breakpoints
from openvibe.engines.llm.errors import (
    AuthRefused,
    ContextTooLong,
    EmptyAnswer,
    ModelError,
    ModelUnavailable,
    RateLimited,
)
from openvibe.engines.llm.http_client import Connection
from openvibe.engines.llm.protocol import ModelClient
from openvibe.engines.llm.retries import CallLimits, RetryPolicy
from openvibe.engines.llm.values import ChatMessage, Completion, StreamEnd, ToolCallRequest
from tests.engines.llm.conformance import KEY, PROMPT, TEXT, TOOL, EndpointSuite, Pauses
from tests.engines.llm.model_server import Answer, FakeEndpoint, serving

LONG = "Prune in March. " * 200


def client(server: FakeEndpoint, **limits: Any) -> AnthropicModel:
    policy = RetryPolicy(CallLimits(**limits), sleep=Pauses())
    return AnthropicModel(Connection(server.base_url, KEY, allow_private=True), model="claude", retry_policy=policy)


def answer_of(server: FakeEndpoint, *messages: ChatMessage) -> Completion:
    *_, last = client(server, attempts=1).stream(messages or PROMPT, tools=[TOOL], max_output_tokens=50)
    assert isinstance(last, StreamEnd)
    return last.completion


class TestAnthropicModel(EndpointSuite):
    def build(self, connection: Connection, policy: RetryPolicy) -> ModelClient:
        return AnthropicModel(connection, model="claude", retry_policy=policy)


def test_what_is_asked_is_what_the_protocol_wants() -> None:
    with serving(Answer(TEXT)) as server:
        answer_of(server)
    asked = server.asked[0]
    assert asked.path == "/v1/messages", "whether or not the address ends in /v1"
    assert (asked.headers["x-api-key"], "authorization" in asked.headers) == (KEY, False)
    assert asked.headers["anthropic-version"]
    assert asked.body["max_tokens"] == 50
    assert asked.body["system"] == [{"type": "text", "text": PROMPT[0].content}]
    assert [message["role"] for message in asked.body["messages"]] == ["user"]
    assert asked.body["tools"] == [
        {"name": TOOL.name, "description": TOOL.description, "input_schema": TOOL.parameters}
    ]


def test_what_is_read_from_the_cache_and_written_to_it_is_part_of_the_prompt() -> None:
    with serving(Answer(TEXT, cached_tokens=900, cache_write_tokens=70)) as server:
        usage = answer_of(server).usage
    assert (usage.cached_tokens, usage.cache_write_tokens) == (900, 70)
    assert usage.input_tokens > 970
    assert usage.output_tokens == len(TEXT.split())


def test_a_tool_round_goes_back_with_what_the_model_thought() -> None:
    with serving(Answer(thinking="Roses, then.", tool_calls=(("toolu_1", TOOL.name, "{}"),)), Answer(TEXT)) as server:
        first = answer_of(server)
        assert first.text == ""
        spoken = ChatMessage("assistant", "Let me see.", first.tool_calls, provider_fields=first.provider_fields)
        odd = ToolCallRequest("call:2", TOOL.name, "[not an object]")
        answer_of(
            server,
            *PROMPT,
            spoken,
            ChatMessage("tool", "Nothing found.", tool_call_id="toolu_1"),
            ChatMessage("user", "One round left."),
            ChatMessage("assistant", "", (odd,)),
            ChatMessage("tool", "", tool_call_id="call:2"),
        )
    _, call, result, second_call, second_result = server.asked[1].body["messages"]
    assert [block["type"] for block in call["content"]] == ["thinking", "text", "tool_use"]
    assert call["content"][0] == {"type": "thinking", "thinking": "Roses, then.", "signature": "signed"}
    assert [block["type"] for block in result["content"]] == ["tool_result", "text"]
    assert second_call["content"][0]["input"] == {"malformed": "[not an object]"}
    assert second_call["content"][0]["id"] == second_result["content"][0]["tool_use_id"] == "call_2"


def test_a_refusal_is_said_and_no_broken_off_answer() -> None:
    refused = Answer("Prune them", finish_reason="content_filter")
    with serving(refused) as server, pytest.raises(EmptyAnswer, match="It says: This cannot be answered"):
        answer_of(server)


def test_stop_reasons_are_ours() -> None:
    with serving(Answer(TEXT, finish_reason="length"), Answer(finish_reason="model_context_window_exceeded")) as server:
        assert answer_of(server).stop_reason == "length"
        with pytest.raises(ContextTooLong):
            answer_of(server)


@pytest.mark.parametrize(
    ("kind", "message", "error"),
    [
        ("overloaded_error", "Overloaded", ModelUnavailable),
        ("rate_limit_error", "Slow down", RateLimited),
        ("authentication_error", "invalid x-api-key", AuthRefused),
        ("invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum", ContextTooLong),
        ("invalid_request_error", "Your credit balance is too low", RateLimited),
    ],
)
def test_an_error_in_mid_stream_is_typed(kind: str, message: str, error: type[ModelError]) -> None:
    body = f'event: error\ndata: {{"type": "error", "error": {{"type": "{kind}", "message": "{message}"}}}}\n\n'
    with serving(Answer(body=body.encode())) as server, pytest.raises(error, match=message[:8]):
        answer_of(server)


def marked(*lengths: int) -> list[ChatMessage]:
    return [ChatMessage("user", "x" * length, ends_stable_part=True) for length in lengths]


def test_the_prompt_is_cached_after_each_stable_part() -> None:
    messages = [
        ChatMessage("system", LONG, ends_stable_part=True),
        ChatMessage("user", "What the workspace is.", ends_stable_part=True),
        ChatMessage("user", "Ana: When?"),
        ChatMessage("assistant", "In March.", ends_stable_part=True),
        ChatMessage("user", "It is noon."),
        ChatMessage("user", "Ana: And now?"),
    ]
    request = build_request("claude", messages, [TOOL], 100)
    cached = [
        block["text"]
        for part in ({"content": request["system"]}, *request["messages"])
        for block in part["content"]
        if "cache_control" in block
    ]
    assert cached == [LONG, "What the workspace is.", "In March."]


def test_breakpoints_are_few_and_do_something() -> None:
    assert choose_breakpoints(marked(100, 1_000, 800)) == frozenset(), "no model caches so little"
    assert choose_breakpoints(marked(100, 5_000, 10)) == {1, 2}
    assert choose_breakpoints(marked(100, 2_500, 10, 10, 10, 10)) == {1, 3, 4, 5}
    assert len(choose_breakpoints(marked(*[5_000] * 20))) == MAX_BREAKPOINTS
    assert choose_breakpoints([ChatMessage("user", LONG)]) == frozenset()
