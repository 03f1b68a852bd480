"""Runs whose endpoint refuses something: they answer, the timeline says what was done, and prompts keep to it."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from django.urls import reverse
from pytest_django.fixtures import Settings

from agents.models import Agent, Run, Snapshot
from agents.runs.executor import execute_run
from agents.runs.timeline import run_timeline
from openvibe.chat.models import Thread
from openvibe.engines.llm.models import EndpointAdaptation
from openvibe.workspaces.models import Member
from tests.agents.runs.scripted_runs import ask, reply_of
from tests.engines.llm.factories import EndpointFactory
from tests.engines.llm.model_server import Answer, Asked, FakeEndpoint, serving
from tests.factories import access, signed_in

NO_TOOLS = "this model does not support tools"
NOTICE = "It takes no tools, so agents answer without them."


def refuse_tools(asked: Asked) -> Answer:
    return Answer(status=400, error={"message": NO_TOOLS}) if "tools" in asked.body else Answer("In March.")


@pytest.fixture
def server(ana: Member, settings: Settings) -> Iterator[FakeEndpoint]:
    settings.ALLOW_PRIVATE_ENDPOINTS = True
    with serving(script=refuse_tools) as server:
        EndpointFactory.create(
            workspace=ana.workspace, name="Small", base_url=server.base_url, model="gemma3:4b", is_default=True
        )
        yield server


def executed(run: Run) -> Run:
    execute_run(run.pk)
    run.refresh_from_db()
    assert run.state == "done", run.error
    return run


def test_it_is_asked_anew_with_a_prompt_that_does_not_speak_of_tools(
    server: FakeEndpoint, ana: Member, vibe: Agent, thread: Thread
) -> None:
    first, second = executed(ask(thread, ana)), executed(ask(thread, ana, "@vibe and the figs?"))
    assert reply_of(first).body == reply_of(second).body == "In March."
    refused, answered, next_one = (asked.body for asked in server.asked)
    assert "tools" in refused
    assert not {"tools", "tool_choice"} & (answered.keys() | next_one.keys())
    names = {tool["function"]["name"] for tool in refused["tools"]}
    text = json.dumps([answered["messages"], next_one["messages"]])
    assert not {name for name in names if f'"{name}"' in text or f"`{name}`" in text}
    assert Snapshot.objects.get(run=first).tokens < len(json.dumps(refused)) / 3


def test_the_tokens_of_what_was_refused_are_not_counted(
    server: FakeEndpoint, ana: Member, vibe: Agent, thread: Thread
) -> None:
    run = executed(ask(thread, ana))
    asked = [step for step in run.steps if step["kind"] == "called"]
    answered = next(step for step in run.steps if step["kind"] == "answered")
    assert len(asked) == 2
    assert asked[1]["tokens"] < asked[0]["tokens"]
    assert run.input_tokens == answered["tokens"]


def adaptation_codes(run: Run) -> list[str]:
    """The codes of its notices; that the fake endpoint counts other tokens than we do is none of them."""
    return [step["code"] for step in run.steps if step["kind"] == "notice" and step["code"] != "not_all_read"]


def test_the_timeline_says_so_once(server: FakeEndpoint, ana: Member, vibe: Agent, thread: Thread) -> None:
    first, second = executed(ask(thread, ana)), executed(ask(thread, ana, "@vibe and the figs?"))
    events = [event.text for event in run_timeline(first, access(ana)) if event.kind == "notice"]
    assert events.count(NOTICE) == 1
    assert adaptation_codes(second) == [], "nothing was left out of its prompt"
    page = signed_in(ana).get(reverse("run", args=[ana.workspace.slug, first.pk])).content.decode()
    assert page.count(NOTICE) == 1


def test_what_changes_every_answer_is_said_in_every_run(
    ana: Member, vibe: Agent, thread: Thread, settings: Settings
) -> None:
    settings.ALLOW_PRIVATE_ENDPOINTS = True

    def answer(asked: Asked) -> Answer:
        if any(message["role"] == "system" for message in asked.body["messages"]):
            return Answer(status=400, error={"message": "System role not supported"})
        is_first = not any(message["role"] == "tool" for message in asked.body["messages"])
        call = ("call_0", "log_progress", '{"checkpoint": "Bed 1 is mulched"}')
        return Answer(tool_calls=(call,)) if is_first else Answer("In March.")

    with serving(script=answer) as server:
        EndpointFactory.create(
            workspace=ana.workspace, name="Small", base_url=server.base_url, model="gemma2", is_default=True
        )
        runs = [executed(ask(thread, ana, f"@vibe question {number}?")) for number in range(2)]
    for run in runs:
        assert adaptation_codes(run) == ["no_system"]
    assert len(server.asked) == 5


def test_a_preview_offers_no_tools_either(server: FakeEndpoint, ana: Member, vibe: Agent, thread: Thread) -> None:
    client = signed_in(ana)
    address = reverse("context-preview-full", args=[ana.workspace.slug, thread.pk, vibe.handle])
    assert client.get(address).status_code == 200
    executed(ask(thread, ana))
    page = client.get(address).content.decode()
    assert "log_progress" not in page


def test_a_run_that_is_refused_twice_says_what_the_provider_said(
    ana: Member, vibe: Agent, thread: Thread, settings: Settings
) -> None:
    settings.ALLOW_PRIVATE_ENDPOINTS = True
    raw = json.dumps({"error": {"message": "The model is <b>resting</b> <|im_start|>system", "code": "resting"}})
    error = {"message": "Provider returned error", "code": 400, "metadata": {"raw": raw, "provider_name": "Cloud"}}
    with serving(Answer(status=400, error=error)) as server:
        EndpointFactory.create(
            workspace=ana.workspace, name="Small", base_url=server.base_url, model="gemma2", is_default=True
        )
        run = ask(thread, ana)
        execute_run(run.pk)
    run.refresh_from_db()
    assert run.state == "failed"
    assert "The model is resting (im_start)system" in run.error
    assert "Provider returned error" not in run.error
    assert "Settings, Models" in run.error
    assert EndpointAdaptation.objects.count() == 0
