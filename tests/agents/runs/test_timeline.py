"""What a run tells of itself afterwards, and what ends it in the middle."""

from decimal import Decimal
from functools import partial

import pytest

from agents.models import Agent, Run
from agents.runs.lifecycle import regenerate_run, retry_run, stop_run
from agents.runs.timeline import run_timeline
from openvibe.chat.models import Thread
from openvibe.chat.services import set_thread_access
from openvibe.engines.llm.errors import ModelUnavailable
from openvibe.engines.llm.models import Endpoint
from openvibe.workspaces.models import Member
from tests.agents.runs.scripted_runs import LOG, ask, calling, meanwhile, reply_of, told
from tests.engines.llm.factories import EndpointFactory
from tests.engines.llm.scripted_client import ScriptedAnswer
from tests.factories import access


def kinds(run: Run, reader: Member) -> list[str]:
    return [event.kind for event in run_timeline(run, access(reader))]


def test_every_step_stands_in_order_with_its_time(ana: Member, vibe: Agent, thread: Thread) -> None:
    run = ask(thread, ana)
    told(run, calling(LOG), "In March.")
    turn = ["called", "answered"]
    assert kinds(run, ana) == ["queued", "claimed", "assembled", *turn, "tool", *turn, "done"]
    timeline = run_timeline(run, access(ana))
    assert run.total_seconds is not None
    assert run.first_word_seconds is not None
    assert 0 < run.first_word_seconds < run.total_seconds
    assert sum(event.seconds for event in timeline) == pytest.approx(run.total_seconds, abs=0.5)
    assert timeline[5].call is not None
    assert timeline[5].call.arguments == '{"checkpoint": "Bed 1 is mulched"}'


def test_attempts_and_what_people_did_stay_on_record(ana: Member, dora: Member, vibe: Agent, thread: Thread) -> None:
    run = ask(thread, ana)
    told(run, ModelUnavailable("It is gone."))
    retry_run(run=run, by=access(dora))
    run.refresh_from_db()
    stop_run(run=run, by=access(ana))
    run.refresh_from_db()
    assert kinds(run, ana)[-4:] == ["called", "failed", "retried", "stopped"]
    texts = [(event.text, event.detail) for event in run_timeline(run, access(ana))]
    assert "It is gone." in texts[-3][1]
    assert texts[-2:] == [("Dora tried it again", ""), ("Stopped by Ana", "")]


def test_it_costs_what_its_endpoint_asked_when_it_began(ana: Member, vibe: Agent, thread: Thread) -> None:
    vibe.endpoint = EndpointFactory.create(
        workspace=ana.workspace,
        name="Priced",
        base_url="https://models.example/v1",
        model="m",
        price_in=Decimal(2),
        price_out=Decimal(10),
    )
    vibe.save()
    run = ask(thread, ana)
    told(run, "In March.")
    Endpoint.objects.update(price_in=Decimal(50))
    run.refresh_from_db()
    assert run.cost == (run.input_tokens * 2 + run.output_tokens * 10) / Decimal(1_000_000)


@pytest.mark.django_db(transaction=True)
def test_a_thread_closed_to_agents_meanwhile_ends_the_run_and_says_so(ana: Member, vibe: Agent, thread: Thread) -> None:
    run = ask(thread, ana)
    closes = partial(set_thread_access, thread=thread, by=access(ana), access="human_only")
    told(run, meanwhile(closes, ScriptedAnswer("In March.")))
    assert (run.state, run.error_code) == ("failed", "thread_closed")
    assert "people only while the agent was answering" in run.error
    assert (reply_of(run).state, reply_of(run).body) == ("failed", "In March.")


def test_a_run_asked_to_stop_before_it_asked_asks_nobody(ana: Member, vibe: Agent, thread: Thread) -> None:
    run = ask(thread, ana)
    Run.objects.filter(pk=run.pk).update(stop_requested_at=run.queued_at)  # its worker died when it was asked to
    model = told(run, "In March.")
    assert (run.state, reply_of(run).state, run.input_tokens) == ("stopped", "stopped", 0)
    assert model.calls == []


def test_another_answer_asked_for_twice_is_given_once(ana: Member, dora: Member, vibe: Agent, thread: Thread) -> None:
    run = ask(thread, ana)
    told(run, "In March.")
    first, second = (regenerate_run(run=run, by=access(by)) for by in (ana, dora))
    assert first == second
    told(first, "In May.")
    assert regenerate_run(run=run, by=access(ana)) != first
