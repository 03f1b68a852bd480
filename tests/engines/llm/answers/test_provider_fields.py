"""What a provider wants back: merged as it came, counted, and given to nobody else."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest_django.fixtures import Settings

from openvibe.engines.llm.answers.provider_fields import MAX_CHARACTERS, ORIGIN, FieldMerger, with_own_fields
from openvibe.engines.llm.endpoints.endpoints import client_for
from openvibe.engines.llm.errors import BadAnswer
from openvibe.engines.llm.models import Endpoint
from openvibe.engines.llm.tokens import count_message, counter_for
from openvibe.engines.llm.values import ChatMessage, Completion, StreamEnd, ToolCallRequest
from openvibe.workspaces.models import Member
from tests.engines.llm.answers.test_answer_shapes import both, fragment, stream_of, streamed
from tests.engines.llm.conformance import PROMPT
from tests.engines.llm.factories import EndpointFactory
from tests.engines.llm.model_server import Answer, FakeEndpoint, serving

COUNTER = counter_for("gpt-4o")


def merged(*deltas: dict[str, Any]) -> dict[str, Any]:
    merger = FieldMerger()
    for delta in deltas:
        merger.add(delta)
    return merger.fields()


def test_fields_are_merged_by_their_kind() -> None:
    first = {"a": "x", "n": 1, "o": {"k": "u"}, "l": [{"index": 0, "type": "t", "text": "1"}, "s"]}
    second = {"a": "y", "n": 2, "o": {"m": 3}, "l": [{"index": 0, "type": "t", "text": "2"}, {"index": 1}], "z": None}
    assert merged(first, second) == {
        "a": "xy",
        "n": 2,
        "o": {"k": "u", "m": 3},
        "l": [{"index": 0, "type": "t", "text": "12"}, "s", {"index": 1}],
    }


@given(st.recursive(st.text(max_size=5) | st.integers(), lambda each: st.dictionaries(st.text(max_size=3), each)))
def test_what_comes_whole_goes_back_word_for_word(value: Any) -> None:
    assert merged({"value": value}) == {"value": value}
    assert json.loads(json.dumps(merged({"value": value}))) == {"value": value}


def test_a_signature_of_a_megabyte_is_kept_and_counted_by_its_length() -> None:
    signature = "QUJD" * 250_000
    call = {"extra_content": {"google": {"thought_signature": signature}}}
    answer = streamed(stream_of(fragment("a", "{}", index=0, id="1", **call), reason="tool_calls"))
    assert answer.tool_calls[0].provider_fields == call
    message = ChatMessage("assistant", "", answer.tool_calls)
    assert 250_000 <= count_message(message, COUNTER) < 251_000


def test_reasoning_of_a_hundred_thousand_tokens_is_read_and_counted() -> None:
    pieces = [{"reasoning_content": "Look at the roses. " * 100} for _ in range(240)]
    answer = streamed(stream_of(*pieces, {"content": "In March."}))
    assert answer.reasoning == answer.provider_fields["reasoning_content"]
    assert count_message(ChatMessage("assistant", "", provider_fields=answer.provider_fields), COUNTER) > 100_000


@pytest.mark.parametrize("value", ["a" * (MAX_CHARACTERS + 1), json.loads("[" * 60 + "]" * 60)])
def test_what_is_endless_or_endlessly_deep_is_no_answer(value: Any) -> None:
    with pytest.raises(BadAnswer, match="beside the model's answer"):
        merged({"more": value})


def test_whole_and_streamed_fields_are_the_same() -> None:
    answer = both(stream_of({"reasoning": "Hm.", "extra_content": {"x": ["y"]}}, {"content": "In March."}))
    assert answer.provider_fields == {"reasoning": "Hm.", "extra_content": {"x": ["y"]}}
    assert answer.reasoning == "Hm."


@pytest.fixture
def asked_again(ana: Member, settings: Settings) -> Any:
    """What a changed endpoint is sent of an answer with reasoning and a signed call, which the first one gave."""
    settings.ALLOW_PRIVATE_ENDPOINTS = True
    call = {"id": "1", "index": 0, "function": {"name": "a", "arguments": "{}"}, "extra_content": {"x": "signed"}}
    body = stream_of({"reasoning_content": "Hm."}, {"tool_calls": [call]}, reason="tool_calls")

    def ask(**changes: Any) -> tuple[Completion, dict[str, Any]]:
        with serving(Answer(body=body), Answer("In March.")) as server:
            endpoint = endpoint_at(server, ana)
            *_, end = client_for(endpoint).stream(PROMPT)
            assert isinstance(end, StreamEnd)
            answer = end.completion
            for name, value in changes.items():
                setattr(endpoint, name, value)
            endpoint.save()
            said = ChatMessage("assistant", "", answer.tool_calls, provider_fields=answer.provider_fields)
            client_for(endpoint).complete((*PROMPT, said, ChatMessage("tool", "Done.", tool_call_id="1")))
        return answer, server.asked[1].body["messages"][-2]

    return ask


def endpoint_at(server: FakeEndpoint, by: Member) -> Endpoint:
    return EndpointFactory.create(
        workspace=by.workspace, name="Signing", base_url=server.base_url, api_key="sk-1", model="m"
    )


def test_fields_go_back_to_whom_they_came_from(asked_again: Any) -> None:
    answer, sent = asked_again()
    assert answer.provider_fields[ORIGIN]
    assert (sent["reasoning_content"], sent["tool_calls"][0]["extra_content"]) == ("Hm.", {"x": "signed"})
    assert ORIGIN not in sent


@pytest.mark.parametrize("changes", [{"model": "other"}, {"api_key": "sk-2"}])
def test_nobody_else_is_sent_them(asked_again: Any, changes: dict[str, str]) -> None:
    _, sent = asked_again(**changes)
    assert "reasoning_content" not in sent
    assert "extra_content" not in sent["tool_calls"][0]


def test_fields_of_unknown_origin_are_sent_to_nobody() -> None:
    call = ToolCallRequest("1", "a", "{}", {"x": 1})
    message = ChatMessage("assistant", "Hi", (call,), provider_fields={"y": 2})
    assert with_own_fields([message], "here")[0].provider_fields == {}
    assert with_own_fields([message], "here")[0].tool_calls[0].provider_fields == {}
    own = replace(message, provider_fields={"y": 2, ORIGIN: "here"})
    assert with_own_fields([own], "here")[0].tool_calls[0].provider_fields == {"x": 1}
