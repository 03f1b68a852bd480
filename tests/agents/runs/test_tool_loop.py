"""Rounds of tool calls: carried out, stored, bounded, and begun afresh by the next attempt."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import pytest
from django.db import connection
from django.test import TestCase
from django.test.utils import CaptureQueriesContext

from agents.agent.token_budgets import tokens_used_today
from agents.models import Agent, Run, ToolCall
from agents.prompts.assembler.stack import MORE_TOOLS
from agents.runs import tool_loop
from agents.runs.executor import execute_run
from agents.runs.lifecycle import retry_run, stop_run
from agents.runs.recovery import recover_runs
from agents.runs.stream_reader import StreamEvent
from agents.runs.tool_loop import MAX_CALLS_ON_RECORD
from agents.tools.toolbox import Toolbox
from memory.plugins.models import Compaction
from memory.plugins.tasks import check_compaction_due
from memory.work.models import ProgressEntry
from openvibe.chat.models import Message, Thread
from openvibe.chat.services import set_thread_access
from openvibe.engines.llm.errors import ModelUnavailable
from openvibe.engines.llm.tokens import count_prompt_tokens, counter_for
from openvibe.workspaces.models import Member
from tests.agents.runs.scripted_runs import LOG, WorkerDied, ask, calling, is_whole, meanwhile, reply_of, results, told
from tests.engines.llm.factories import EndpointFactory
from tests.engines.llm.scripted_client import ScriptedAnswer, ScriptedModel
from tests.factories import access, say, say_all
from tests.memory.task_queue import take_sent

COUNTER = counter_for("scripted")
MAX_STATEMENTS = 63
"""The most statements of a run without tool calls whose answer comes at once, savepoints included; its prompt takes 28,
one looks, at its end, whether people said anything more, and four find what the answer cites."""


def test_a_call_is_carried_out_stored_and_answered(ana: Member, vibe: Agent, thread: Thread) -> None:
    run = ask(thread, ana)
    model = told(run, calling(LOG, text="Let me note that."), "In March.")
    assert (run.state, reply_of(run).body) == ("done", "Let me note that.\n\nIn March.")
    assert ProgressEntry.objects.get().checkpoint == "Bed 1 is mulched"
    row = ToolCall.objects.get(run=run)
    assert (row.attempt, row.round, row.name, row.decision) == (1, 1, "log_progress", "allowed")
    assert row.result.startswith("Logged as progress:")
    assert row.result_tokens > 0
    first, second = model.calls
    assert second.messages[: len(first.messages)] == first.messages
    assert [message.role for message in second.messages[len(first.messages) :]] == ["assistant", "tool"]
    assert row.result in results(second)[0]
    assert is_whole(second.messages)


def test_the_tools_of_the_agent_are_offered_and_noted(ana: Member, vibe: Agent, thread: Thread) -> None:
    run = ask(thread, ana)
    model = told(run, "In March.")
    offered = [tool.name for tool in model.calls[0].tools]
    assert offered == [MORE_TOOLS], "there is nothing to look up yet, and no work"
    toolbox = Toolbox.for_agent(vibe, thread)
    assert run.snapshot.tool_names == sorted(spec.name for spec in toolbox.specs), "those it can ask for, too"
    assert run.snapshot.tokens == count_prompt_tokens(model.calls[0].messages, model.calls[0].tools, COUNTER)


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("spade", "{}", "Available: memory"),
        ("log_progress", "{", "not valid JSON"),
        ("sp\x00ade\ud800" * 100, "\x00", "There is no tool"),
    ],
)
def test_a_refused_call_is_stored_and_the_model_reads_why(
    ana: Member, vibe: Agent, thread: Thread, name: str, arguments: str, said: str
) -> None:
    run = ask(thread, ana)
    model = told(run, calling((name, arguments)), "In March.")
    row = ToolCall.objects.get(run=run)
    assert (run.state, row.decision) == ("done", "refused")
    assert said in row.why
    assert said in results(model.calls[1])[0]


def test_after_eight_rounds_the_model_answers_without_tools(ana: Member, vibe: Agent, thread: Thread) -> None:
    run = ask(thread, ana)
    model = told(run, *[calling(LOG)] * 8, "In March.")
    assert (run.state, reply_of(run).body) == ("done", "In March.")
    assert sorted(set(run.tool_calls.values_list("round", flat=True))) == list(range(1, 9))
    assert [bool(call.tools) for call in model.calls] == [True] * 8 + [False]


def test_a_model_that_never_stops_calling_fails_with_a_reason(ana: Member, vibe: Agent, thread: Thread) -> None:
    run = ask(thread, ana)
    told(run, calling(LOG))
    assert (run.state, run.error_code) == ("failed", "model_bad_answer")
    assert run.tool_calls.count() == 8


def test_calls_with_the_same_id_stay_apart(ana: Member, vibe: Agent, thread: Thread) -> None:
    run = ask(thread, ana)
    twice = ScriptedAnswer("", (*calling(LOG).tool_calls, *calling(LOG).tool_calls))
    model = told(run, twice, calling(LOG), "In March.")
    assert run.state == "done", run.error
    assert len(set(run.tool_calls.values_list("call_id", flat=True))) == 3
    assert is_whole(model.calls[-1].messages)


def test_more_calls_than_one_turn_may_hold_are_refused(ana: Member, vibe: Agent, thread: Thread) -> None:
    run = ask(thread, ana)
    model = told(run, calling(*[LOG] * 20), "In March.")
    assert (run.state, ProgressEntry.objects.count()) == ("done", 16)
    assert run.tool_calls.filter(decision="refused").count() == 4
    assert is_whole(model.calls[-1].messages)


def test_of_endless_calls_only_some_are_kept(ana: Member, vibe: Agent, thread: Thread) -> None:
    run = ask(thread, ana)
    model = told(run, calling(*[LOG] * 500), "In March.")
    assert (run.state, run.tool_calls.count()) == ("done", MAX_CALLS_ON_RECORD)
    assert is_whole(model.calls[1].messages)


def test_endless_arguments_are_neither_kept_nor_sent_again(ana: Member, vibe: Agent, thread: Thread) -> None:
    run = ask(thread, ana)
    arguments = json.dumps({"checkpoint": "mulch " * 200_000})
    model = told(run, calling(("log_progress", arguments)), "In March.")
    (call,) = run.tool_calls.all()
    assert (run.state, call.decision) == ("done", "refused")
    assert call.why == f"The arguments have {len(arguments):,} characters; at most 100,000 can be read."
    assert call.arguments == f'{{"left_out": "{len(arguments):,} characters"}}'
    assert "100,000 can be read" in results(model.calls[1])[0]
    assert [tool.name for tool in model.calls[1].tools] == [tool.name for tool in model.calls[0].tools]


def test_usage_is_summed_over_the_rounds(ana: Member, vibe: Agent, thread: Thread) -> None:
    run = ask(thread, ana)
    model = told(run, calling(LOG), "In March.")
    asked = [count_prompt_tokens(call.messages, call.tools, COUNTER) for call in model.calls]
    assert run.input_tokens > asked[0] + asked[1] // 2
    assert run.output_tokens == 3
    assert tokens_used_today(agent=vibe) == run.input_tokens + run.output_tokens


def test_a_growing_prompt_stays_within_its_budget(ana: Member, vibe: Agent, thread: Thread) -> None:
    say_all(thread, ana, (f"Row {number}: " + "roses want water and mulch " * 40 for number in range(60)))
    run = ask(thread, ana)
    search = ("memory", {"action": "search", "query": "roses"})
    model = told(run, *[calling(search, search, search)] * 8, "In March.")
    assert run.state == "done", run.error
    assert len(model.calls) > 1
    assert max(count_of(run, "result_tokens")) > 1_000
    for call in model.calls:
        assert count_prompt_tokens(call.messages, call.tools, COUNTER) <= 8_000
        assert is_whole(call.messages)


def count_of(run: Run, field: str) -> list[int]:
    return list(run.tool_calls.values_list(field, flat=True))


@pytest.mark.django_db(transaction=True)
def test_a_run_stopped_between_calls_keeps_what_was_said(ana: Member, vibe: Agent, thread: Thread) -> None:
    run = ask(thread, ana)

    told(run, meanwhile(lambda: stop_run(run=run, by=access(ana)), calling(LOG, text="Let me see.")))
    assert (run.state, reply_of(run).body, reply_of(run).state) == ("stopped", "Let me see.", "stopped")
    assert not ProgressEntry.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_an_agent_that_loses_the_thread_calls_nothing_more(ana: Member, vibe: Agent, thread: Thread) -> None:
    run = ask(thread, ana)
    close = partial(set_thread_access, thread=thread, by=access(ana), access="human_only")
    model = told(run, meanwhile(close, calling(LOG, text="Let me see.")), "In March.")
    assert (run.state, run.error_code, reply_of(run).body) == ("failed", "thread_closed", "Let me see.")
    assert len(model.calls) == 1
    assert not ToolCall.objects.exists()


def test_a_worker_that_dies_between_rounds_leaves_a_run_to_begin_afresh(
    ana: Member, vibe: Agent, thread: Thread
) -> None:
    run = ask(thread, ana)

    def dies(_: object) -> str:
        raise WorkerDied

    with pytest.raises(WorkerDied):
        told(run, calling(LOG, text="Let me note that."), dies)
    assert recover_runs() == [run.pk]
    model = told(run, calling(LOG), "In March.")
    assert (run.state, reply_of(run).body) == ("done", "In March.")
    assert is_whole(model.calls[0].messages)
    assert not results(model.calls[0])
    assert list(run.tool_calls.values_list("attempt", "round")) == [(1, 1), (2, 1)]
    assert Message.objects.filter(author=vibe.participant).count() == 1


def test_a_worker_that_dies_within_a_call_leaves_neither_its_record_nor_its_effect(
    ana: Member, vibe: Agent, thread: Thread, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = ask(thread, ana)
    create = ToolCall.objects.create

    def dies(**row: object) -> None:
        create(**row)
        raise WorkerDied

    with monkeypatch.context() as patched:
        patched.setattr(ToolCall.objects, "create", dies)
        with pytest.raises(WorkerDied):
            told(run, calling(LOG))
    assert not ToolCall.objects.exists()
    assert not ProgressEntry.objects.exists()


def test_trying_again_keeps_the_calls_of_before(ana: Member, vibe: Agent, thread: Thread) -> None:
    run = ask(thread, ana)
    told(run, calling(LOG), ModelUnavailable("It is gone."))
    assert run.state == "failed"
    for _ in range(2):
        retry_run(run=run, by=access(ana))
        told(run, calling(LOG), ModelUnavailable("It is gone."))
    retry_run(run=run, by=access(ana))
    told(run, calling(LOG), "In March.")
    assert (run.state, run.tool_calls.count()) == ("done", 4)
    assert len(set(run.tool_calls.values_list("attempt", flat=True))) == 4


@pytest.mark.django_db(transaction=True)
def test_a_worker_that_lost_its_run_carries_out_no_call(ana: Member, vibe: Agent, thread: Thread) -> None:
    run = ask(thread, ana)
    loses = partial(Run.objects.filter(pk=run.pk).update, attempt=2)
    told(run, meanwhile(loses, calling(LOG)), "In March.")
    assert (run.state, run.attempt) == ("writing", 2)
    assert not ToolCall.objects.exists()
    assert not ProgressEntry.objects.exists()


def test_the_endpoint_is_asked_for_once(ana: Member, vibe: Agent, thread: Thread) -> None:
    EndpointFactory.create(workspace=ana.workspace, name="Steered", kind="offline", model="offline", is_default=True)
    run = ask(thread, ana)
    with CaptureQueriesContext(connection) as queries:
        told(run, calling(LOG), "In March.")
    assert run.state == "done", run.error
    reads = [q for q in queries.captured_queries if (q["sql"] or "").startswith('SELECT "llm_endpoint"')]
    assert len(reads) == 1


@contextmanager
def then_in_background(thread: Thread) -> Iterator[None]:
    """What is asked of the background's workers about the thread is carried out afterwards."""
    take_sent()
    with TestCase.captureOnCommitCallbacks(execute=True):
        yield
    (task,) = take_sent()
    assert (task.task, task.arguments[0]) == ("memory.consider_compaction", thread.pk)
    check_compaction_due(task.arguments[0], bool(task.arguments[1]))


def test_a_bulky_result_asks_for_a_compaction(ana: Member, vibe: Agent, thread: Thread) -> None:
    say_all(thread, ana, (f"Row {number}: " + "roses want water and mulch " * 40 for number in range(40)))
    run = ask(thread, ana)
    with then_in_background(thread):
        told(run, calling(("memory", {"action": "search", "query": "roses"})), "In March.")
    assert run.tool_calls.get().result_tokens > 2_000
    assert Compaction.objects.get(thread=thread).trigger == "tool_result"


def test_a_thread_past_its_threshold_is_compacted_and_a_short_one_is_not(
    ana: Member, vibe: Agent, thread: Thread
) -> None:
    with then_in_background(thread):
        told(ask(thread, ana), "In March.")
    assert not Compaction.objects.exists()
    say_all(thread, ana, (f"Row {number}: " + "roses want water and mulch " * 40 for number in range(100)))
    with then_in_background(thread):
        told(ask(thread, ana), "In March.")
    assert Compaction.objects.get(thread=thread).trigger == "threshold"


def test_a_run_counts_what_it_sent_as_its_prompt_is_counted(ana: Member, vibe: Agent, thread: Thread) -> None:
    """The provider does not count itself: run and viewer give one size."""
    run = ask(thread, ana)
    told(run, "In March.")
    run.refresh_from_db()
    assert run.input_tokens == run.snapshot.tokens


def test_the_offline_model_answers_with_tools_on_offer(ana: Member, vibe: Agent, thread: Thread) -> None:
    say(thread, ana, "We prune in March.")
    run = ask(thread, ana)
    execute_run(run.pk)
    run.refresh_from_db()
    assert run.state == "done", run.error
    assert "March" in reply_of(run).body


def test_a_scripted_model_may_be_asked_for_a_whole_answer(vibe: Agent) -> None:
    model = ScriptedModel([lambda messages: calling(LOG)])
    assert model.complete(()).tool_calls[0].name == "log_progress"


def test_a_window_too_small_for_tools_is_used_without_them(ana: Member, vibe: Agent, thread: Thread) -> None:
    EndpointFactory.create(
        workspace=ana.workspace,
        name="Small",
        kind="offline",
        model="offline",
        is_default=True,
        context_window=1_200,
        output_reserve=200,
    )
    run = ask(thread, ana)
    model = told(run, "In March.")
    assert run.state == "done", run.error
    assert model.calls[0].tools == ()


@pytest.mark.parametrize("comes", ["at once", "word by word"])
def test_an_answer_costs_few_statements_and_one_look_at_memory_later(
    ana: Member, vibe: Agent, thread: Thread, monkeypatch: pytest.MonkeyPatch, comes: str
) -> None:
    """A conversation may be however long: what memory makes of it is the background's business. A first word that comes
    before the end of the answer is saved by itself, which is one statement."""

    def read_stream(open_stream: Callable[[], Iterator[StreamEvent]]) -> Iterator[list[StreamEvent]]:
        events = list(open_stream())
        yield from [events] if comes == "at once" else [[event] for event in events]

    monkeypatch.setattr(tool_loop, "iter_with_timeout", read_stream)
    counts = []
    for messages in (1, 40):
        for number in range(messages):
            say(thread, ana, f"Row {number}: roses want water and mulch.")
        run = ask(thread, ana)
        with CaptureQueriesContext(connection) as queries:
            told(run, "In March.")
        counts.append(len(queries))
    assert max(counts) <= MAX_STATEMENTS + (comes == "word by word"), counts
