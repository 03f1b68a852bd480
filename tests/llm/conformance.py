"""What every model client promises, written once. Each client's test class takes these over and makes clients."""

from __future__ import annotations

import json
from threading import Event

import pytest

from openvibe.llm.errors import AuthRefused, BadAnswer, ModelError, ModelUnavailable, RateLimited
from openvibe.llm.fences import fence
from openvibe.llm.protocol import ModelClient
from openvibe.llm.values import ChatMessage, StreamEnd, TextDelta, ToolCallRequest, ToolSpec

PROMPT = (
    ChatMessage("system", "You answer the team of a garden."),
    ChatMessage(
        "user",
        fence("data", "Prune the roses in March, before the buds open.", source="message", author="Ana", ref="12")
        + "\n\n"
        + fence("request", "@fern when do I prune the roses?"),
    ),
)
TOOL = ToolSpec(
    "knowledge_search",
    "Searches what the workspace knows.",
    {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]},
)


class ModelClientSuite:
    """For every client. `answering` gives one that answers `PROMPT` with at least six words."""

    @pytest.fixture
    def answering(self) -> ModelClient:
        raise NotImplementedError

    def test_complete_gives_a_whole_answer(self, answering: ModelClient) -> None:
        completion = answering.complete(PROMPT)
        assert len(completion.text.split()) >= 6
        assert completion.stop_reason == "stop"
        assert completion.tool_calls == ()

    def test_usage_is_counted(self, answering: ModelClient) -> None:
        usage = answering.complete(PROMPT).usage
        assert usage.input_tokens > 0
        assert usage.output_tokens > 0
        assert usage.cached_tokens is None or 0 <= usage.cached_tokens <= usage.input_tokens

    def test_stream_comes_in_pieces_that_join_to_the_text(self, answering: ModelClient) -> None:
        *pieces, last = answering.stream(PROMPT)
        texts = [piece.text for piece in pieces if isinstance(piece, TextDelta)]
        assert len(texts) == len(pieces) > 1
        assert all(texts)
        assert isinstance(last, StreamEnd)
        assert "".join(texts) == last.completion.text

    def test_streamed_and_whole_answers_are_the_same(self, answering: ModelClient) -> None:
        *_, last = answering.stream(PROMPT)
        assert isinstance(last, StreamEnd)
        assert last.completion == answering.complete(PROMPT)

    def test_closing_a_stream_cancels_it_and_the_next_call_works(self, answering: ModelClient) -> None:
        stream = answering.stream(PROMPT)
        assert isinstance(next(stream), TextDelta)
        stream.close()
        assert list(stream) == []
        assert answering.complete(PROMPT).text

    def test_nothing_is_asked_before_the_stream_is_read(self, answering: ModelClient) -> None:
        stream = answering.stream(PROMPT)
        stream.close()
        assert list(stream) == []

    def test_tools_and_hostile_text_are_accepted(self, answering: ModelClient) -> None:
        odd = ChatMessage("user", "\x00 \ud83d </request> <request>\n" + "a" * 5_000)
        assert answering.complete((*PROMPT, odd, PROMPT[1]), tools=[TOOL]).text

    def test_a_tool_round_in_the_history_is_accepted(self, answering: ModelClient) -> None:
        call = ToolCallRequest("call_1", TOOL.name, '{"query": "roses"}')
        history = (
            PROMPT[0],
            ChatMessage("assistant", "", tool_calls=(call,)),
            ChatMessage("tool", "Nothing found.", tool_call_id="call_1"),
            PROMPT[1],
        )
        assert answering.complete(history, tools=[TOOL]).text


class ToolCallingSuite:
    """For clients whose model calls tools. `calling` gives one that calls `TOOL` twice."""

    @pytest.fixture
    def calling(self) -> ModelClient:
        raise NotImplementedError

    def test_calls_come_whole(self, calling: ModelClient) -> None:
        completion = calling.complete(PROMPT, tools=[TOOL])
        assert [call.name for call in completion.tool_calls] == [TOOL.name, TOOL.name]
        assert [json.loads(call.arguments) for call in completion.tool_calls] == [{"query": "roses"}, {"query": "März"}]
        assert len({call.id for call in completion.tool_calls}) == 2
        assert completion.stop_reason == "tool_calls"

    def test_streamed_calls_are_put_together(self, calling: ModelClient) -> None:
        *_, last = calling.stream(PROMPT, tools=[TOOL])
        assert isinstance(last, StreamEnd)
        assert last.completion.tool_calls == calling.complete(PROMPT, tools=[TOOL]).tool_calls


CALLS = (
    ToolCallRequest("call_a", TOOL.name, '{"query": "roses"}'),
    ToolCallRequest("call_b", TOOL.name, '{"query": "März"}'),
)


class FailingSuite:
    """For clients whose model can fail. `failing` gives one that fails with the error of that type, for good."""

    def failing(self, error: type[ModelError]) -> ModelClient:
        raise NotImplementedError

    def breaking_off(self) -> ModelClient:
        raise NotImplementedError

    def waiting(self, reached: Event, go_on: Event) -> ModelClient:
        """One that says `One`, then waits for `go_on`; `reached` is set at the latest when it waits."""
        raise NotImplementedError

    @pytest.mark.parametrize("error", [AuthRefused, RateLimited, ModelUnavailable, BadAnswer])
    def test_errors_are_typed_and_say_the_next_step(self, error: type[ModelError]) -> None:
        with pytest.raises(error) as complete:
            self.failing(error).complete(PROMPT)
        with pytest.raises(error) as stream:
            list(self.failing(error).stream(PROMPT))
        for raised in (complete.value, stream.value):
            assert str(raised).endswith((".", "…")) or "It says:" in str(raised)
            assert raised.advice
            assert raised.code.startswith("model_")

    def test_what_was_said_before_it_broke_off_was_streamed(self) -> None:
        said: list[str] = []
        with pytest.raises(ModelUnavailable):
            said.extend(p.text for p in self.breaking_off().stream(PROMPT) if isinstance(p, TextDelta))
        assert "".join(said).startswith("One")

    def test_a_stream_can_be_closed_while_the_model_waits(self) -> None:
        reached, go_on = Event(), Event()
        stream = self.waiting(reached, go_on).stream(PROMPT)
        try:
            assert next(stream) == TextDelta("One")
            stream.close()
        finally:
            go_on.set()
        assert list(stream) == []
