from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from threading import Event, Thread
from typing import Any

import pytest

from openvibe.llm.errors import (
    AuthRefused,
    BadAnswer,
    ContextTooLong,
    ModelError,
    ModelTimeout,
    ModelUnavailable,
    RateLimited,
)
from openvibe.llm.openai import CallLimits, OpenAIModel
from openvibe.llm.protocol import ModelClient
from openvibe.llm.values import StreamEnd, TextDelta
from tests.llm.conformance import CALLS, PROMPT, FailingSuite, ModelClientSuite, ToolCallingSuite
from tests.llm.model_server import Answer, Asked, FakeEndpoint, serving

KEY = "sk-canary-0123456789abcdef0123"
TEXT = "Prune them in March, before the buds open."


class Pauses(list[float]):
    """A sleep that only takes notes."""

    def __call__(self, seconds: float) -> None:
        self.append(seconds)


def client(server: FakeEndpoint, *, pauses: Pauses | None = None, **limits: Any) -> OpenAIModel:
    return OpenAIModel(
        base_url=server.base_url,
        api_key=KEY,
        model="gpt-4o-mini",
        limits=CallLimits(**limits),
        allow_private=True,
        sleep=Pauses() if pauses is None else pauses,
        jitter=lambda: 0.5,
    )


class TestOpenAIModel(ModelClientSuite, ToolCallingSuite, FailingSuite):
    @pytest.fixture(autouse=True)
    def _servers(self) -> Iterator[None]:
        with ExitStack() as self.servers:
            yield

    def serve(self, *answers: Answer) -> ModelClient:
        return client(self.servers.enter_context(serving(*answers)))

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


def test_what_is_asked_is_what_the_protocol_wants() -> None:
    with serving(Answer(TEXT)) as server:
        client(server).complete(PROMPT, max_output_tokens=50)
    asked = server.asked[0]
    assert asked.path == "/v1/chat/completions"
    assert asked.headers["authorization"] == f"Bearer {KEY}"
    assert "openai-organization" not in asked.headers
    assert asked.body["max_tokens"] == 50
    assert [m["role"] for m in asked.body["messages"]] == ["system", "user"]


def test_cached_tokens_are_told() -> None:
    with serving(Answer(TEXT, cached_tokens=5)) as server:
        assert client(server).complete(PROMPT).usage.cached_tokens == 5
        *_, last = client(server).stream(PROMPT)
    assert isinstance(last, StreamEnd)
    assert last.completion.usage.cached_tokens == 5


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


def test_usage_is_counted_here_where_the_endpoint_tells_none() -> None:
    with serving(Answer(TEXT, tells_usage=False)) as server:
        *_, last = client(server).stream(PROMPT)
    assert isinstance(last, StreamEnd)
    assert last.completion.usage.input_tokens > 20
    assert last.completion.usage.output_tokens >= 8


def test_overload_is_waited_out_with_growing_pauses() -> None:
    pauses = Pauses()
    with serving(Answer(status=500), Answer(status=503), Answer(TEXT)) as server:
        assert client(server, pauses=pauses).complete(PROMPT).text == TEXT
    assert pauses == [0.5, 1.0]


def test_retry_after_is_honoured() -> None:
    pauses = Pauses()
    with serving(Answer(status=429, headers={"Retry-After": "7"}), Answer(TEXT)) as server:
        events = list(client(server, pauses=pauses).stream(PROMPT))
    assert pauses == [7.0]
    assert isinstance(events[-1], StreamEnd)


def test_a_long_retry_after_is_told_and_not_waited_for() -> None:
    pauses = Pauses()
    with serving(Answer(status=429, headers={"Retry-After": "3600"})) as server, pytest.raises(RateLimited) as raised:
        client(server, pauses=pauses).complete(PROMPT)
    assert raised.value.retry_after == 3600
    assert pauses == []
    assert len(server.asked) == 1


def test_a_used_up_quota_is_not_tried_again() -> None:
    error = {"message": "You exceeded your quota", "code": "insufficient_quota", "type": "insufficient_quota"}
    with serving(Answer(status=429, error=error)) as server, pytest.raises(RateLimited) as raised:
        client(server).complete(PROMPT)
    assert "quota" in str(raised.value)
    assert len(server.asked) == 1


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
def test_what_cannot_pass_is_not_tried_again(status: int) -> None:
    with serving(Answer(status=status)) as server, pytest.raises(ModelError):
        client(server).complete(PROMPT)
    assert len(server.asked) == 1


def test_nothing_is_tried_again_after_the_first_word() -> None:
    with serving(Answer("One two three", drop_after=2), Answer(TEXT)) as server, pytest.raises(ModelUnavailable):
        list(client(server).stream(PROMPT))
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


def test_the_key_is_never_in_a_message() -> None:
    error = {"message": f"Incorrect API key provided: {KEY}", "code": "invalid_api_key", "type": "x"}
    with serving(Answer(status=401, error=error)) as server, pytest.raises(AuthRefused) as raised:
        client(server).complete(PROMPT)
    assert "canary" not in f"{raised.value} {raised.value.advice}"
    assert "Incorrect API key provided" in str(raised.value)


def test_an_error_told_in_mid_stream_is_an_error() -> None:
    body = b'data: {"error": {"message": "out of memory", "type": "server_error"}}\n\n'
    with serving(Answer(body=body)) as server, pytest.raises(ModelUnavailable, match="out of memory"):
        list(client(server, attempts=1).stream(PROMPT))


def test_a_model_that_never_answers_times_out() -> None:
    hold = Event()
    with serving(Answer(TEXT, hold=hold)) as server:
        try:
            with pytest.raises(ModelTimeout):
                list(client(server, first_answer_seconds=0.05).stream(PROMPT))
            with pytest.raises(ModelTimeout):
                client(server, total_seconds=0.05).complete(PROMPT)
        finally:
            hold.set()
    assert len(server.asked) == 2


def test_an_answer_that_drips_on_and_on_ends_in_time() -> None:
    now = [0.0]

    with serving(Answer("One two three four five")) as server:
        model = OpenAIModel(base_url=server.base_url, api_key=KEY, model="m", allow_private=True, clock=lambda: now[0])
        hold = Event()
        server_answer = Answer("One two three four five", hold_after_first=hold)
        server._script = lambda asked: server_answer
        stream = model.stream(PROMPT)
        assert next(stream) == TextDelta("One")
        now[0] = 301.0
        hold.set()
        with pytest.raises(ModelTimeout):
            list(stream)


def test_closing_the_stream_hangs_up() -> None:
    go_on = Event()
    with serving(Answer("word " * 200_000, hold_after_first=go_on)) as server:
        stream = client(server).stream(PROMPT)
        next(stream)
        stream.close()
        go_on.set()
        assert server.hung_up.wait(10)


def test_nobody_there() -> None:
    with serving(Answer(TEXT)) as server:
        pass
    pauses = Pauses()
    with pytest.raises(ModelUnavailable, match="cannot be reached"):
        client(server, pauses=pauses).complete(PROMPT)
    assert len(pauses) == 2


def test_a_private_address_is_refused_without_a_connection() -> None:
    with serving(Answer(TEXT)) as server:
        guarded = OpenAIModel(base_url=server.base_url, api_key=KEY, model="m", sleep=Pauses())
        with pytest.raises(ModelUnavailable, match="own network"):
            guarded.complete(PROMPT)
    assert server.asked == []


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_are_not_followed(status: int) -> None:
    with serving(Answer(TEXT)) as inside:
        moved = Answer(status=status, headers={"Location": f"{inside.base_url}/chat/completions"})
        with serving(moved) as server, pytest.raises(BadAnswer, match="somewhere else"):
            client(server).complete(PROMPT)
    assert inside.asked == []


def test_an_endpoint_that_wants_the_other_limit_name_gets_it() -> None:
    message = "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."
    error = {"message": message, "param": "max_tokens", "code": "unsupported_parameter", "type": "x"}
    pauses = Pauses()
    with serving(Answer(status=400, error=error), Answer(TEXT)) as server:
        assert client(server, pauses=pauses).complete(PROMPT, max_output_tokens=9).text == TEXT
    assert server.asked[1].body["max_completion_tokens"] == 9
    assert "max_tokens" not in server.asked[1].body
    assert pauses == []


def test_many_calls_at_once_do_not_mix() -> None:
    with serving(script=lambda asked: Answer(f"You said {asked.body['max_tokens']} to me")) as server:
        model = client(server)
        said: dict[int, str] = {}

        def ask(number: int) -> None:
            said[number] = model.complete(PROMPT, max_output_tokens=number).text

        threads = [Thread(target=ask, args=(number,)) for number in range(1, 13)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert said == {number: f"You said {number} to me" for number in range(1, 13)}
