"""Prompts that are too long for a model, and models that read less than they were sent: told in the run, remembered."""

from typing import Any

import pytest
from pytest_django.fixtures import Settings

from agents.models import Agent, Run
from agents.runs.executor import execute_run
from agents.runs.timeline import run_timeline
from memory.models import Episode
from openvibe.base.models import AuditRecord
from openvibe.chat.models import Thread
from openvibe.engines.llm.errors import ContextTooLong
from openvibe.engines.llm.models import Endpoint
from openvibe.engines.llm.tokens import count_prompt_tokens, counter_for
from openvibe.workspaces.models import Member
from tests.agents.runs.scripted_runs import ask, reply_of, told
from tests.engines.llm.factories import EndpointFactory
from tests.engines.llm.model_server import Answer, Asked, FakeEndpoint, serving
from tests.factories import access, say, signed_in

TOO_LONG = Answer(
    status=400,
    error={
        "message": "This model's maximum context length is 4096 tokens. However, you requested 8200 tokens (4300 in the"
        " messages, 3900 in the completion).",
        "code": "context_length_exceeded",
    },
)


@pytest.fixture(autouse=True)
def loopback(settings: Settings) -> None:
    settings.ALLOW_PRIVATE_ENDPOINTS = True


@pytest.fixture
def long_thread(thread: Thread, ana: Member) -> Thread:
    for number in range(40):
        say(
            thread,
            ana,
            f"Note {number}: the bed by the fence gets {number} litres of water and a layer of bark mulch. " * 8,
        )
    return thread


def endpoint_at(server: FakeEndpoint, ana: Member, **more: object) -> Endpoint:
    values: dict[str, Any] = {
        "name": "Steered",
        "base_url": server.base_url,
        "model": "gpt-4o",
        "is_default": True,
        **more,
    }
    return EndpointFactory.create(workspace=ana.workspace, **values)


def sent_tokens(asked: Asked) -> int:
    return counter_for("gpt-4o").count("".join(str(message["content"]) for message in asked.body["messages"]))


def texts(run: Run, ana: Member) -> list[str]:
    return [f"{event.text} {event.detail}".strip() for event in run_timeline(run, access(ana))]


def test_the_prompt_is_made_anew_for_the_window_that_is_named(ana: Member, vibe: Agent, long_thread: Thread) -> None:
    run = ask(long_thread, ana)
    with serving(TOO_LONG, Answer("In March.")) as server:
        endpoint = endpoint_at(server, ana)
        execute_run(run.pk)
    run.refresh_from_db()
    endpoint.refresh_from_db()
    first, second = server.asked
    assert (run.state, reply_of(run).body, run.attempt) == ("done", "In March.", 1)
    assert sent_tokens(first) > 4_096 > sent_tokens(second) + second.body["max_tokens"] > 1_000
    assert run.snapshot.tokens < 4_096, "what is kept is what it saw in the end"
    answered = [step["tokens"] for step in run.steps if step["kind"] == "answered"]
    assert [run.input_tokens] == answered, "what was refused cost nothing"
    assert endpoint.learned_window is not None
    assert endpoint.learned_window <= 4_096
    assert any("4,096 tokens at most" in text or "made shorter" in text for text in texts(run, ana))
    assert not Episode.objects.filter(kind="task_failed").exists()

    again = ask(long_thread, ana)
    with serving(script=lambda asked: Answer("In April.")) as later:
        Endpoint.objects.filter(pk=endpoint.pk).update(base_url=later.base_url)
        execute_run(again.pk)
    assert len(later.asked) == 1
    assert sent_tokens(later.asked[0]) < 4_096, "it is remembered: nothing is refused any more"

    page = f"/w/{ana.workspace.slug}/settings/models/{endpoint.pk}/"
    shown = signed_in(ana).get(page).content.decode()
    assert "It refused a longer prompt" in shown
    assert signed_in(ana).post(page, {"act": "forget-window"}).status_code == 302
    forgotten = Endpoint.objects.get(pk=endpoint.pk)
    assert (forgotten.learned_window or 0, forgotten.usable_window) == (0, 32_000)
    assert AuditRecord.objects.filter(after="forgotten").exists()
    assert "It refused a longer prompt" not in signed_in(ana).get(page).content.decode()


def test_without_a_figure_it_is_a_third_less_each_time(ana: Member, vibe: Agent, long_thread: Thread) -> None:
    run = ask(long_thread, ana)
    refusal = ContextTooLong("Too long.")
    model = told(run, refusal, refusal, "In March.")
    sizes = [count_prompt_tokens(call.messages, call.tools, counter_for("scripted")) for call in model.calls]
    assert run.state == "done", run.error
    assert sizes[1] <= sizes[0] * 2 // 3
    assert sizes[2] <= sizes[1] * 2 // 3


def test_what_is_refused_whatever_its_length_fails_with_its_reason(
    ana: Member, vibe: Agent, long_thread: Thread
) -> None:
    run = ask(long_thread, ana)
    model = told(run, ContextTooLong("The prompt is longer than the model takes."))
    assert (run.state, run.error_code) == ("failed", "model_context_too_long")
    assert len(model.calls) <= 4
    assert not Episode.objects.filter(kind="task_failed").exists()


def test_a_window_of_512_is_a_clear_failure(ana: Member, vibe: Agent, thread: Thread) -> None:
    run = ask(thread, ana, f"@vibe {'when do I prune the roses? ' * 100}")
    told(run, ContextTooLong("Too long.", window=512))
    assert (run.state, run.error_code) == ("failed", "model_context_too_long")
    assert "takes 512 tokens at most" in run.error
    assert "too few" in run.error

    page = f"/w/{ana.workspace.slug}/settings/models/new/"
    form = {
        "name": "Tiny",
        "kind": "openai",
        "base_url": "https://93.184.216.34/v1",
        "model": "m",
        "timeout_seconds": 60,
    }
    answer = signed_in(ana).post(page, {**form, "context_window": 512, "output_reserve": 128})
    assert answer.status_code == 400
    assert "at least 2,000 tokens" in answer.content.decode()


@pytest.mark.parametrize(("read", "cached", "is_noticed"), [(512, 0, True), (512, 4_000, False), (4_900, None, False)])
def test_what_was_left_unread_is_said(
    ana: Member, vibe: Agent, long_thread: Thread, read: int, cached: int | None, is_noticed: bool
) -> None:
    details = {} if cached is None else {"prompt_tokens_details": {"cached_tokens": cached}}
    usage = f'{{"prompt_tokens": {read}, "completion_tokens": 5'
    usage += f', "prompt_tokens_details": {{"cached_tokens": {cached}}}}}' if details else "}"
    said = '{"choices": [{"index": 0, "delta": {"content": "I saw the tail."}, "finish_reason": "stop"}]}'
    body = f'data: {said}\n\ndata: {{"choices": [], "usage": {usage}}}\n\ndata: [DONE]\n\n'.encode()
    run = ask(long_thread, ana)
    with serving(Answer(body=body, headers={"Content-Type": "text/event-stream"})) as server:
        endpoint = endpoint_at(server, ana)
        execute_run(run.pk)
    run.refresh_from_db()
    endpoint.refresh_from_db()
    assert run.state == "done"
    assert any("read 512 of about" in text and "num_ctx" in text for text in texts(run, ana)) is is_noticed
    assert (endpoint.unread_read == 512) is is_noticed
    page = signed_in(ana).get(f"/w/{ana.workspace.slug}/settings/models/{endpoint.pk}/").content.decode()
    assert ("The model read 512 of about" in page) is is_noticed


def test_a_server_that_counts_only_what_is_new_is_not_accused(ana: Member, vibe: Agent, long_thread: Thread) -> None:
    Run.objects.filter(pk=ask(long_thread, ana).pk).update(
        model="gpt-4o", state="done", steps=[{"kind": "answered", "at": "2026-11-28T12:00:00+00:00", "tokens": 5_000}]
    )
    run = ask(long_thread, ana)
    said = '{"choices": [{"index": 0, "delta": {"content": "Yes."}, "finish_reason": "stop"}]}'
    usage = '{"choices": [], "usage": {"prompt_tokens": 300, "completion_tokens": 5}}'
    body = f"data: {said}\n\ndata: {usage}\n\ndata: [DONE]\n\n".encode()
    with serving(Answer(body=body, headers={"Content-Type": "text/event-stream"})) as server:
        endpoint = endpoint_at(server, ana)
        execute_run(run.pk)
    endpoint.refresh_from_db()
    assert endpoint.unread_read is None
