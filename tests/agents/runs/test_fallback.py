"""A fallback model: asked after the second failure, said on the reply, counted and priced as what it is."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from decimal import Decimal
from typing import Any

import pytest
from django.db import IntegrityError, transaction
from pytest_django.fixtures import Settings

from agents.agent.services import update_agent
from agents.connect.endpoints import delete_endpoint
from agents.models import Agent, Run
from agents.openai_api.conversations import asker_of, begin_turn
from agents.openai_api.requests import parse_chat
from agents.runs.executor import execute_run
from agents.runs.lifecycle import retry_run
from agents.runs.timeline import run_timeline
from memory.models import Episode
from openvibe.base.problems import Problem
from openvibe.chat.models import Thread
from openvibe.engines.llm.endpoints import endpoints
from openvibe.engines.llm.models import Endpoint
from openvibe.engines.llm.retries import CallLimits, RetryPolicy
from openvibe.workspaces.models import Member
from tests.agents.runs.scripted_runs import ask, reply_of
from tests.engines.llm.factories import EndpointFactory
from tests.engines.llm.model_server import Answer, FakeEndpoint, serving
from tests.factories import access, say, signed_in

DOWN = Answer(status=500, error={"message": "CUDA out of memory"})
CALL = Answer("", tool_calls=(("call_1", "log_progress", '{"checkpoint": "Bed 1 is mulched"}'),))


@pytest.fixture(autouse=True)
def no_waiting(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.ALLOW_PRIVATE_ENDPOINTS = True

    def policy(endpoint: Endpoint) -> RetryPolicy:
        return RetryPolicy(CallLimits(10, 20, attempts=endpoint.attempts), sleep=lambda seconds: None)

    monkeypatch.setattr(endpoints, "_retry_policy", policy)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def serve(stack: ExitStack, *answers: Answer) -> FakeEndpoint:
    return stack.enter_context(serving(*answers))


def model_at(server: FakeEndpoint, member: Member, name: str, **more: object) -> Endpoint:
    values = {"base_url": server.base_url, "model": f"gpt-4o-{name}", "price_in": 2, "price_out": 10, **more}
    return EndpointFactory.create(workspace=member.workspace, name=name, **values)


def carried_out(run: Run) -> Run:
    execute_run(run.pk)
    run.refresh_from_db()
    return run


def test_it_answers_after_the_second_failure_and_the_reply_says_so(
    ana: Member, vibe: Agent, thread: Thread, stack: ExitStack
) -> None:
    first, second = serve(stack, DOWN), serve(stack, Answer("In March."))
    model_at(first, ana, "first", is_default=True)
    model_at(second, ana, "second", is_fallback=True, price_in=4, price_out=20)
    run = carried_out(ask(thread, ana))
    assert (run.state, reply_of(run).body) == ("done", "In March.")
    assert (len(first.asked), len(second.asked)) == (2, 1)
    assert (run.model, run.first_model, run.price_in) == ("gpt-4o-second", "gpt-4o-first", Decimal(4))
    assert "CUDA out of memory" in run.first_error
    page = signed_in(ana).get(f"/w/{ana.workspace.slug}/t/{thread.pk}/").content.decode()
    assert "Answered by gpt-4o-second, because gpt-4o-first did not answer." in page
    told = " ".join(event.text for event in run_timeline(run, access(ana)))
    assert "Asked gpt-4o-second in its place" in told
    assert signed_in(ana).get(f"/w/{ana.workspace.slug}/runs/{run.pk}/").status_code == 200
    assert not Episode.objects.filter(kind="task_failed").exists()


def test_the_agents_own_fallback_comes_before_the_workspaces(
    ana: Member, vibe: Agent, thread: Thread, stack: ExitStack
) -> None:
    refused = Answer(status=401, error={"message": "Incorrect API key provided"})
    first, own, common = serve(stack, refused), serve(stack, Answer("Mine.")), serve(stack, Answer("Ours."))
    model_at(first, ana, "first", is_default=True)
    model_at(common, ana, "common", is_fallback=True)
    Agent.objects.filter(pk=vibe.pk).update(fallback=model_at(own, ana, "own"))
    assert reply_of(carried_out(ask(thread, ana))).body == "Mine."
    assert len(first.asked) == 1, "a key that is refused is refused twice"


def test_one_failure_that_passes_needs_no_fallback(ana: Member, vibe: Agent, thread: Thread, stack: ExitStack) -> None:
    first, second = serve(stack, DOWN, Answer("In March.")), serve(stack, Answer("Never."))
    model_at(first, ana, "first", is_default=True)
    model_at(second, ana, "second", is_fallback=True)
    run = carried_out(ask(thread, ana))
    assert (reply_of(run).body, run.first_model, second.asked) == ("In March.", "", [])


def test_both_reasons_are_said_where_both_fail_and_retry_begins_with_the_first(
    ana: Member, vibe: Agent, thread: Thread, stack: ExitStack
) -> None:
    first = serve(stack, DOWN, DOWN, Answer("In March."))
    second = serve(stack, Answer(status=402, error={"message": "Your credit balance is too low"}))
    model_at(first, ana, "first", is_default=True)
    model_at(second, ana, "second", is_fallback=True)
    run = carried_out(ask(thread, ana))
    assert (run.state, run.error_code) == ("failed", "model_unavailable")
    assert "gpt-4o-first: " in run.error
    assert "CUDA out of memory" in run.error
    assert "gpt-4o-second, its fallback: " in run.error
    assert "credit balance" in run.error
    retry_run(run=run, by=access(ana))
    run = carried_out(run)
    assert (run.state, reply_of(run).body, run.model, run.first_model) == ("done", "In March.", "gpt-4o-first", "")


def test_what_the_first_did_stands_and_each_is_paid_at_its_own_price(
    ana: Member, vibe: Agent, thread: Thread, stack: ExitStack
) -> None:
    Agent.objects.filter(pk=vibe.pk).update(level=3)
    signed = {
        "id": "call_1",
        "type": "function",
        "function": {"name": "log_progress", "arguments": '{"checkpoint": "Mulched"}'},
    }
    chunk = {
        "choices": [
            {"index": 0, "delta": {"tool_calls": [{"index": 0, **signed, "extra_content": {"signature": "c2ln"}}]}}
        ]
    }
    body = (
        f"data: {json.dumps(chunk)}\n\n"
        + 'data: {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}\n\n'
    )
    call = Answer(body=f"{body}data: [DONE]\n\n".encode(), headers={"Content-Type": "text/event-stream"})
    first, second = serve(stack, call, DOWN), serve(stack, Answer("It is logged."))
    model_at(first, ana, "first", is_default=True)
    model_at(second, ana, "second", is_fallback=True, price_in=4, price_out=20)
    run = carried_out(ask(thread, ana))
    assert (run.state, reply_of(run).body) == ("done", "It is logged."), run.error
    assert run.tool_calls.count() == 1
    sent = json.dumps(second.asked[0].body)
    assert "Mulched" in sent, "the fallback goes on after the call, which it is told: without its signature it is none"
    assert "c2ln" not in sent, "what the first provider signed is nothing to another"
    answered = [step for step in run.steps if step["kind"] == "answered"]
    paid = sum(step["tokens"] * price for step, price in zip(answered, (2, 4), strict=True))
    paid += sum(step["output_tokens"] * price for step, price in zip(answered, (10, 20), strict=True))
    asked_in_vain = run.input_tokens - sum(step["tokens"] for step in answered)
    assert run.cost == Decimal(paid + asked_in_vain * 2) / 1_000_000


def test_the_prompt_is_made_for_the_fallbacks_window(
    ana: Member, vibe: Agent, thread: Thread, stack: ExitStack
) -> None:
    for number in range(30):
        say(thread, ana, f"Note {number}: water the bed by the fence and mulch it with bark. " * 10)
    first, second = serve(stack, DOWN), serve(stack, Answer("In March."))
    model_at(first, ana, "first", is_default=True)
    model_at(second, ana, "second", is_fallback=True, context_window=3_000, output_reserve=500)
    run = carried_out(ask(thread, ana))
    assert run.state == "done", run.error
    assert run.snapshot.tokens <= 2_500
    assert second.asked[0].body["max_tokens"] == 500
    assert run.snapshot.model == "gpt-4o-second"


class TestChoosing:
    def test_the_same_model_is_no_fallback(self, ana: Member, vibe: Agent, thread: Thread, stack: ExitStack) -> None:
        server = serve(stack, DOWN)
        first = model_at(server, ana, "first", is_default=True)
        twin = model_at(server, ana, "twin", model=first.model)
        settings: dict[str, Any] = {
            "by": access(ana),
            "daily_token_budget": 9_000,
            "proactive_cooldown": 60,
            "answers_itself": False,
            "channels": [],
            "is_active": True,
        }
        for endpoint in (None, first):
            with pytest.raises(Problem, match="would fail with it"):
                update_agent(agent=vibe, endpoint=endpoint, fallback=twin, **settings)
        page = f"/w/{ana.workspace.slug}/agents/vibe/settings/"
        form = {
            "answers_itself": "False",
            "endpoint": first.pk,
            "fallback": first.pk,
            "daily_token_budget": 9,
            "proactive_cooldown": 60,
            "is_active": "on",
        }
        answer = signed_in(ana).post(page, form)
        assert answer.status_code == 422
        assert "would fail with it" in answer.content.decode()
        with pytest.raises(IntegrityError), transaction.atomic():
            Agent.objects.filter(pk=vibe.pk).update(endpoint=first, fallback=first)
        with pytest.raises(IntegrityError), transaction.atomic():
            Endpoint.objects.filter(pk=first.pk).update(is_fallback=True)
        Endpoint.objects.filter(pk=twin.pk).update(is_fallback=True)  # past the forms: it is passed over
        run = carried_out(ask(thread, ana))
        assert (run.state, run.error_code, run.first_model) == ("failed", "model_unavailable", "")

    def test_it_is_chosen_in_the_settings_and_leaves_with_its_endpoint(
        self, ana: Member, vibe: Agent, thread: Thread, stack: ExitStack
    ) -> None:
        server = serve(stack, Answer("In March."))
        first, second = model_at(server, ana, "first", is_default=True), model_at(server, ana, "second")
        page = f"/w/{ana.workspace.slug}/agents/vibe/settings/"
        form = {
            "answers_itself": "False",
            "fallback": second.pk,
            "daily_token_budget": 90_000,
            "proactive_cooldown": 60,
        }
        form["is_active"] = "on"
        channels = list(vibe.participant.channels.values_list("pk", flat=True))
        assert signed_in(ana).post(page, {**form, "channels": channels}).status_code == 302
        vibe.refresh_from_db()
        assert vibe.fallback == second
        settings: dict[str, Any] = {"daily_token_budget": 9_000, "answers_itself": False, "is_active": True}
        changed = update_agent(agent=vibe, by=access(ana), endpoint=second, channels=[], **settings)
        assert (changed.endpoint, changed.fallback) == (second, None), "what stood in became the model itself"
        Agent.objects.filter(pk=vibe.pk).update(endpoint=None, fallback=second)
        delete_endpoint(endpoint=second, by=access(ana))
        vibe.refresh_from_db()
        assert vibe.fallback_id is None
        assert Endpoint.objects.get() == first

    def test_a_window_too_small_for_the_agent_is_refused(self, ana: Member, vibe: Agent, stack: ExitStack) -> None:
        server = serve(stack, Answer("In March."))
        tiny = model_at(server, ana, "tiny", context_window=400, output_reserve=100)
        settings: dict[str, Any] = {
            "by": access(ana),
            "daily_token_budget": 9_000,
            "proactive_cooldown": 60,
            "answers_itself": False,
            "channels": [],
            "is_active": True,
        }
        with pytest.raises(Problem, match="could not be given a prompt"):
            update_agent(agent=vibe, endpoint=None, fallback=tiny, **settings)

    def test_the_form_of_a_model_offers_it(self, ana: Member, vibe: Agent, stack: ExitStack) -> None:
        first = model_at(serve(stack, Answer("In March.")), ana, "first", is_default=True)
        page = f"/w/{ana.workspace.slug}/settings/models/{first.pk}/"
        form = {
            "name": "first",
            "kind": "openai",
            "base_url": first.base_url,
            "model": first.model,
            "timeout_seconds": 60,
        }
        form |= {"context_window": 32_000, "output_reserve": 2_000, "price_in": 2, "price_out": 10}
        answer = signed_in(ana).post(page, {**form, "is_default": "on", "is_fallback": "on"})
        assert (answer.status_code, "cannot stand in for itself" in answer.content.decode()) == (400, True)
        new = f"/w/{ana.workspace.slug}/settings/models/new/"
        answer = signed_in(ana).post(new, {**form, "name": "twin", "is_fallback": "on"})
        assert (answer.status_code, "would fail with it" in answer.content.decode()) == (400, True)
        answer = signed_in(ana).post(new, {**form, "name": "other", "model": "another", "is_fallback": "on"})
        assert answer.status_code == 302
        assert Endpoint.objects.get(name="other").is_fallback


def test_it_does_not_answer_without_the_tools_of_a_chat_client(
    ana: Member, vibe: Agent, thread: Thread, stack: ExitStack
) -> None:
    first, second = serve(stack, DOWN), serve(stack, Answer("I have no tools."))
    model_at(first, ana, "first", is_default=True)
    model_at(second, ana, "second", is_fallback=True, context_window=4_000, output_reserve=500)
    tool = {"type": "function", "function": {"name": "large", "description": "word " * 6_000}}
    request = parse_chat({"model": "@vibe", "messages": [{"role": "user", "content": "Weather?"}], "tools": [tool]})
    run = carried_out(begin_turn(asker_of(ana.participant, access(ana), request.user), vibe, request))
    assert run.state == "failed"
    assert "gpt-4o-second" in run.error
    assert len(first.asked) == 2
    assert second.asked == []
