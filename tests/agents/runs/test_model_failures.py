"""A model that answers nothing, garbage, half or never, met over HTTP: the run says why, Retry works."""

from collections.abc import Iterator
from threading import Event
from threading import enumerate as live_threads

import pytest
from django.db import connection
from pytest_django.fixtures import Settings

from agents.models import Agent, Run
from agents.runs.executor import execute_run
from agents.runs.lifecycle import retry_run, stop_run
from openvibe.chat.models import Message, Thread
from openvibe.engines.llm.anthropic.client import AnthropicModel
from openvibe.engines.llm.http_client import Connection
from openvibe.engines.llm.openai.client import OpenAIModel
from openvibe.engines.llm.retries import RetryPolicy
from openvibe.workspaces.models import Member
from tests.engines.llm.factories import EndpointFactory
from tests.engines.llm.model_server import Answer, FakeEndpoint, serving
from tests.factories import access, say

NEVER = Event()
QUESTION = "@vibe when do I prune?"


@pytest.fixture
def endpoint(request: pytest.FixtureRequest, ana: Member, settings: Settings) -> Iterator[FakeEndpoint]:
    """The workspace's model: a real server that misbehaves once, as the test says, and then answers."""
    settings.ALLOW_PRIVATE_ENDPOINTS = True
    settings.MODEL_FIRST_ANSWER_SECONDS = 0.3
    with serving(request.param, Answer("In March.")) as server:
        EndpointFactory.create(
            workspace=ana.workspace,
            name="Steered",
            base_url=server.base_url,
            api_key="sk-test",
            model="gpt-4o",
            is_default=True,
        )
        yield server
        NEVER.set()
    NEVER.clear()


@pytest.mark.parametrize(
    ("endpoint", "code", "words", "kept"),
    [
        (Answer(""), "model_bad_answer", "answered nothing", ""),
        (Answer(body=b"<html>Welcome!</html>"), "model_bad_answer", "", ""),
        (Answer(body=b"data: [1]\n\n"), "model_bad_answer", "", ""),
        (Answer(hold=NEVER), "model_timed_out", "did not answer in time", ""),
        (Answer("In April, because", drop_after=3), "model_unavailable", "", "In April,"),
    ],
    indirect=["endpoint"],
    ids=["nothing", "garbage", "garbage in a stream", "never", "half"],
)
def test_it_says_why_and_retry_answers(
    endpoint: FakeEndpoint, ana: Member, vibe: Agent, thread: Thread, code: str, words: str, kept: str
) -> None:
    question = say(thread, ana, QUESTION)
    run = Run.objects.get(trigger=question)
    execute_run(run.pk)
    run.refresh_from_db()
    assert (run.state, run.error_code) == ("failed", code)
    assert words in run.error
    assert run.error.endswith((".", "!"))
    assert "Traceback" not in run.error
    assert run.reply is not None
    assert (run.reply.state, run.reply.body) == ("failed", kept)
    assert Message.objects.get(pk=question.pk).body == QUESTION

    retry_run(run=run, by=access(ana))
    execute_run(run.pk)
    run.refresh_from_db()
    assert (run.state, run.error, run.reply.pk) == ("done", "", Message.objects.get(body="In March.").pk)
    assert len(endpoint.asked) == 2


def test_a_request_larger_than_the_budget_is_answered_and_stored_whole(
    ana: Member, vibe: Agent, thread: Thread
) -> None:
    long = "@vibe what about " + "roses " * 16_000
    run = Run.objects.get(trigger=say(thread, ana, long))
    execute_run(run.pk)
    run.refresh_from_db()
    assert run.state == "done", run.error
    assert run.snapshot.tokens <= run.snapshot.budget
    assert run.trigger.body == long.rstrip()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("build", [OpenAIModel, AnthropicModel])
def test_a_run_that_is_stopped_before_the_next_try_asks_nothing_more(
    ana: Member, vibe: Agent, thread: Thread, build: type[OpenAIModel | AnthropicModel]
) -> None:
    run = Run.objects.get(trigger=say(thread, ana, QUESTION))
    is_over = Event()

    def pause(_: float) -> None:
        stop_run(run=Run.objects.get(pk=run.pk), by=access(ana))
        connection.close()
        assert is_over.wait(30), "nobody waits for the pause to end"

    with serving(Answer(status=500), Answer("In March.")) as server:
        door = Connection(server.base_url, "sk-test", allow_private=True)
        execute_run(run.pk, client=build(door, model="gpt-4o", retry_policy=RetryPolicy(sleep=pause)))
        is_over.set()
        for reader in live_threads():
            if reader.name == "model-stream":
                reader.join(30)
        assert len(server.asked) == 1
    run.refresh_from_db()
    assert run.state == "stopped"
