"""Answers in the shapes that endpoints give them besides the documented one."""

from __future__ import annotations

import json
from typing import Any

import pytest

from openvibe.llm.errors import BadAnswer, ModelUnavailable
from openvibe.llm.values import Completion, StreamEnd
from tests.llm.conformance import PROMPT
from tests.llm.model_server import Answer, serving
from tests.llm.test_openai import client

ONE = [("a", '{"x": 1}')]
TWO = [("a", '{"x": 1}'), ("b", '{"y": 2}')]


def fragment(name: str | None = None, arguments: Any = "", **more: Any) -> dict[str, Any]:
    return {"tool_calls": [{"function": {"name": name, "arguments": arguments}, **more}]}


def stream_of(*deltas: dict[str, Any], reason: str | None = "stop", is_ended: bool = True) -> bytes:
    choices: list[dict[str, Any]] = [{"index": 0, "delta": delta} for delta in deltas]
    if reason:
        choices.append({"index": 0, "delta": {}, "finish_reason": reason})
    lines = [json.dumps({"id": "chat-1", "choices": [choice]}) for choice in choices]
    return b"".join(b"data: " + line.encode() + b"\n\n" for line in [*lines, *(["[DONE]"] if is_ended else [])])


def streamed(body: bytes) -> Completion:
    with serving(Answer(body=body)) as server:
        *_, last = client(server, attempts=1).stream(PROMPT)
    assert isinstance(last, StreamEnd)
    return last.completion


def whole(message: dict[str, Any]) -> Completion:
    answer = {"id": "chat-1", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
    with serving(Answer(body=json.dumps(answer).encode())) as server:
        return client(server, attempts=1).complete(PROMPT)


@pytest.mark.parametrize(
    ("fragments", "calls"),
    [
        ([fragment("a", '{"x": 1}', index=0, id="1"), fragment("b", '{"y": 2}', index=0, id="2")], TWO),
        ([fragment("a", '{"x": 1}', id="1"), fragment("b", '{"y": 2}', id="2")], TWO),
        ([fragment("a", '{"x": 1}'), fragment("b", '{"y": 2}')], TWO),
        ([fragment("a", '{"x":', id="1"), fragment(None, " 1}", id="1")], ONE),
        ([fragment("a", '{"x":', id="1"), fragment("a", " 1}", id="1")], ONE),
        ([fragment("a", '{"x":'), fragment("a", " 1}")], ONE),
        ([fragment("a", '{"x":'), fragment(None, " 1}", id="1")], ONE),
        ([fragment("a", '{"x":', index=0, id="1"), fragment(None, " 1}", index=0, id="9")], ONE),
        (
            [
                *(fragment("a", '{"x":', id="1"), fragment("b", '{"y":', id="2")),
                *(fragment(None, " 1}", id="1"), fragment(None, " 2}", id="2")),
            ],
            TWO,
        ),
        (
            [
                *(fragment("a", '{"x":', index=0, id="1"), fragment("b", '{"y":', index=1, id="2")),
                *(fragment(None, " 1}", index=0), fragment(None, " 2}", index=1)),
            ],
            TWO,
        ),
        ([fragment("a", {"x": 1}, index=0, id="1")], ONE),
    ],
)
def test_a_streamed_call_is_put_together(fragments: list[dict[str, Any]], calls: list[tuple[str, str]]) -> None:
    completion = streamed(stream_of(*fragments, reason="tool_calls"))
    assert [(call.name, call.arguments) for call in completion.tool_calls] == calls
    assert len({call.id for call in completion.tool_calls}) == len(calls)


def test_arguments_given_as_an_object_are_kept() -> None:
    call = {"id": "1", "type": "function", "function": {"name": "a", "arguments": {"x": 1}}}
    assert whole({"content": None, "tool_calls": [call]}).tool_calls[0].arguments == '{"x": 1}'


def test_arguments_that_are_neither_text_nor_object_are_a_bad_answer() -> None:
    call = {"id": "1", "type": "function", "function": {"name": "a", "arguments": [1]}}
    with pytest.raises(BadAnswer):
        whole({"content": None, "tool_calls": [call]})


def test_text_in_parts_is_text() -> None:
    thought = {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}
    parts = [thought, {"type": "text", "text": "Prune"}]
    assert streamed(stream_of({"content": parts}, {"content": " in March."})).text == "Prune in March."
    assert whole({"content": [*parts, {"type": "text", "text": " in March."}]}).text == "Prune in March."


def test_a_character_cut_in_two_is_whole() -> None:
    assert streamed(stream_of({"content": "Well \ud83c"}, {"content": "\udf31 done \ud83c"})).text == "Well 🌱 done "
    halves = (fragment("a", '{"x": "\ud83c', index=0, id="1"), fragment(None, '\udf31"}', index=0))
    assert streamed(stream_of(*halves, reason="tool_calls")).tool_calls[0].arguments == '{"x": "🌱"}'


def test_an_answer_that_ends_without_a_reason_is_whole() -> None:
    completion = streamed(stream_of({"content": "Prune"}, {"content": " in March."}, reason=None))
    assert (completion.text, completion.stop_reason) == ("Prune in March.", "stop")
    assert streamed(stream_of(fragment("a", "{}", index=0, id="1"), reason=None)).stop_reason == "tool_calls"


def test_an_answer_that_does_not_end_is_not_whole() -> None:
    with pytest.raises(ModelUnavailable, match="broke off"):
        streamed(stream_of({"content": "Prune [DONE]"}, reason=None, is_ended=False))
