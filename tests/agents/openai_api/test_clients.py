"""What ten chat clients send by default (`clients/*.json`, whose `source` says how it is known: recorded, or put
together from what they publish) goes through the door, to a model behind HTTP and back, and what comes back is what the
client reads."""

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from django.http import HttpResponseBase
from django.test import Client
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response
from pytest_django.fixtures import Settings

from agents.models import Agent, ClientTurn, Run
from agents.openai_api.replies import run_outcome
from agents.runs.executor import execute_run
from openvibe.api.services import issue_token
from openvibe.engines.serving.streams import STREAMS_KEY
from openvibe.workspaces.models import Member
from tests.engines.llm.factories import EndpointFactory
from tests.engines.llm.model_server import Answer, FakeEndpoint, serving

pytestmark = pytest.mark.django_db
PATHS = sorted(Path(__file__).parent.glob("clients/*.json"))
RECORDINGS = [json.loads(path.read_text()) | {"name": path.stem} for path in PATHS]
OPTIONS = ("temperature", "top_p", "seed", "stop", "presence_penalty", "frequency_penalty", "response_format")
NEUTRAL = {"top_p": 1, "presence_penalty": 0, "frequency_penalty": 0}

Post = Callable[..., tuple[HttpResponseBase, bytes]]


@pytest.fixture
def door(ana: Member, vibe: Agent) -> Post:
    """Posts a request, carries out its run, and sends the answer as to a client that comes once it is over."""
    _, secret = issue_token(participant=ana.participant, name="client", scopes=("write",))

    def post(path: str, body: Any, headers: dict[str, str] | None = None) -> tuple[HttpResponseBase, bytes]:
        streams: list[Any] = []
        scope: dict[str, Any] = {"asgi.scope": {STREAMS_KEY: streams}}
        client = Client(headers={**(headers or {}), "authorization": f"Bearer {secret}"}, **scope)
        response: Any = client.post(path, json.dumps(body), content_type="application/json")
        if response.status_code != 200:
            return response, response.content
        (continuation,), run = streams, Run.objects.latest("pk")
        execute_run(run.pk)
        continued: partial[Any] = continuation.answer or continuation.send
        pending, _, answer_format = continued.args
        if continuation.answer is not None:
            answer = asyncio.run(continued.func(pending, run_outcome(run.pk), answer_format))
            response.status_code = answer.status
            return response, answer.body
        frames: list[bytes] = []

        async def take(message: dict[str, Any]) -> None:
            frames.append(message["body"])

        asyncio.run(continued.func(pending, run_outcome(run.pk), answer_format, take, **continued.keywords))
        return response, b"".join(frames)

    return post


@pytest.fixture
def endpoint(ana: Member, settings: Settings) -> Iterator[Callable[..., FakeEndpoint]]:
    """Serves the workspace's model."""
    settings.ALLOW_PRIVATE_ENDPOINTS = True
    with ExitStack() as stack:

        def serve(*answers: Answer, kind: str = "openai") -> FakeEndpoint:
            server = stack.enter_context(serving(*answers))
            values = {"kind": kind, "base_url": server.base_url, "model": "m", "is_default": True, "sees_images": True}
            EndpointFactory.create(workspace=ana.workspace, name="A", **values)
            return server

        yield serve


def chat_text(content: bytes) -> str:
    """The text of a stream of chat completions, each chunk of which the official package reads."""
    lines = [line.removeprefix("data: ") for line in content.decode().splitlines() if line.startswith("data: ")]
    assert lines[-1] == "[DONE]"
    chunks = [ChatCompletionChunk.model_validate_json(line) for line in lines[:-1]]
    return "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)


def answer_text(path: str, body: Any, content: bytes) -> str:
    if path.endswith("/responses"):
        return str(Response.model_validate_json(content).output_text)
    if body.get("stream"):
        return chat_text(content)
    return ChatCompletion.model_validate_json(content).choices[0].message.content or ""


@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda recording: recording["name"])
def test_a_client_as_it_comes_is_answered(
    door: Post, endpoint: Callable[..., FakeEndpoint], recording: dict[str, Any]
) -> None:
    expects, body = recording["expects"], recording["body"]
    call = expects.get("call")
    text = json.dumps(expects["json"]) if "json" in expects else expects.get("text", "")
    server = endpoint(Answer(text, tool_calls=(("call_a", call, '{"name": "Rosa", "age": 3}'),) if call else ()))
    response, content = door(recording["path"], body, recording["headers"])
    assert response.status_code == 200, content
    assert response.headers.get("X-OpenVibe-Ignored", "") == ", ".join(expects.get("ignored", ()))
    if call:
        (made,) = json.loads(content)["choices"][0]["message"]["tool_calls"]
        assert server.asked[0].body["tool_choice"] == body["tool_choice"]
        assert (made["type"], json.loads(made["function"]["arguments"])) == ("function", {"name": "Rosa", "age": 3})
        return
    said = answer_text(recording["path"], body, content)
    assert json.loads(said) == expects["json"] if "json" in expects else said == expects["text"]
    asked = server.asked[0].body
    assert json.dumps(asked["messages"]).count('"type": "image_url"') == expects.get("images", 0)
    for name in OPTIONS:
        if body.get(name) is not None and NEUTRAL.get(name) != body[name]:
            assert asked[name] == body[name], name


def test_ten_clients_are_among_them() -> None:
    assert {recording["client"] for recording in RECORDINGS} == {
        *("openai (Python)", "openai (Node)", "litellm", "langchain-openai", "llm", "ai SDK", "aider"),
        *("Open WebUI", "LibreChat", "LobeChat"),
    }


ROSE = {"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}}, "required": ["name"]}
WANTS_ROSE = {"type": "json_schema", "json_schema": {"name": "rose", "schema": ROSE}}


def body_of(**more: Any) -> dict[str, Any]:
    return {"model": "@vibe", "messages": [{"role": "user", "content": "A rose"}], **more}


def test_an_answer_that_is_not_the_format_is_asked_for_once_more(
    door: Post, endpoint: Callable[..., FakeEndpoint]
) -> None:
    server = endpoint(Answer("Here is a rose."), Answer('Sure:\n```json\n{"name": "Rosa"}\n```'))
    for stream in (False, True):
        response, content = door("/v1/chat/completions", body_of(response_format=WANTS_ROSE, stream=stream))
        assert response.status_code == 200, content
        assert json.loads(answer_text("", {"stream": stream}, content)) == {"name": "Rosa"}
    told = server.asked[1].body["messages"]
    assert "no JSON" in told[-1]["content"]
    assert told[-2]["content"] == "Here is a rose."
    run = Run.objects.earliest("pk")
    assert run.reply is not None
    assert run.reply.body == '{"name": "Rosa"}'
    assert sum(step.get("code") == "json_again" for step in run.steps) == 1


def test_a_model_that_cannot_fails_clearly(door: Post, endpoint: Callable[..., FakeEndpoint]) -> None:
    server = endpoint(Answer('{"age": "three"}'))
    response, content = door("/v1/chat/completions", body_of(response_format=WANTS_ROSE))
    error = json.loads(content)["error"]
    assert (response.status_code, error["code"], error["type"]) == (422, "answer_not_json", "invalid_request_error")
    assert "asked twice" in error["message"]
    assert len(server.asked) == 2


def test_an_endpoint_without_formats_is_told_in_words(door: Post, endpoint: Callable[..., FakeEndpoint]) -> None:
    refusal = {"message": "response_format is not supported by this model", "code": "unsupported_parameter"}
    server = endpoint(Answer(status=400, error=refusal), Answer('{"name": "Rosa"}'))
    response, content = door("/v1/chat/completions", body_of(response_format=WANTS_ROSE))
    assert json.loads(answer_text("", {}, content)) == {"name": "Rosa"}
    assert "response_format" not in server.asked[1].body
    assert "JSON schema" in server.asked[1].body["messages"][-1]["content"]
    assert "X-OpenVibe-Ignored" not in response.headers


@pytest.mark.parametrize(
    ("response_format", "value"),
    [
        ({"type": "json_object"}, {"answer": ...}),
        (WANTS_ROSE, {"name": ...}),
        (
            {"type": "json_schema", "json_schema": {"schema": {"$ref": "#/$defs/rose", "$defs": {"rose": ROSE}}}},
            {"name": ...},
        ),
    ],
)
def test_the_offline_model_answers_in_the_format(
    door: Post, response_format: dict[str, Any], value: dict[str, Any]
) -> None:
    response, content = door("/v1/chat/completions", body_of(response_format=response_format, temperature=0))
    assert response.headers["X-OpenVibe-Ignored"] == "temperature"
    said = json.loads(answer_text("", {}, content))
    assert {name: ... for name, text in said.items() if isinstance(text, str) and "offline model" in text} == value


def test_where_the_offline_model_cannot_it_says_so(door: Post) -> None:
    impossible = {"type": "json_schema", "json_schema": {"schema": {**ROSE, "minProperties": 9}}}
    response, content = door("/v1/chat/completions", body_of(response_format=impossible))
    assert (response.status_code, json.loads(content)["error"]["code"]) == (422, "answer_not_json")


def test_what_is_ignored_is_named(door: Post, endpoint: Callable[..., FakeEndpoint]) -> None:
    endpoint(Answer("In March."), kind="anthropic")
    sent = {"seed": 7, "presence_penalty": 0.5, "temperature": 0.2, "frequency_penalty": 0, "logit_bias": {"1": 5}}
    odd = {"x\r\nSet-Cookie: y": 1, "ünknown": 1, "top_k": 3, "n": 1, "store": True}
    response, content = door("/v1/chat/completions", body_of(**sent, **odd))
    assert response.status_code == 200, content
    names = response.headers["X-OpenVibe-Ignored"].split(", ")
    assert names == ["?nknown", "logit_bias", "presence_penalty", "seed", "top_k", "x??Set-Cookie??y"]
    many, _ = door("/v1/chat/completions", body_of(**{f"field_{number}_{'x' * 90}": 1 for number in range(50)}))
    assert len(many.headers["X-OpenVibe-Ignored"]) < 1_400


def test_what_is_asked_stands_with_the_turn_and_reaches_the_model(
    door: Post, endpoint: Callable[..., FakeEndpoint]
) -> None:
    server = endpoint(Answer("In March."))
    door("/v1/responses", {"model": "@vibe", "input": "When?", "reasoning": {"effort": "minimal"}, "top_p": 0.5})
    assert ClientTurn.objects.latest("pk").options == {"effort": "low", "top_p": 0.5}
    assert (server.asked[0].body["reasoning_effort"], server.asked[0].body["top_p"]) == ("low", 0.5)


def test_a_schema_is_not_fetched_and_its_patterns_never_hang(door: Post, endpoint: Callable[..., FakeEndpoint]) -> None:
    slow = {"type": "object", "properties": {"name": {"type": "string", "pattern": "^(a+)+$"}}}
    server = endpoint(Answer(json.dumps({"name": "a" * 60 + "!"})))
    wants = {"type": "json_schema", "json_schema": {"schema": slow}}
    assert door("/v1/chat/completions", body_of(response_format=wants))[0].status_code == 200
    fetched = {"type": "json_schema", "json_schema": {"schema": {"$ref": f"{server.base_url}/schema.json"}}}
    response, content = door("/v1/chat/completions", body_of(response_format=fetched, user="x"))
    assert (response.status_code, "not in it" in content.decode()) == (422, True)
    assert all(asked.path.endswith("/chat/completions") for asked in server.asked)


def test_json_after_tools_is_the_whole_answer(door: Post, endpoint: Callable[..., FakeEndpoint]) -> None:
    looks = Answer("Let me look.", tool_calls=(("call_a", "thread_history", '{"query": "rose"}'),))
    server = endpoint(looks, Answer('{"name": "Rosa"}'))
    _, content = door("/v1/chat/completions", body_of(response_format=WANTS_ROSE))
    assert answer_text("", {}, content) == '{"name": "Rosa"}'
    assert [asked.body["messages"][-1]["role"] for asked in server.asked] == ["user", "user"]
    assert all("JSON schema" in asked.body["messages"][-1]["content"] for asked in server.asked)
