"""Every recording of an endpoint through the real client, through a run with its page, and through a summary."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from html import unescape
from typing import Any

import pytest
from pytest_django.fixtures import Settings

from agents.models import Agent, Run
from agents.runs.executor import execute_run
from agents.tools.needs import SHORT_THREAD_MESSAGES
from memory.plugins.lcm.summarizer import summarize
from openvibe.chat.models import Message, Thread
from openvibe.engines.llm.endpoints import endpoints
from openvibe.engines.llm.errors import ModelError
from openvibe.engines.llm.models import Endpoint
from openvibe.engines.llm.protocol import ModelClient
from openvibe.engines.llm.retries import CallLimits, RetryPolicy
from openvibe.engines.llm.values import Completion, ReasoningDelta, StreamEnd, TextDelta, TextReset
from openvibe.workspaces.models import Member
from tests.agents.runs.scripted_runs import ask
from tests.engines.llm.conformance import KEY, PROMPT, TOOL, Pauses
from tests.engines.llm.model_server import FakeEndpoint
from tests.engines.llm.recordings.recordings import (
    LAST_WORDS,
    Recording,
    read_recordings,
    request_problem,
    serving_recording,
)
from tests.factories import say_all, signed_in
from tests.memory.plugins.lcm.test_summary_validation import SOURCE

RECORDINGS = read_recordings()


def of(step: str) -> pytest.MarkDecorator:
    """Parametrizes over the recordings that are taken through this step."""
    recordings = [recording for recording in RECORDINGS if step in recording.through]
    return pytest.mark.parametrize("recording", recordings, ids=lambda recording: recording.name)


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> Pauses:
    """No client waits."""
    pauses, limits = Pauses(), CallLimits(first_answer_seconds=20, total_seconds=60)
    monkeypatch.setattr(endpoints, "_retry_policy", lambda endpoint: RetryPolicy(limits, sleep=pauses))
    return pauses


@pytest.fixture(autouse=True)
def loopback(settings: Settings) -> None:
    settings.ALLOW_PRIVATE_ENDPOINTS = True


def endpoint_at(server: FakeEndpoint, recording: Recording, **more: Any) -> Endpoint:
    return Endpoint(
        name="Recorded", kind=recording.protocol, base_url=server.base_url, api_key=KEY, model=recording.model, **more
    )


def client_at(server: FakeEndpoint, recording: Recording) -> ModelClient:
    return endpoints.CLIENT_FACTORIES[recording.protocol](endpoint_at(server, recording))


def test_names_are_unique() -> None:
    names = [recording.name for recording in RECORDINGS]
    assert sorted(names) == sorted(set(names))


@of("client")
def test_through_the_client(recording: Recording) -> None:
    """Streamed and whole, each at an endpoint that begins anew."""
    with serving_recording(recording) as server:
        client = client_at(server, recording)
        if recording.expects("error"):
            with pytest.raises(ModelError) as raised:
                list(client.stream(PROMPT, tools=[TOOL], max_output_tokens=500))
            assert_error(f"{raised.value} {raised.value.advice}", raised.value.code, recording)
            return
        completion = streamed(client)
        assert_completion(completion, recording)
    with serving_recording(recording) as server:
        whole = client_at(server, recording).complete(PROMPT, tools=[TOOL], max_output_tokens=500)
    assert_completion(whole, recording)


def streamed(client: ModelClient) -> Completion:
    """The completion, which its pieces have to add up to."""
    text, reasoning = "", ""
    for piece in client.stream(PROMPT, tools=[TOOL], max_output_tokens=500):
        match piece:
            case TextReset():
                text = reasoning = ""
            case TextDelta(text=more):
                assert more
                text += more
            case ReasoningDelta(text=more):
                assert more
                reasoning += more
            case StreamEnd(completion=completion):
                assert text == completion.text
                assert reasoning == completion.reasoning
                return completion
    raise AssertionError("The stream had no end.")


def assert_completion(completion: Completion, recording: Recording) -> None:
    found: dict[str, Any] = {
        "text": completion.text,
        "calls": [[call.name, json.loads(call.arguments)] for call in completion.tool_calls],
        "reasoning": completion.reasoning,
        "provider_fields": plain(completion.provider_fields),
        "call_fields": [plain(call.provider_fields) for call in completion.tool_calls],
        "stop_reason": completion.stop_reason,
        "notices": [notice.code for notice in completion.notices],
    }
    for name, value in found.items():
        if recording.expects(name):
            assert value == recording.expected(name), name
    if usage := recording.expected("usage"):
        assert {name: asdict(completion.usage)[name] for name in usage} == usage


def plain(value: Any) -> Any:
    """The value as JSON has it."""
    if isinstance(value, Mapping):
        return {name: plain(each) for name, each in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [plain(each) for each in value]
    return value


def assert_error(message: str, code: str, recording: Recording) -> None:
    expected_code, part = recording.expected("error")
    assert code == expected_code, message
    assert part in message
    assert KEY not in message


@of("run")
def test_through_a_run_and_its_page(recording: Recording, ana: Member, vibe: Agent, thread: Thread) -> None:
    with serving_recording(recording) as server:
        endpoint_at(server, recording, workspace=ana.workspace, is_default=True).save()
        say_all(thread, ana, ["The hedge."] * (SHORT_THREAD_MESSAGES + 1))  # so that there is something to look up
        run = ask(thread, ana, recording.values.get("ask", "@vibe when do I prune?"))
        execute_run(run.pk)
        run.refresh_from_db()
    reply = Message.objects.filter(pk=run.reply_id or 0).first()
    body = reply.body if reply else ""
    if recording.expects("error"):
        assert run.state == Run.State.FAILED
        assert_error(run.error, run.error_code, recording)
    else:
        assert run.state == Run.State.DONE, run.error
        expected = recording.expected("reply")
        assert body == expected if expected is not None else (recording.expected("text") or LAST_WORDS) in body
    for number, wanted in (recording.expected("requests") or {}).items():
        assert len(server.asked) >= int(number)
        assert request_problem(server.asked[int(number) - 1].body, wanted) == "", f"request {number}"
    page = signed_in(ana).get(f"/w/{ana.workspace.slug}/t/{thread.pk}/").content.decode()
    text = " ".join(unescape(re.sub(r"<[^>]+>", "", page)).split())
    if not recording.expects("error"):
        assert " ".join((recording.expected("page") or recording.expected("text") or LAST_WORDS).split()) in text
    for hidden in (KEY, *(recording.expected("hidden") or ())):
        assert hidden not in page
        assert hidden not in body
        assert not Message.objects.filter(body__contains=hidden).exists()


@of("summary")
def test_through_a_summary(recording: Recording) -> None:
    with serving_recording(recording) as server:
        summary = summarize(SOURCE, share=3, limit=500, client=client_at(server, recording))
    assert summary is not None
    expected = recording.expected("summary")
    assert (summary.level == "fallback") == (expected is None)
    if expected is not None:
        assert summary.content.startswith(expected)
