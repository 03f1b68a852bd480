from __future__ import annotations

import json
from typing import Any

import pytest

from openvibe.engines.llm.adaptations.adaptations import CallPlan
from openvibe.engines.llm.errors import (
    BadAnswer,
    ContextTooLong,
    EmptyAnswer,
    ModelError,
    ModelUnavailable,
    RateLimited,
)
from openvibe.engines.llm.http_client import Connection
from openvibe.engines.llm.openai.responses import ResponsesModel
from openvibe.engines.llm.openai.responses_requests import encode_items, encode_response_request
from openvibe.engines.llm.protocol import ModelClient
from openvibe.engines.llm.retries import CallLimits, RetryPolicy
from openvibe.engines.llm.values import (
    CallNotice,
    CallOptions,
    ChatMessage,
    Completion,
    ImagePart,
    ReasoningDelta,
    StreamEnd,
    TextDelta,
    TextReset,
    ToolCallRequest,
)
from tests.engines.llm.conformance import KEY, PROMPT, TEXT, TOOL, EndpointSuite, Pauses
from tests.engines.llm.model_server import Answer, FakeEndpoint, serving
from tests.engines.llm.responses_protocol import text_events

REASONING = {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "sealed"}


def client(server: FakeEndpoint, **limits: Any) -> ResponsesModel:
    policy = RetryPolicy(CallLimits(**limits), sleep=Pauses())
    return ResponsesModel(Connection(server.base_url, KEY, allow_private=True), model="gpt", retry_policy=policy)


def pieces_of(server: FakeEndpoint, *messages: ChatMessage, **more: Any) -> list[object]:
    return list(client(server, attempts=1).stream(messages or PROMPT, tools=[TOOL], max_output_tokens=50, **more))


def answer_of(server: FakeEndpoint, *messages: ChatMessage, **more: Any) -> Completion:
    *_, last = pieces_of(server, *messages, **more)
    assert isinstance(last, StreamEnd)
    return last.completion


def events(*values: dict[str, Any]) -> Answer:
    return Answer(body=b"".join(f"data: {json.dumps(value)}\n\n".encode() for value in values))


class TestResponsesModel(EndpointSuite):
    def build(self, connection: Connection, policy: RetryPolicy) -> ModelClient:
        return ResponsesModel(connection, model="gpt", retry_policy=policy)


def test_what_is_asked_is_what_the_protocol_wants() -> None:
    with serving(Answer(TEXT)) as server:
        answer_of(server, *PROMPT, ChatMessage("system", "Be short."))
    asked = server.asked[0]
    assert asked.path == "/v1/responses"
    assert asked.headers["authorization"] == f"Bearer {KEY}"
    assert (asked.body["store"], asked.body["include"]) == (False, ["reasoning.encrypted_content"])
    assert asked.body["instructions"] == PROMPT[0].content
    assert asked.body["input"] == [
        {"role": "user", "content": PROMPT[1].content},
        {"role": "system", "content": "Be short."},
    ]
    assert asked.body["tools"] == [
        {
            "type": "function",
            "name": TOOL.name,
            "description": TOOL.description,
            "parameters": TOOL.parameters,
            "strict": False,
        }
    ]
    assert (asked.body["max_output_tokens"], asked.body["reasoning"]) == (50, {"summary": "auto"})


def test_a_tool_round_goes_back_with_what_the_model_thought() -> None:
    with serving(
        Answer("Let me see.", thinking="Roses, then.", tool_calls=(("call_1", TOOL.name, "{}"),)), Answer(TEXT)
    ) as server:
        first = answer_of(server)
        assert (first.text, first.reasoning, first.stop_reason) == ("Let me see.", "Roses, then.", "tool_calls")
        assert first.usage.reasoning_tokens == 2
        spoken = ChatMessage("assistant", first.text, first.tool_calls, provider_fields=first.provider_fields)
        answer_of(server, *PROMPT, spoken, ChatMessage("tool", "", tool_call_id="call_1"))
    _, thought, message, call, result = server.asked[1].body["input"]
    assert (thought["type"], thought["encrypted_content"], thought["id"]) == ("reasoning", "sealed", "rs_1")
    assert (message["type"], message["content"][0]["text"]) == ("message", "Let me see.")
    assert (call["type"], call["call_id"], call["arguments"]) == ("function_call", "call_1", "{}")
    assert result == {"type": "function_call_output", "call_id": "call_1", "output": "(empty)"}


def test_what_does_not_belong_together_is_told_in_our_own_items() -> None:
    call = {"type": "function_call", "call_id": "call_1", "name": "x", "arguments": "{}"}
    two_calls = {"items": [REASONING, call, {**call, "call_id": "call_2"}]}
    message = ChatMessage("assistant", "Hm.", (ToolCallRequest("call:1", "x.y", "[]"),), provider_fields=two_calls)
    assert encode_items([message]) == [
        {"role": "assistant", "content": "Hm."},
        {"type": "function_call", "call_id": "call_1", "name": "x_y", "arguments": '{"malformed": "[]"}'},
    ]
    unsealed = {"items": [{"type": "reasoning", "id": "rs_1", "summary": []}, call]}
    kept = ChatMessage("assistant", "", (ToolCallRequest("call_1", "x", "{}"),), provider_fields=unsealed)
    assert encode_items([kept]) == [call], "a thought that stands in nobody's store is not looked up there"
    assert encode_items([ChatMessage("user", " ")]) == [{"role": "user", "content": "(It begins here.)"}]


def test_images_stand_beside_their_message() -> None:
    image = ImagePart("image/png", b"\x89PNG", 2, 2)
    (item,) = encode_items([ChatMessage("user", "Look."), ChatMessage("user", "Here.", images=(image,))])
    assert [part["type"] for part in item["content"]] == ["input_text", "input_text", "input_image"]
    assert item["content"][-1]["image_url"] == "data:image/png;base64,iVBORw=="


def test_what_is_thought_comes_beside_the_answer() -> None:
    with serving(
        events(
            {"type": "response.reasoning_summary_text.delta", "item_id": "rs_1", "summary_index": 0, "delta": "First."},
            {"type": "response.reasoning_summary_text.delta", "item_id": "rs_1", "summary_index": 1, "delta": "Then."},
            {"type": "response.reasoning_text.delta", "item_id": "rs_1", "content_index": 0, "delta": "First in full"},
            {"type": "response.output_text.delta", "item_id": "msg_1", "delta": "March."},
            {"type": "response.completed", "response": {"status": "completed"}},
        )
    ) as server:
        *pieces, last = pieces_of(server)
    assert pieces == [ReasoningDelta("First."), ReasoningDelta("\n\nThen."), TextDelta("March.")]
    assert isinstance(last, StreamEnd)
    assert (last.completion.text, last.completion.reasoning) == ("March.", "First.\n\nThen.")


def test_what_is_said_again_is_said_once_and_what_differs_counts() -> None:
    message = {"type": "message", "id": "msg_1", "content": [{"type": "output_text", "text": "In March."}]}
    done = {"type": "response.completed", "response": {"status": "completed", "output": [message]}}
    delta = {"type": "response.output_text.delta", "item_id": "msg_1", "output_index": 0}
    with serving(
        events({**delta, "delta": "In "}, {**delta, "delta": "March."}, done),
        events({**delta, "delta": "In M"}, {"type": "response.output_item.done", "item": message}, done),
        events({**delta, "delta": "In May"}, done),
        events(done),
    ) as server:
        assert pieces_of(server)[:-1] == [TextDelta("In "), TextDelta("March.")]
        assert pieces_of(server)[:-1] == [TextDelta("In M"), TextDelta("arch.")]
        assert pieces_of(server)[:-1] == [TextDelta("In May"), TextReset(), TextDelta("In March.")]
        assert answer_of(server).text == "In March."


def test_several_messages_are_one_text() -> None:
    said = [
        {"type": "message", "id": f"msg_{number}", "content": [{"type": "output_text", "text": text}]}
        for number, text in enumerate(("I look.", "In March."))
    ]
    with serving(
        Answer(body=json.dumps({"object": "response", "status": "completed", "output": said}).encode())
    ) as server:
        assert answer_of(server).text == "I look.\n\nIn March."


def test_stop_reasons_are_ours() -> None:
    refusal = {"type": "message", "content": [{"type": "refusal", "refusal": "I cannot say."}]}
    with serving(
        Answer(TEXT, finish_reason="length"),
        Answer(TEXT, finish_reason="content_filter"),
        Answer(body=text_events("Hello")),
        events({"type": "response.completed", "response": {"status": "completed", "output": [refusal]}}),
        Answer(finish_reason="content_filter"),
    ) as server:
        assert answer_of(server).stop_reason == "length"
        assert answer_of(server).stop_reason == "content_filter"
        assert (answer_of(server).stop_reason, answer_of(server).text) == ("stop", "I cannot say.")
        with pytest.raises(EmptyAnswer, match="content filter"):
            answer_of(server)


@pytest.mark.parametrize(
    ("event", "error", "words"),
    [
        ({"type": "error", "code": "rate_limit_exceeded", "message": "Slow down"}, RateLimited, "Slow down"),
        ({"type": "error", "error": {"code": "server_error", "message": "Oops"}}, ModelUnavailable, "Oops"),
        (
            {
                "type": "response.failed",
                "response": {"status": "failed", "error": {"code": "server_error", "message": "x"}},
            },
            ModelUnavailable,
            "",
        ),
        (
            {
                "type": "response.failed",
                "response": {"error": {"code": "context_length_exceeded", "message": "too long"}},
            },
            ContextTooLong,
            "too long",
        ),
        ({"type": "response.failed", "response": {"status": "failed"}}, ModelUnavailable, "failed"),
        ({"type": "response.output_item.done", "item": "what"}, BadAnswer, "format of the Responses API"),
        ({"type": "response.output_item.done", "item": {"type": "function_call"}}, BadAnswer, "without naming it"),
        ({"type": "response.created", "response": {}}, ModelUnavailable, "broke off"),
    ],
)
def test_an_error_in_mid_stream_is_typed(event: dict[str, Any], error: type[ModelError], words: str) -> None:
    with serving(events(event)) as server, pytest.raises(error, match=words or None):
        answer_of(server)


@pytest.mark.parametrize(
    ("message", "param", "missing"),
    [
        (
            "Unsupported parameter: 'reasoning.summary' is not supported with this model.",
            "reasoning.summary",
            "reasoning",
        ),
        ("Your organization must be verified to generate reasoning summaries.", "reasoning.summary", "reasoning"),
        ("Encrypted content is not supported with this model.", "include", "include"),
        ("Unsupported parameter: 'max_output_tokens'", "max_output_tokens", "max_output_tokens"),
    ],
)
def test_what_a_model_refuses_is_left_out(message: str, param: str, missing: str) -> None:
    refusal = Answer(status=400, error={"message": message, "param": param, "code": "unsupported_parameter"})
    with serving(refusal, Answer(TEXT)) as server:
        completion = answer_of(server)
        assert completion.text == TEXT
        assert len(completion.notices) == 1
    first, second = (asked.body for asked in server.asked)
    assert {name for name in first if name not in second} == {missing}


def test_options_are_said_in_its_words() -> None:
    schema = {"type": "object", "properties": {}}
    options = CallOptions(
        effort="low",
        temperature=0.5,
        seed=3,
        stop=("END",),
        parallel_tool_calls=False,
        response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": schema, "strict": True}},
        tool_choice="rose",
    )
    with serving(Answer(TEXT)) as server:
        pieces = pieces_of(server, options=options)
    body = server.asked[0].body
    assert body["reasoning"] == {"effort": "low", "summary": "auto"}
    assert (body["temperature"], body["parallel_tool_calls"]) == (0.5, False)
    assert body["text"] == {"format": {"type": "json_schema", "name": "x", "schema": schema, "strict": True}}
    assert {"seed", "stop"}.isdisjoint(body)
    assert {piece.code for piece in pieces if isinstance(piece, CallNotice)} == {"no_seed", "no_stop"}
    assert body["tool_choice"] == {"type": "function", "name": "rose"}
    plan = CallPlan(PROMPT, options=CallOptions(effort="off"), asks_for_thought_summary=True)
    assert encode_response_request("gpt", plan)["reasoning"] == {"effort": "none"}


def test_endless_items_are_no_answer() -> None:
    nested: Any = "x"
    for _ in range(60):
        nested = {"x": nested}
    huge = {"type": "reasoning", "encrypted_content": "x" * 17_000_000}
    for item in ({"type": "reasoning", "content": nested}, huge):
        with serving(events({"type": "response.output_item.done", "item": item})) as server, pytest.raises(BadAnswer):
            answer_of(server)
