"""What every model client promises, written once. Each client's test class takes these over and makes clients."""

from __future__ import annotations

import json
import logging
import traceback
from collections.abc import Iterator
from contextlib import ExitStack
from threading import Event, Thread
from typing import Any

import pytest

from openvibe.engines.llm.errors import (
    AuthRefused,
    BadAnswer,
    ContextTooLong,
    EmptyAnswer,
    LimitReached,
    ModelError,
    ModelLoading,
    ModelTimeout,
    ModelUnavailable,
    RateLimited,
)
from openvibe.engines.llm.fences import fence
from openvibe.engines.llm.http_client import Connection
from openvibe.engines.llm.protocol import ModelClient
from openvibe.engines.llm.retries import LOADING_NOTICE, STARTING_NOTICE, CallLimits, RetryPolicy
from openvibe.engines.llm.values import ChatMessage, StreamEnd, TextDelta, ToolCallRequest, ToolSpec
from tests.engines.llm.model_server import Answer, FakeEndpoint, serving

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
    """A suite for every client. `answering` gives one that answers `PROMPT` with at least six words."""

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
    """A suite for clients whose model calls tools. `calling` gives one that calls `TOOL` twice."""

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
    """A suite for clients whose model can fail. `failing` gives one that fails with the error of that type, for
    good."""

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


KEY = "sk-canary-0123456789abcdef0123"
TEXT = "Prune them in March, before the buds open."


class Pauses(list[float]):
    """A sleep that only takes notes."""

    def __call__(self, seconds: float) -> None:
        self.append(seconds)


class EndpointSuite(ModelClientSuite, ToolCallingSuite, FailingSuite):
    """A suite for clients that ask an endpoint over HTTP; `model_server` speaks the protocol of each."""

    def build(self, connection: Connection, policy: RetryPolicy) -> ModelClient:
        raise NotImplementedError

    def client(self, server: FakeEndpoint, *, pauses: Pauses | None = None, **limits: Any) -> ModelClient:
        sleep = Pauses() if pauses is None else pauses
        policy = RetryPolicy(CallLimits(**limits), sleep=sleep, jitter=lambda: 0.5)
        return self.build(Connection(server.base_url, KEY, allow_private=True), policy)

    @pytest.fixture(autouse=True)
    def _servers(self) -> Iterator[None]:
        with ExitStack() as self.servers:
            yield

    def serve(self, *answers: Answer) -> ModelClient:
        return self.client(self.servers.enter_context(serving(*answers)))

    @pytest.fixture
    def answering(self) -> ModelClient:
        return self.serve(Answer(TEXT))

    @pytest.fixture
    def calling(self) -> ModelClient:
        return self.serve(Answer(tool_calls=tuple((c.id, c.name, c.arguments) for c in CALLS)))

    def failing(self, error: type[ModelError]) -> ModelClient:
        status = {AuthRefused: 401, RateLimited: 429, ModelUnavailable: 500, BadAnswer: 400}[error]
        return self.serve(Answer(status=status))

    def breaking_off(self) -> ModelClient:
        return self.serve(Answer("One two three", drop_after=2))

    def waiting(self, reached: Event, go_on: Event) -> ModelClient:
        return self.serve(Answer("One two three", hold_after_first=go_on))

    def test_malformed_arguments_come_as_the_model_wrote_them(self) -> None:
        broken = self.serve(Answer(tool_calls=(("call_a", TOOL.name, '{"query": "ros'),)))
        assert broken.complete(PROMPT, tools=[TOOL]).tool_calls[0].arguments == '{"query": "ros'
        history = (*PROMPT, ChatMessage("assistant", "", (ToolCallRequest("call_a", TOOL.name, '{"query": "ros'),)))
        result = ChatMessage("tool", "That is no JSON.", tool_call_id="call_a")
        assert self.serve(Answer(TEXT)).complete((*history, result), tools=[TOOL]).text == TEXT

    @pytest.mark.parametrize(
        ("body", "error", "words"),
        [
            (b"<!DOCTYPE html><html><body>Welcome</body></html>", BadAnswer, "web page"),
            (b"\xef\xbb\xbf  <html>", BadAnswer, "web page"),
            (b"", BadAnswer, "nothing at all"),
            (b"model is loading, sk-canary-0123456789abcdef0123", BadAnswer, "plain text.*loading.*secret removed"),
            (b'{"error": {"message": "no such model: sk-canary-0123456789abcdef0123"}}', ModelUnavailable, "no such"),
            (b'{"error": "model not found"}', ModelUnavailable, "model not found"),
            (b'{"error": {"message": "prompt is too long", "type": "invalid"}}', ContextTooLong, "longer than"),
            (b'{"detail": "Not Found"}', ModelUnavailable, "Not Found"),
        ],
    )
    def test_what_is_no_answer_is_called_what_it_is(self, body: bytes, error: type[ModelError], words: str) -> None:
        with serving(Answer(body=body)) as server:
            for ask in (lambda: self.client(server).complete(PROMPT), lambda: list(self.client(server).stream(PROMPT))):
                with pytest.raises(error, match=words) as problem_error:
                    ask()
                assert "canary" not in str(problem_error.value)

    def test_two_invisible_characters_are_no_answer(self) -> None:
        with serving(Answer("\u200b\u200b")) as server, pytest.raises(EmptyAnswer, match="invisible"):
            list(self.client(server).stream(PROMPT))

    @pytest.mark.parametrize(
        ("status", "error"), [(403, AuthRefused), (402, RateLimited), (408, ModelTimeout), (413, ContextTooLong)]
    )
    def test_each_status_has_its_error(self, status: int, error: type[ModelError]) -> None:
        with serving(Answer(status=status, body=b"<html>no</html>")) as server, pytest.raises(error):
            list(self.client(server, attempts=1).stream(PROMPT))

    def test_the_key_is_nowhere(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.DEBUG)
        echo = {"message": f"Incorrect API key provided: {KEY}", "code": "invalid_api_key", "type": "x"}
        with serving(Answer(status=401, error=echo), Answer(body=KEY.encode())) as server:
            model = self.client(server)
            for _ in range(2):
                with pytest.raises(ModelError) as error:
                    list(model.stream(PROMPT))
                assert "canary" not in "".join(traceback.format_exception(error.value))
        assert "canary" not in repr([model, vars(model)]) + caplog.text

    def test_cached_tokens_are_told(self) -> None:
        with serving(Answer(TEXT, cached_tokens=5)) as server:
            assert self.client(server).complete(PROMPT).usage.cached_tokens == 5
            *_, last = self.client(server).stream(PROMPT)
        assert isinstance(last, StreamEnd)
        assert last.completion.usage.cached_tokens == 5

    def test_usage_is_counted_here_where_the_endpoint_tells_none(self) -> None:
        with serving(Answer(TEXT, tells_usage=False)) as server:
            *_, last = self.client(server).stream(PROMPT)
        assert isinstance(last, StreamEnd)
        assert last.completion.usage.input_tokens > 20
        assert last.completion.usage.output_tokens >= 8

    def test_overload_is_waited_out_with_growing_pauses(self) -> None:
        pauses = Pauses()
        with serving(Answer(status=500), Answer(status=503), Answer(TEXT)) as server:
            assert self.client(server, pauses=pauses).complete(PROMPT).text == TEXT
        assert pauses == [0.5, 1.0]

    def test_retry_after_is_honoured(self) -> None:
        pauses = Pauses()
        with serving(Answer(status=429, headers={"Retry-After": "7"}), Answer(TEXT)) as server:
            events = list(self.client(server, pauses=pauses).stream(PROMPT))
        assert pauses == [7.0]
        assert isinstance(events[-1], StreamEnd)

    def test_a_long_retry_after_is_told_and_not_waited_for(self) -> None:
        pauses = Pauses()
        limited = Answer(status=429, headers={"Retry-After": "3600"})
        with serving(limited) as server, pytest.raises(RateLimited) as error:
            self.client(server, pauses=pauses).complete(PROMPT)
        assert error.value.retry_after == 3600
        assert pauses == []
        assert len(server.asked) == 1

    @pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
    def test_what_cannot_pass_is_not_tried_again(self, status: int) -> None:
        with serving(Answer(status=status)) as server, pytest.raises(ModelError):
            self.client(server).complete(PROMPT)
        assert len(server.asked) == 1

    def test_nothing_is_tried_again_after_the_first_word(self) -> None:
        with serving(Answer("One two three", drop_after=2), Answer(TEXT)) as server, pytest.raises(ModelUnavailable):
            list(self.client(server).stream(PROMPT))
        assert len(server.asked) == 1

    def test_the_key_is_never_in_a_message(self) -> None:
        error = {"message": f"Incorrect API key provided: {KEY}", "code": "invalid_api_key", "type": "x"}
        with serving(Answer(status=401, error=error)) as server, pytest.raises(AuthRefused) as problem_error:
            self.client(server).complete(PROMPT)
        assert "canary" not in f"{problem_error.value} {problem_error.value.advice}"
        assert "Incorrect API key provided" in str(problem_error.value)

    def test_a_model_that_never_answers_times_out(self) -> None:
        hold = Event()
        with serving(Answer(TEXT, hold=hold)) as server:
            try:
                with pytest.raises(ModelTimeout):
                    list(self.client(server, first_answer_seconds=0.05).stream(PROMPT))
                with pytest.raises(ModelTimeout):
                    self.client(server, total_seconds=0.05).complete(PROMPT)
            finally:
                hold.set()
        assert len(server.asked) == 2

    def test_an_answer_that_drips_on_and_on_ends_in_time(self) -> None:
        now = [0.0]

        with serving(Answer("One two three four five")) as server:
            connection = Connection(server.base_url, KEY, allow_private=True, clock=lambda: now[0])
            model = self.build(connection, RetryPolicy(clock=lambda: now[0]))
            hold = Event()
            server_answer = Answer("One two three four five", hold_after_first=hold)
            server._script = lambda asked: server_answer
            stream = model.stream(PROMPT)
            assert next(stream) == TextDelta("One")
            now[0] = 301.0
            hold.set()
            with pytest.raises(ModelTimeout):
                list(stream)

    def test_closing_the_stream_hangs_up(self) -> None:
        go_on = Event()
        with serving(Answer("word " * 200_000, hold_after_first=go_on)) as server:
            stream = self.client(server).stream(PROMPT)
            next(stream)
            stream.close()
            go_on.set()
            assert server.hung_up.wait(10), "the server does not see that nobody listens"

    @pytest.mark.parametrize(
        ("status", "words"),
        [
            (503, "Loading model"),
            (503, "Model google/gemma-2-9b is currently loading"),
            (503, "The endpoint is warming up, please retry"),
            (502, "upstream is starting up"),
            (503, "The model is not ready yet."),
            (429, "ModelNotReadyException: Model is not ready for inference. Wait and try your request again."),
        ],
    )
    def test_a_model_that_is_being_loaded_is_waited_for(self, status: int, words: str) -> None:
        """Longer than three tries take, said once, in both verbs."""
        loading = Answer(status=status, error={"message": words, "type": "unavailable_error", "code": status})
        pauses = Pauses()
        with serving(*[loading] * 9, Answer(TEXT), *[loading] * 9, Answer(TEXT)) as server:
            model = self.client(server, pauses=pauses)
            *pieces, end = model.stream(PROMPT)
            completion = model.complete(PROMPT)
        assert isinstance(end, StreamEnd)
        assert pieces[0] == LOADING_NOTICE
        assert pieces.count(LOADING_NOTICE) == 1
        for each in (end.completion, completion):
            assert (each.text, each.notices) == (TEXT, (LOADING_NOTICE,))
        assert len(pauses) == 18

    def test_a_model_is_waited_for_a_minute_at_most(self) -> None:
        loading = Answer(status=503, error={"message": "Loading model", "type": "unavailable_error", "code": 503})
        pauses = Pauses()
        with serving(loading) as server:
            with pytest.raises(ModelLoading, match="still being loaded") as failure:
                self.client(server, pauses=pauses, total_seconds=600).complete(PROMPT)
            with pytest.raises(ModelLoading):
                self.client(server, total_seconds=1).complete(PROMPT)
        assert 50 <= sum(pauses) <= 60
        assert "minute" in failure.value.advice

    @pytest.mark.parametrize(
        "words",
        [
            "Service is overloaded, please try again",
            "Failed to load model: error loading model: out of memory",
            "model runner has unexpectedly stopped while loading failed",
            "server busy, please try again. maximum pending requests exceeded",
        ],
    )
    def test_other_trouble_is_tried_three_times(self, words: str) -> None:
        pauses = Pauses()
        with serving(Answer(status=503, error={"message": words, "type": "server_error"})) as server:
            with pytest.raises(ModelUnavailable) as failure:
                self.client(server, pauses=pauses).complete(PROMPT)
            assert len(server.asked) == 3
        assert not isinstance(failure.value, ModelLoading)
        assert len(pauses) == 2

    def test_the_limit_that_ended_a_call_is_named(self) -> None:
        never = Event()
        with serving(
            Answer(TEXT, hold=never), Answer(TEXT, hold=never), Answer("one two", hold_after_first=never)
        ) as server:
            with pytest.raises(LimitReached, match=r"nothing came for 0\.2 seconds, the limit of this endpoint"):
                list(self.client(server, first_answer_seconds=0.2, total_seconds=60).stream(PROMPT))
            with pytest.raises(LimitReached, match=r"it had 0\.2 seconds, OPENVIBE_SOMETHING"):
                self.client(server, total_seconds=0.2, total_source="OPENVIBE_SOMETHING").complete(PROMPT)
            with pytest.raises(LimitReached, match=r"nothing came for 0\.3 seconds"):
                list(self.client(server, first_answer_seconds=0.3, total_seconds=60).stream(PROMPT))
            never.set()

    def test_nobody_there(self) -> None:
        with serving(Answer(TEXT)) as server:
            pass
        pauses = Pauses()
        with pytest.raises(ModelUnavailable, match="cannot be reached"):
            self.client(server, pauses=pauses, starting_seconds=0).complete(PROMPT)
        assert len(pauses) == 2

    def test_a_server_that_may_start_is_tried_again_for_ten_seconds_and_said_so(self) -> None:
        with serving(Answer(TEXT)) as server:
            pass
        pauses, pieces = Pauses(), list[object]()
        with pytest.raises(ModelUnavailable, match="nothing listens"):
            pieces.extend(self.client(server, pauses=pauses).stream(PROMPT))
        assert sum(pauses) == 10
        assert pieces.count(STARTING_NOTICE) == 1

    def test_a_private_address_is_refused_without_a_connection(self) -> None:
        with serving(Answer(TEXT)) as server:
            guarded = self.build(Connection(server.base_url, KEY), RetryPolicy(sleep=Pauses()))
            with pytest.raises(ModelUnavailable, match="own network"):
                guarded.complete(PROMPT)
        assert server.asked == []

    @pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
    def test_redirects_are_not_followed(self, status: int) -> None:
        with serving(Answer(TEXT)) as inside:
            moved = Answer(status=status, headers={"Location": inside.base_url})
            with serving(moved) as server, pytest.raises(BadAnswer, match="somewhere else"):
                self.client(server).complete(PROMPT)
        assert inside.asked == []

    def test_many_calls_at_once_do_not_mix(self) -> None:
        def limit(body: dict[str, Any]) -> int:
            return int(body.get("max_tokens") or body["max_output_tokens"])

        with serving(script=lambda asked: Answer(f"You said {limit(asked.body)} to me")) as server:
            model = self.client(server)
            said: dict[int, str] = {}

            def ask(number: int) -> None:
                said[number] = model.complete(PROMPT, max_output_tokens=number).text

            threads = [Thread(target=ask, args=(number,)) for number in range(16, 28)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        assert said == {number: f"You said {number} to me" for number in range(16, 28)}
