"""Runs, carried out in this process with a scripted model."""

import time
from collections.abc import Callable
from contextlib import suppress
from threading import Event
from threading import Thread as OSThread

import pytest
from django.db import InterfaceError, OperationalError, connection, connections
from psycopg.errors import DeadlockDetected

from agents.agent.token_budgets import tokens_used_today
from agents.models import RUNS, Agent, Run
from agents.runs.executor import execute_run
from agents.runs.lifecycle import regenerate_run, retry_run, stop_run
from agents.runs.recovery import recover_runs
from memory.episodes.models import Episode
from openvibe.chat.models import Message, Thread
from openvibe.chat.services import delete_message, set_thread_access
from openvibe.engines.database.locks import LockKind, lock_key
from openvibe.engines.llm.errors import ModelUnavailable
from openvibe.workspaces.models import Member
from tests.engines.llm.scripted_client import ScriptedAnswer, ScriptedModel
from tests.factories import access, make_agent, say


def ask(thread: Thread, ana: Member, body: str = "@vibe when do I prune?") -> Run:
    return Run.objects.get(trigger=say(thread, ana, body))


def written(run: Run) -> Message:
    assert run.reply is not None
    return run.reply


def test_the_answer_is_written_once(ana: Member, vibe: Agent, thread: Thread) -> None:
    run = ask(thread, ana)
    execute_run(run.pk, client=ScriptedModel(["In March."]))
    execute_run(run.pk, client=ScriptedModel(["Again!"]))
    run.refresh_from_db()
    assert (run.state, written(run).body, written(run).state) == ("done", "In March.", "complete")
    assert Message.objects.filter(author=vibe.participant).count() == 1


def test_usage_and_snapshot_are_kept(ana: Member, vibe: Agent, thread: Thread) -> None:
    run = ask(thread, ana)
    execute_run(run.pk, client=ScriptedModel(["In March."]))
    run.refresh_from_db()
    assert run.input_tokens > 0
    assert run.output_tokens == 3
    assert run.snapshot.tokens <= run.snapshot.budget == 8000
    assert tokens_used_today(agent=vibe) == run.input_tokens + run.output_tokens


def test_a_failure_says_why_and_can_be_tried_again(ana: Member, vibe: Agent, thread: Thread) -> None:
    run = ask(thread, ana)
    execute_run(run.pk, client=ScriptedModel([ModelUnavailable("The endpoint does not answer.")]))
    run.refresh_from_db()
    assert (run.state, run.error_code) == ("failed", "model_unavailable")
    assert "does not answer" in run.error
    retry_run(run=run, by=access(ana))
    execute_run(run.pk, client=ScriptedModel(["In March."]))
    run.refresh_from_db()
    assert (run.state, written(run).body, run.error) == ("done", "In March.", "")
    assert Message.objects.filter(author=vibe.participant).count() == 1


def test_text_said_before_a_failure_is_kept(ana: Member, vibe: Agent, thread: Thread) -> None:
    run = ask(thread, ana)
    execute_run(
        run.pk, client=ScriptedModel([ScriptedAnswer("In March, because", then=ModelUnavailable("It broke off."))])
    )
    run.refresh_from_db()
    assert (run.state, written(run).body, written(run).state) == ("failed", "In March, because", "failed")


@pytest.mark.parametrize("nothing", ["", "  \n ", "\x00\x00", "\u200b\u2060"])
def test_an_empty_answer_is_a_failure_with_a_reason(ana: Member, vibe: Agent, thread: Thread, nothing: str) -> None:
    run = ask(thread, ana)
    execute_run(run.pk, client=ScriptedModel([ScriptedAnswer(nothing)]))
    run.refresh_from_db()
    assert run.state == "failed"
    assert "nothing" in run.error
    assert Episode.objects.get(agent=vibe.participant).kind == "task_failed"


def test_control_characters_in_an_answer_are_dropped(ana: Member, vibe: Agent, thread: Thread) -> None:
    run = ask(thread, ana)
    execute_run(run.pk, client=ScriptedModel(["In \x00March\ud800."]))
    run.refresh_from_db()
    assert written(run).body == "In March."


def test_a_huge_answer_is_cut_and_says_so(ana: Member, vibe: Agent, thread: Thread) -> None:
    run = ask(thread, ana)
    execute_run(run.pk, client=ScriptedModel(["rose " * 30_000]))
    run.refresh_from_db()
    assert run.state == "done"
    assert len(written(run).body) <= 100_000
    assert written(run).body.endswith("was cut here.]")


def test_agents_never_wake_agents(ana: Member, vibe: Agent, thread: Thread) -> None:
    fern = make_agent(ana, "fern", channel=thread.channel)
    run = ask(thread, ana)
    execute_run(run.pk, client=ScriptedModel(["Ask @fern."]))
    run.refresh_from_db()
    assert written(run).mentions.get().participant == fern.participant
    assert not Run.objects.filter(agent=fern).exists()


def test_a_thread_closed_before_the_run_is_not_read(ana: Member, vibe: Agent, thread: Thread) -> None:
    run = ask(thread, ana)
    set_thread_access(thread=thread, by=access(ana), access="human_only")
    model = ScriptedModel(["In March."])
    execute_run(run.pk, client=model)
    run.refresh_from_db()
    assert run.state == "failed"
    assert "people only" in run.error
    assert model.calls == []


def test_a_deleted_question_is_not_answered(ana: Member, vibe: Agent, thread: Thread) -> None:
    run = ask(thread, ana)
    delete_message(message=run.trigger, by=access(ana))
    execute_run(run.pk, client=ScriptedModel(["In March."]))
    run.refresh_from_db()
    assert (run.state, run.error_code) == ("failed", "deleted")


def test_runs_of_one_agent_in_one_thread_go_in_order(ana: Member, vibe: Agent, thread: Thread) -> None:
    first, second = ask(thread, ana, "@vibe one"), ask(thread, ana, "@vibe two")
    assert execute_run(second.pk, client=ScriptedModel(["two"])) is None
    assert execute_run(first.pk, client=ScriptedModel(["one"])) == second.pk
    execute_run(second.pk, client=ScriptedModel(["two"]))
    assert list(Message.objects.filter(author=vibe.participant).order_by("seq").values_list("body", flat=True)) == [
        "one",
        "two",
    ]


def test_a_run_whose_turn_comes_while_it_is_put_back_is_sent_again(ana: Member, vibe: Agent, thread: Thread) -> None:
    """The message that its predecessor sent then finds it locked: nobody else would begin it."""
    first, second = ask(thread, ana, "@vibe one"), ask(thread, ana, "@vibe two")

    def first_ends(execute: Callable[..., object], sql: str, *more: object) -> object:
        if "pg_advisory_unlock" in sql:
            Run.objects.filter(pk=first.pk).update(state="done")
        return execute(sql, *more)

    with connection.execute_wrapper(first_ends):
        assert execute_run(second.pk) == second.pk


def test_a_run_stopped_before_it_began_holds_up_nobody(ana: Member, vibe: Agent, thread: Thread) -> None:
    first, second = ask(thread, ana, "@vibe one"), ask(thread, ana, "@vibe two")
    stop_run(run=first, by=access(ana))
    assert execute_run(first.pk) == second.pk


def test_a_run_that_met_a_deadlock_begins_again_at_once(ana: Member, vibe: Agent, thread: Thread) -> None:
    run = ask(thread, ana)

    def deadlock(execute: Callable[..., object], sql: str, *more: object) -> object:
        if sql.startswith('INSERT INTO "agents_snapshot"'):
            raise OperationalError from DeadlockDetected()
        return execute(sql, *more)

    with connection.execute_wrapper(deadlock):
        assert execute_run(run.pk, client=ScriptedModel([])) == run.pk
    execute_run(run.pk, client=ScriptedModel(["In March."]))
    run.refresh_from_db()
    assert (run.state, run.attempt) == ("done", 2)


def test_of_two_runs_begun_at_once_in_a_thread_one_waits(ana: Member, vibe: Agent, thread: Thread) -> None:
    first, second = ask(thread, ana, "@vibe one"), ask(thread, ana, "@vibe two")

    def first_begins(_: Run) -> bool:
        return bool(Run.objects.filter(pk=first.pk).update(state="reading"))

    with RUNS.claim(second.pk, Run.objects.all(), first_begins) as claimed:
        assert claimed is None
    second.refresh_from_db()
    assert second.state == "queued"


def test_regenerate_keeps_the_old_answer(ana: Member, vibe: Agent, thread: Thread) -> None:
    run = ask(thread, ana)
    execute_run(run.pk, client=ScriptedModel(["In March."]))
    new_run = regenerate_run(run=Run.objects.get(pk=run.pk), by=access(ana))
    execute_run(new_run.pk, client=ScriptedModel(["In April."]))
    bodies = Message.objects.filter(author=vibe.participant).order_by("seq").values_list("body", flat=True)
    assert list(bodies) == ["In March.", "In April."]


def test_a_waiting_run_is_stopped_at_once(ana: Member, vibe: Agent, thread: Thread) -> None:
    run = ask(thread, ana)
    stop_run(run=run, by=access(ana))
    model = ScriptedModel(["In March."])
    execute_run(run.pk, client=model)
    run.refresh_from_db()
    assert run.state == "stopped"
    assert model.calls == []


def test_a_message_lost_by_the_broker_is_sent_again(ana: Member, vibe: Agent, thread: Thread) -> None:
    run = ask(thread, ana)
    assert recover_runs() == []
    Run.objects.update(sent_at="2020-01-01T00:00Z")
    assert recover_runs() == [run.pk]
    assert recover_runs() == []


def test_a_run_whose_worker_died_is_put_back_and_after_three_times_failed(
    ana: Member, vibe: Agent, thread: Thread
) -> None:
    run = ask(thread, ana)
    for attempt in (1, 2):
        Run.objects.update(state="reading", attempt=attempt)
        assert recover_runs() == [run.pk]
    Run.objects.update(state="reading", attempt=3)
    assert recover_runs() == []
    run.refresh_from_db()
    assert (run.state, run.error_code) == ("failed", "worker_lost")


@pytest.mark.django_db(transaction=True)
def test_stop_keeps_the_text_so_far(ana: Member, vibe: Agent, thread: Thread) -> None:
    run = ask(thread, ana)
    reached, go_on = Event(), Event()
    model = ScriptedModel([ScriptedAnswer("In March or April", reached=reached, go_on=go_on, hold_before=2)])
    worker = in_background(run, model)
    assert reached.wait(10)
    stop_run(run=run, by=access(ana))
    worker.join(10)
    go_on.set()
    run.refresh_from_db()
    assert (run.state, written(run).body, written(run).state) == ("stopped", "In March", "stopped")


@pytest.mark.django_db(transaction=True)
def test_a_run_in_good_hands_is_left_alone_and_one_without_owner_is_not(
    ana: Member, vibe: Agent, thread: Thread
) -> None:
    run = ask(thread, ana)
    reached, go_on = Event(), Event()
    worker = in_background(
        run, ScriptedModel([ScriptedAnswer("In March", reached=reached, go_on=go_on, hold_before=1)])
    )
    assert reached.wait(10)
    assert recover_runs() == []
    with connection.cursor() as cursor:  # the worker's session dies
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_locks"
            " WHERE locktype = 'advisory' AND classid = %s AND objid = %s"
            " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())",
            [lock_key(LockKind.RUN, run.pk) >> 32, run.pk],
        )
    wait_for(lambda: recover_runs() == [run.pk])
    go_on.set()
    worker.join(10)
    execute_run(run.pk, client=ScriptedModel(["In March."]))
    run.refresh_from_db()
    assert (run.state, written(run).body, run.attempt) == ("done", "In March.", 2)
    assert Message.objects.filter(author=vibe.participant).count() == 1


def in_background(run: Run, model: ScriptedModel) -> OSThread:
    def work() -> None:
        try:
            with suppress(OperationalError, InterfaceError):  # a dead session is what some of these tests are about
                execute_run(run.pk, client=model)
        finally:
            connections.close_all()

    worker = OSThread(target=work)
    worker.start()
    return worker


def wait_for(condition: Callable[[], bool], seconds: float = 10) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "It did not happen in time."


def test_every_attempt_counts_against_the_budget(ana: Member, vibe: Agent, thread: Thread) -> None:
    run = ask(thread, ana)
    execute_run(
        run.pk, client=ScriptedModel([ScriptedAnswer("In March, because", then=ModelUnavailable("It broke off."))])
    )
    first = tokens_used_today(agent=vibe)
    retry_run(run=run, by=access(ana))
    execute_run(run.pk, client=ScriptedModel(["In March."]))
    assert tokens_used_today(agent=vibe) > first * 3 // 2
