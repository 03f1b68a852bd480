"""Answers in the shapes that endpoints give them besides the documented one."""

from __future__ import annotations

import json
from typing import Any

import pytest

from openvibe.engines.llm.errors import AuthRefused, BadAnswer, EmptyAnswer, ModelError, ModelUnavailable, RateLimited
from openvibe.engines.llm.values import Completion, StreamEnd, TextDelta, ToolCallRequest, Usage
from tests.engines.llm import messages_protocol
from tests.engines.llm.anthropic import test_anthropic
from tests.engines.llm.conformance import PROMPT
from tests.engines.llm.model_server import Answer, Asked, serving
from tests.engines.llm.openai.test_openai import client

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


def stream_chunks(*chunks: Any, end: str = "\n\n", is_ended: bool = True) -> bytes:
    lines = [*map(json.dumps, chunks), *(["[DONE]"] if is_ended else [])]
    return "".join(f"data: {line}{end}" for line in lines).encode()


def delta(content: Any, reason: str | None = None, **more: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": {"content": content}, "finish_reason": reason}], **more}


def completion(message: Any, reason: str | None = "stop", **more: Any) -> bytes:
    choice = {"index": 0, "message": message, "finish_reason": reason}
    return json.dumps({"id": "chat-1", "object": "chat.completion", "choices": [choice], **more}).encode()


def both(body: bytes, media_type: str = "application/json") -> Completion:
    """What is read of the answer, whether or not a stream was asked for."""
    with serving(Answer(body=body, headers={"Content-Type": media_type})) as server:
        *pieces, last = client(server, attempts=1).stream(PROMPT)
        assert isinstance(last, StreamEnd)
        assert "".join(piece.text for piece in pieces if isinstance(piece, TextDelta)) == last.completion.text
        assert client(server, attempts=1).complete(PROMPT) == last.completion
    assert [bool(asked.body["stream"]) for asked in server.asked] == [True, False]
    return last.completion


def error_of(body: bytes) -> ModelError:
    with serving(Answer(body=body)) as server:
        errors = []
        for ask in (client(server, attempts=1).complete, lambda prompt: [*client(server, attempts=1).stream(prompt)]):
            with pytest.raises(ModelError) as raised:
                ask(PROMPT)
            errors.append(raised.value)
    assert (type(errors[0]), str(errors[0])) == (type(errors[1]), str(errors[1]))
    return errors[0]


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


USAGE = {"prompt_tokens": 20, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 5}}
MESSAGE = {"role": "assistant", "content": "Prune in März.", "reasoning_content": "Hm."}
CALL = {"id": "1", "type": "function", "function": {"name": "a", "arguments": '{"x": 1}'}}


@pytest.mark.parametrize("media_type", ["application/json", "text/event-stream", "text/plain; charset=utf-8"])
def test_a_whole_answer_in_place_of_a_stream_is_the_answer(media_type: str) -> None:
    body = completion(MESSAGE, "length", usage=USAGE)
    pretty = json.dumps(json.loads(body), indent=2, ensure_ascii=False)
    for shape in (body, pretty.encode(), b"\xef\xbb\xbf" + pretty.replace("\n", "\r\n").encode()):
        assert both(shape, media_type) == Completion("Prune in März.", (), Usage(20, 3, 5), "length")


def test_calls_of_a_whole_answer_are_calls() -> None:
    broken = {"type": "function", "function": {"name": "b", "arguments": '{"y": '}}
    answer = both(completion({"content": None, "tool_calls": [CALL, broken, broken]}, "tool_calls", usage=USAGE))
    assert (answer.stop_reason, answer.usage) == ("tool_calls", Usage(20, 3, 5))
    assert answer.tool_calls == (
        ToolCallRequest("1", "a", '{"x": 1}'),
        ToolCallRequest("call_1", "b", '{"y": '),
        ToolCallRequest("call_2", "b", '{"y": '),
    )


def test_a_call_in_the_older_form_is_a_call() -> None:
    """`function_call`, from before a model could call several tools at once."""
    expected = (ToolCallRequest("call_0", "a", '{"x": 1}'),)
    whole_call = completion({"content": None, "function_call": {"name": "a", "arguments": '{"x": 1}'}}, "function_call")
    parts = [{"name": "a", "arguments": ""}, {"arguments": '{"x":'}, {"name": None, "arguments": " 1}"}]
    streamed_call = stream_of(*({"function_call": part} for part in parts), reason="function_call")
    for body in (whole_call, streamed_call):
        assert both(body).tool_calls == expected


def test_a_refusal_in_a_field_of_its_own_is_what_the_model_says() -> None:
    refusal = {"content": None, "refusal": "I cannot help with that."}
    parts = ({"content": None, "refusal": "I cannot"}, {"refusal": " help with that."}, {"refusal": None})
    for body in (completion(refusal), stream_of(*parts)):
        assert both(body).text == "I cannot help with that."


def test_a_whole_answer_needs_no_reason_for_its_end() -> None:
    assert both(completion(MESSAGE, None)).stop_reason == "stop"
    assert str(error_of(completion({"content": None, "reasoning_content": "Hm."}, "length"))).endswith("said a word.")


@pytest.mark.parametrize("media_type", ["application/json", "text/html", ""])
@pytest.mark.parametrize("end", ["\n\n", "\r\n\r\n", "\n"])
def test_a_stream_is_read_however_it_is_sent(media_type: str, end: str) -> None:
    body = stream_chunks(delta("Prune"), delta(" it."), delta(None, "stop"), delta("", usage=USAGE), end=end)
    for before in (b"", b"\xef\xbb\xbf", b": wait\n\n" * 50, b"retry: 3000\n\nid: 7\n\nevent: ping\n\ndata:\n\n"):
        assert both(before + body, media_type) == Completion("Prune it.", (), Usage(20, 3, 5), "stop")


@pytest.mark.parametrize(
    ("last", "usage"),
    [
        ([{"choices": [], "usage": USAGE}], Usage(20, 3, 5)),  # Azure
        ([{"choices": None, "usage": USAGE}], Usage(20, 3, 5)),
        ([{"usage": USAGE}, {"choices": [], "usage": None}], Usage(20, 3, 5)),
        ([{"usage": USAGE}, {"choices": [], "usage": {"prompt_tokens": 0, "completion_tokens": 0}}], Usage(20, 3, 5)),
        ([{"choices": [], "usage": {"prompt_tokens": "20", "completion_tokens": 3.0}}], Usage(20, 3)),
        ([{"choices": [], "usage": {"prompt_tokens": 20, "completion_tokens": None}}], Usage(20, 4)),
        ([{"choices": [], "usage": {"prompt_tokens": True, "completion_tokens": "many"}}], Usage(80, 4)),
        ([{"choices": [], "usage": "many"}], Usage(80, 4)),
        ([{"choices": [], "usage": {"prompt_tokens": "many", "completion_tokens": "12"}}], Usage(80, 12)),
        ([{"choices": [], "usage": {"prompt_tokens": 900_000_000, "completion_tokens": 3}}], Usage(80, 3)),
        ([{"choices": [], "usage": {"prompt_tokens": 20, "completion_tokens": 900_000_000}}], Usage(20, 4)),
        ([{"choices": [], "usage": {"prompt_tokens": -5, "completion_tokens": -7}}], Usage(80, 4)),
        ([], Usage(80, 4)),
    ],
)
def test_usage_is_read_as_it_is_written_or_counted_here(last: list[Any], usage: Usage) -> None:
    chunks = [{"choices": [], "prompt_filter_results": []}, delta("Prune it.", usage=None), delta(None, "stop")]
    counted = both(stream_chunks(*chunks, *last)).usage
    assert counted == usage or (usage.input_tokens, counted.output_tokens) == (80, usage.output_tokens)


def test_calls_are_counted_where_the_endpoint_tells_no_usage() -> None:
    arguments = json.dumps({"x": "mulch " * 500})
    call = {"id": "1", "type": "function", "function": {"name": "a", "arguments": arguments}}
    assert both(completion({"content": None, "tool_calls": [call]}, "tool_calls")).usage.output_tokens > 500


@pytest.mark.parametrize(
    "content",
    [
        [{"type": "text", "text": "Prune it."}],
        [{"type": "output_text", "text": "Prune"}, {"text": " it."}],
        [{"type": "reasoning", "text": "Hm."}, "Prune it.", {"type": "text", "text": None}, {"type": "image_url"}],
        {"type": "text", "text": "Prune it."},
    ],
)
def test_parts_of_an_answer_are_its_text(content: Any) -> None:
    thought = {"choices": [{"index": 0, "delta": {"reasoning_content": "Hm.", "content": None}}]}
    end = {"choices": [{"index": 0, "delta": None, "finish_reason": "stop"}]}
    assert both(stream_chunks(thought, delta(content), end)).text == "Prune it."
    assert both(completion({"content": content})).text == "Prune it."


def test_a_message_that_repeats_what_was_streamed_is_not_read_twice() -> None:
    repeated = {"choices": [{"index": 0, "delta": {}, "message": MESSAGE, "finish_reason": "stop"}]}
    assert both(stream_chunks(delta("Prune"), delta(" it."), repeated)).text == "Prune it."
    messages = [{"choices": [{"index": 0, "message": {"content": text}}]} for text in ("Prune", " it.")]
    assert both(stream_chunks(*messages)).text == "Prune it."


@pytest.mark.parametrize(
    ("error", "type_", "words"),
    [
        ({"error": {"message": "out of memory", "type": "server_error"}}, ModelUnavailable, "It says: out of memory."),
        ({"error": "out of memory"}, ModelUnavailable, "It says: out of memory."),
        ({"error": {"message": "Slow down", "code": 429}}, RateLimited, "too often (HTTP 429). It says: Slow down."),
        ({"error": {"message": "No", "code": "401"}}, AuthRefused, "(HTTP 401)"),
        ({"error": {"message": "Gone", "code": 502}}, ModelUnavailable, "trouble of its own (HTTP 502)"),
        ({"object": "error", "message": "Too big", "code": 400}, BadAnswer, "(HTTP 400). It says: Too big."),
        ({"choices": [], "error": {"message": "out of memory"}}, ModelUnavailable, "out of memory"),
        (
            {"choices": [{"delta": {}, "finish_reason": "error", "error": {"message": "Gone", "code": 502}}]},
            ModelUnavailable,
            "It says: Gone.",
        ),
    ],
)
def test_an_error_is_told_whole_in_a_stream_and_in_its_middle(error: Any, type_: type[ModelError], words: str) -> None:
    for body in (json.dumps(error).encode(), stream_chunks(error), stream_chunks(delta("Prune"), error)):
        raised = error_of(body)
        assert isinstance(raised, type_)
        assert words in str(raised)


def test_an_error_event_and_a_list_of_errors_are_errors() -> None:
    assert "out of memory" in str(error_of(b'event: error\ndata: {"message": "out of memory"}\n\n'))
    llama = stream_chunks(delta("Prune"), is_ended=False) + b'error: {"code": 500, "message": "out of memory"}\n\n'
    assert str(error_of(llama)).endswith("trouble of its own (HTTP 500). It says: out of memory.")
    assert "(HTTP 400). It says: No such" in str(error_of(b'[{"error": {"code": 400, "message": "No such model."}}]'))
    answer = Answer(status=400, body=b'[{"error": {"code": 400, "message": "No such model."}}]')
    with serving(answer) as server, pytest.raises(BadAnswer, match="It says: No such model"):
        client(server).complete(PROMPT)


@pytest.mark.parametrize(
    "body",
    [
        b"data: {" + b'"choices": [{"del',
        stream_chunks(delta(""), is_ended=False),
        stream_chunks(delta(""), delta("Prune"), is_ended=False) + b'data: {"choices": [{"del',
        b": wait\n\n" * 50,
    ],
)
def test_what_is_over_too_early_was_broken_off(body: bytes) -> None:
    assert str(error_of(body)) == "The model broke off in the middle of its answer."


def test_a_stream_that_only_ends_is_an_empty_answer() -> None:
    assert isinstance(error_of(stream_chunks(delta(""), {"choices": [], "usage": USAGE}, is_ended=True)), EmptyAnswer)
    assert isinstance(error_of(b"data: [DONE]\n\n"), EmptyAnswer)


class TestAnthropic:
    """The same of the Messages protocol."""

    blocks = (
        {"type": "thinking", "thinking": "Hm.", "signature": "signed"},
        {"type": "text", "text": "Prune it."},
        {"type": "tool_use", "id": "toolu_1", "name": "a", "input": {"x": 1}},
    )
    message = {"type": "message", "role": "assistant", "stop_reason": "tool_use"}
    usage = {"input_tokens": 20, "output_tokens": "3", "cache_read_input_tokens": 5}

    def read(self, body: bytes) -> Completion:
        with serving(Answer(body=body)) as server:
            return test_anthropic.answer_of(server)

    def streamed(self) -> bytes:
        asked = Asked("/v1/messages", {}, {"model": "claude", "messages": []})
        return b"".join(messages_protocol.pieces(asked, Answer("Prune it.")))

    def test_a_whole_answer_in_place_of_a_stream_is_the_answer(self) -> None:
        body = json.dumps(self.message | {"content": self.blocks, "usage": self.usage}, indent=2)
        for shape in (body.encode(), b"\xef\xbb\xbf" + body.replace("\n", "\r\n").encode()):
            answer = self.read(shape)
            assert (answer.text, answer.stop_reason, answer.usage) == ("Prune it.", "tool_calls", Usage(25, 3, 5))
            assert answer.tool_calls == (ToolCallRequest("toolu_1", "a", '{"x": 1}'),)
            assert answer.provider_fields == {"thinking": (self.blocks[0],)}

    def test_a_whole_refusal_is_a_refusal(self) -> None:
        details = {"type": "refusal", "explanation": "Not this."}
        refused = self.message | {"content": [], "stop_reason": "refusal", "stop_details": details}
        with pytest.raises(EmptyAnswer, match=r"content filter.*Not this"):
            self.read(json.dumps(refused).encode())

    def test_a_stream_is_read_however_it_is_sent(self) -> None:
        body = self.streamed()
        whole = self.read(body)
        nameless = b"".join(line for line in body.splitlines(keepends=True) if not line.startswith(b"event:"))
        for shape in (
            b"\xef\xbb\xbf" + body,
            body.replace(b"\n", b"\r\n"),
            body.replace(b"\n\n", b"\n\n: wait\n\n"),
            body.replace(b"\n\n", b"\n"),
            nameless,
            body + b"data: [DONE]\n\n",
        ):
            assert self.read(shape) == whole

    @pytest.mark.parametrize("error", [{"type": "error", "error": {"type": "overloaded_error", "message": "Later"}}])
    def test_an_error_is_told_whole_and_in_a_stream_without_names(self, error: dict[str, Any]) -> None:
        for body in (json.dumps(error).encode(), b"data: " + json.dumps(error).encode() + b"\n\n"):
            with pytest.raises(ModelUnavailable, match="It says: Later"):
                self.read(body)

    def test_nothing_but_comments_was_broken_off(self) -> None:
        for body in (b": wait\n\n" * 50, self.streamed()[:40]):
            with pytest.raises(ModelUnavailable, match="broke off"):
                self.read(body)
