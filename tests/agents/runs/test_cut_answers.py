"""Answers that the model did not end by itself: whoever reads them, in the thread or on the run's page, is told."""

from collections.abc import Callable

import pytest
from pytest_django.fixtures import Settings

from agents.models import Agent, Run
from agents.openai_api.conversations import asker_of, begin_turn
from agents.openai_api.formats import ResponseFormat
from agents.openai_api.replies import run_outcome
from agents.openai_api.requests import parse_chat
from agents.runs.executor import execute_run
from agents.runs.timeline import run_timeline
from agents.runs.transcript import MAX_ROUNDS
from openvibe.chat.models import Thread
from openvibe.chat.services import request_draft, start_dive
from openvibe.workspaces.models import Member
from tests.agents.runs.scripted_runs import ask, reply_of
from tests.engines.llm.factories import EndpointFactory
from tests.engines.llm.model_server import Answer, serving
from tests.factories import access, say

Execute = Callable[..., Run]
CALL = ("call_0", "log_progress", '{"checkpoint": "Bed 1 is mulched"}')


@pytest.fixture
def execute(ana: Member, settings: Settings) -> Execute:
    """Carries the run out with a model behind HTTP that answers so, and reads the run again."""
    settings.ALLOW_PRIVATE_ENDPOINTS = True

    def carry_out(run: Run, *answers: Answer, kind: str = "openai") -> Run:
        with serving(*answers) as server:
            EndpointFactory.create(
                workspace=ana.workspace,
                name="A",
                kind=kind,
                base_url=server.base_url,
                api_key="k",
                model="m",
                is_default=True,
            )
            execute_run(run.pk)
        run.refresh_from_db()
        return run

    return carry_out


@pytest.mark.parametrize(
    ("reason", "notice", "figure"),
    [
        ("length", "[The answer reached the most tokens it may have and was cut here.]", "cut off at the most tokens"),
        ("content_filter", "[The provider's content filter cut the answer off here.]", "cut off by the provider"),
    ],
)
def test_an_answer_that_was_cut_off_says_so(
    ana: Member, vibe: Agent, thread: Thread, execute: Execute, reason: str, notice: str, figure: str
) -> None:
    run = execute(ask(thread, ana), Answer("Prune in March, because the", finish_reason=reason))
    assert run.state == "done", run.error
    assert reply_of(run).body == f"Prune in March, because the\n\n{notice}"
    (answered,) = (event for event in run_timeline(run, access(ana)) if event.kind == "answered")
    assert figure in answered.detail


def test_a_thought_that_only_ends_is_no_part_of_the_answer(
    ana: Member, vibe: Agent, thread: Thread, execute: Execute
) -> None:
    run = execute(ask(thread, ana), Answer("March, or April?\n</think>\n\nIn March."))
    assert (run.state, reply_of(run).body) == ("done", "In March.")


@pytest.mark.parametrize("reason", ["stop", "eos", "tool_calls"])
def test_an_answer_that_ended_says_nothing_more(
    ana: Member, vibe: Agent, thread: Thread, execute: Execute, reason: str
) -> None:
    assert reply_of(execute(ask(thread, ana), Answer("In March.", finish_reason=reason))).body == "In March."


def test_an_answer_at_which_the_model_paused_says_so(
    ana: Member, vibe: Agent, thread: Thread, execute: Execute
) -> None:
    run = execute(ask(thread, ana), Answer("Let me see.", finish_reason="pause_turn"), kind="anthropic")
    notice = "[The model paused here before it came to an end: this may be no whole answer. Ask it to go on.]"
    assert (run.state, reply_of(run).body) == ("done", f"Let me see.\n\n{notice}")
    (answered,) = (event for event in run_timeline(run, access(ana)) if event.kind == "answered")
    assert "paused before it came to an end" in answered.detail


@pytest.mark.parametrize(
    ("reason", "kind", "told", "told_of_response"),
    [
        ("length", "openai", "length", "max_output_tokens"),
        ("pause_turn", "anthropic", "length", "max_output_tokens"),
        ("content_filter", "openai", "content_filter", "content_filter"),
    ],
)
def test_a_chat_client_is_told_that_its_answer_is_not_whole(
    ana: Member, vibe: Agent, execute: Execute, reason: str, kind: str, told: str, told_of_response: str
) -> None:
    request = parse_chat({"model": "@vibe", "messages": [{"role": "user", "content": "When?"}]})
    run = begin_turn(asker_of(ana.participant, access(ana), request.user), vibe, request)
    execute(run, Answer("In March,", finish_reason=reason), kind=kind)
    outcome = run_outcome(run.pk)
    assert outcome is not None
    assert outcome.stop_reason == told
    response = ResponseFormat(run.pk, "@vibe", [], "").whole(outcome)
    assert (response["status"], response["incomplete_details"]) == ("incomplete", {"reason": told_of_response})


def test_a_model_that_paused_before_it_said_a_word_has_failed_and_says_why(
    ana: Member, vibe: Agent, thread: Thread, execute: Execute
) -> None:
    run = execute(ask(thread, ana), Answer(thinking="Hm.", finish_reason="pause_turn"), kind="anthropic")
    assert (run.state, run.error_code) == ("failed", "model_bad_answer")
    assert run.error == "The model paused before it said a word. Try again, or ask for less at once."


def test_a_draft_that_was_cut_off_stands_in_its_form_as_it_is(
    ana: Member, vibe: Agent, thread: Thread, execute: Execute
) -> None:
    dive = start_dive(source=say(thread, ana, "Which mulch?"), by=access(ana), agent=vibe.participant)
    run = Run.objects.get(trigger=request_draft(dive=dive, by=access(ana)))
    assert reply_of(execute(run, Answer("## Headline\nBark", finish_reason="length"))).body == "## Headline\nBark"


def test_a_model_that_calls_tools_for_ever_says_that_it_came_to_no_end(
    ana: Member, vibe: Agent, thread: Thread, execute: Execute
) -> None:
    run = execute(ask(thread, ana), Answer("Let me note that.", tool_calls=(CALL,)))
    assert (run.state, run.tool_calls.count()) == ("done", MAX_ROUNDS)
    assert reply_of(run).body.endswith("call tools here, which it could not any more: this may be no whole answer.]")


def test_a_model_that_only_calls_tools_when_it_is_asked_for_its_answer_has_failed(
    ana: Member, vibe: Agent, thread: Thread, execute: Execute
) -> None:
    answers = [Answer("Let me note that.", tool_calls=(CALL,))] * MAX_ROUNDS
    run = execute(ask(thread, ana), *answers, Answer(tool_calls=(CALL,)))
    assert (run.state, run.error_code) == ("failed", "model_bad_answer")
    assert run.error.startswith("The model called tools when it was asked for its answer, and said nothing.")
    assert reply_of(run).body.count("Let me note that.") == MAX_ROUNDS
