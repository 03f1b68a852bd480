"""Compaction as a job: asked for once, carried out once, killed anywhere without harm, failing visibly."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.db.models import F
from django.utils import timezone

from agents.models import Agent
from memory.plugins.base import CompactionResult
from memory.plugins.compaction import execute_compaction, recover_compactions
from memory.plugins.models import Compaction
from memory.work.models import Handoff
from openvibe.base.models import Event
from openvibe.base.problems import Problem
from openvibe.chat.models import Thread
from openvibe.chat.services import set_thread_access
from openvibe.engines.database.locks import LockKind, advisory_lock, lock_key
from openvibe.engines.llm.errors import ModelUnavailable
from openvibe.workspaces.models import Member
from tests.factories import access, say
from tests.memory.factories import CompactionFactory
from tests.memory.plugins.fakes import CompactingProvider, PlainProvider, RebuildingProvider


class WorkerKilled(BaseException):
    """What no handler catches: the process is gone."""


def raising(error: BaseException) -> Callable[[], None]:
    def step() -> None:
        raise error

    return step


def nothing() -> None: ...


def waiting(thread: Thread, trigger: str = "threshold", **more: Any) -> Compaction:
    return CompactionFactory.create(thread=thread, plugin="memory/lcm", trigger=trigger, **more)


def again(compaction: Compaction) -> Compaction:
    compaction.refresh_from_db()
    return compaction


@pytest.fixture
def compaction(vibe: Agent, thread: Thread) -> Compaction:
    return waiting(thread)


# --- what comes of it ---------------------------------------------------------------------------------------
def test_what_was_made_and_the_handoff_stand_together(ana: Member, thread: Thread, compaction: Compaction) -> None:
    say(thread, ana, "Roses like sun.")
    provider = CompactingProvider()
    assert execute_compaction(compaction.pk, provider=provider) is None
    done = again(compaction)
    assert (done.state, done.attempt, done.error) == ("done", 1, "")
    assert (done.tokens_before, done.tokens_after, done.created_count, done.summary_ids) == (900, 400, 2, [7, 8])
    assert (done.at_seq, done.is_over) == (1, True)
    assert done.started_at is not None
    assert done.finished_at is not None
    handoff = Handoff.objects.get(thread=thread)
    assert (handoff.compaction_id, handoff.trigger, handoff.at_seq) == (done.pk, "threshold", 1)
    assert [call["call"] for call in provider.seen] == ["bootstrap", "compact"]
    assert (provider.seen[1]["budget"], provider.seen[1]["full"]) == (15_000, False)


def test_nothing_to_do_is_said_as_such(thread: Thread, compaction: Compaction) -> None:
    execute_compaction(compaction.pk, provider=CompactingProvider(made=CompactionResult(400, 400)))
    assert (again(compaction).state, compaction.created_count) == ("nothing", 0)
    assert Handoff.objects.filter(compaction=compaction).exists()


def test_it_is_seen_through_the_eyes_of_whoever_asked_else_of_an_agent(
    dora: Member, vibe: Agent, thread: Thread
) -> None:
    provider = CompactingProvider()
    execute_compaction(waiting(thread, "hand", requested_by=dora.participant).pk, provider=provider)
    execute_compaction(waiting(thread).pk, provider=provider)
    asked = [call["session"].access.participant_id for call in provider.seen if call["call"] == "compact"]
    assert asked == [dora.participant_id, vibe.participant_id]


def test_pages_hear_of_every_step(thread: Thread, compaction: Compaction) -> None:
    before = Event.objects.filter(kind="memory_changed", thread_id=thread.pk).count()
    execute_compaction(compaction.pk, provider=CompactingProvider())
    begun, measured, done = Event.objects.filter(kind="memory_changed", thread_id=thread.pk)[before:]
    assert begun.pk < measured.pk < done.pk


# --- once ---------------------------------------------------------------------------------------------------
def test_a_task_delivered_twice_does_the_work_once(compaction: Compaction) -> None:
    provider = CompactingProvider()
    execute_compaction(compaction.pk, provider=provider)
    first = again(compaction).finished_at
    assert execute_compaction(compaction.pk, provider=provider) is None
    assert len(provider.seen) == 2
    assert again(compaction).finished_at == first
    assert Handoff.objects.count() == 1


def test_delivered_once_more_while_it_runs_it_is_left_alone(compaction: Compaction) -> None:
    inner = CompactingProvider()
    outer = CompactingProvider(steps=[nothing, lambda: void(execute_compaction(compaction.pk, provider=inner))])
    execute_compaction(compaction.pk, provider=outer)
    assert inner.seen == []
    assert (again(compaction).state, compaction.attempt) == ("done", 1)


def void(_: object) -> None: ...


def test_a_worker_that_lost_it_writes_nothing_more(compaction: Compaction) -> None:
    def taken_away() -> None:
        Compaction.objects.filter(pk=compaction.pk).update(attempt=F("attempt") + 1)

    execute_compaction(compaction.pk, provider=CompactingProvider(steps=[nothing, taken_away]))
    assert (again(compaction).state, compaction.summary_ids) == ("running", [])
    assert not Handoff.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_in_another_workers_hands_it_is_left_alone(compaction: Compaction) -> None:
    other = connection.copy()
    try:
        with other.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_lock(%s)", [lock_key(LockKind.COMPACTION, compaction.pk)])
        Compaction.objects.filter(pk=compaction.pk).update(state="running")
        with advisory_lock(LockKind.COMPACTION, compaction.pk) as mine:
            assert not mine
        assert recover_compactions() == []
        Compaction.objects.filter(pk=compaction.pk).update(state="queued")
        execute_compaction(compaction.pk, provider=CompactingProvider())
        assert (again(compaction).state, compaction.attempt) == ("queued", 0)
    finally:
        other.close()


# --- killed -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("survived", [0, 1])
def test_killed_between_any_two_steps_it_is_taken_up_again(compaction: Compaction, survived: int) -> None:
    steps = [nothing] * survived + [raising(WorkerKilled())]
    with pytest.raises(WorkerKilled):
        execute_compaction(compaction.pk, provider=CompactingProvider(steps=steps))
    assert (again(compaction).state, compaction.summary_ids) == ("running", [])
    assert not Handoff.objects.exists()
    assert recover_compactions() == [compaction.pk]
    execute_compaction(compaction.pk, provider=CompactingProvider())
    assert (again(compaction).state, compaction.attempt) == ("done", 2)
    assert Handoff.objects.count() == 1


def test_killed_while_it_writes_what_came_of_it_leaves_neither_half(compaction: Compaction) -> None:
    with pytest.raises(WorkerKilled), connection.execute_wrapper(killed_at('INSERT INTO "memory_handoff"')):
        execute_compaction(compaction.pk, provider=CompactingProvider())
    assert (again(compaction).state, compaction.summary_ids, compaction.tokens_after) == ("running", [], None)
    assert not Handoff.objects.exists()


def killed_at(statement: str) -> Any:
    def execute(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if sql.startswith(statement):
            raise WorkerKilled
        return execute(sql, params, many, context)

    return execute


def test_after_three_deaths_it_says_so(compaction: Compaction) -> None:
    for _ in range(3):
        with pytest.raises(WorkerKilled):
            execute_compaction(compaction.pk, provider=CompactingProvider(steps=[raising(WorkerKilled())]))
        compaction_ids = recover_compactions()
    assert compaction_ids == []
    assert again(compaction).state == "failed"
    assert "stopped 3 times" in compaction.error


def test_one_that_nobody_began_is_sent_again_after_a_while(compaction: Compaction) -> None:
    assert recover_compactions() == []
    Compaction.objects.filter(pk=compaction.pk).update(sent_at=timezone.now() - timedelta(seconds=31))
    assert recover_compactions() == [compaction.pk]
    assert recover_compactions() == []


# --- failing ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "error",
    [ModelUnavailable("The model is away."), Problem("The model is away. Try again in a minute.", code="model_failed")],
    ids=["model error", "problem"],
)
def test_a_model_that_fails_is_asked_three_times_then_it_says_why(compaction: Compaction, error: Exception) -> None:
    def tried() -> int | None:
        return execute_compaction(compaction.pk, provider=CompactingProvider(steps=[nothing, raising(error)]))

    assert tried() == 10
    assert (again(compaction).state, compaction.finished_at) == ("queued", None)
    assert compaction.sent_at > timezone.now() + timedelta(seconds=5)
    assert recover_compactions() == []
    assert tried() == 60
    assert tried() is None
    assert (again(compaction).state, compaction.attempt, compaction.summary_ids) == ("failed", 3, [])
    assert compaction.error.startswith("The model is away.")
    assert compaction.error.endswith(".")
    assert not Handoff.objects.exists()


def test_a_model_that_comes_back_is_not_held_against_it(compaction: Compaction) -> None:
    away = ModelUnavailable("The model is away.")
    execute_compaction(compaction.pk, provider=CompactingProvider(steps=[nothing, raising(away)]))
    execute_compaction(compaction.pk, provider=CompactingProvider())
    assert (again(compaction).state, compaction.error) == ("done", "")


def test_a_pause_is_not_argued_with(compaction: Compaction) -> None:
    paused = Problem("Compaction is paused until 12:30, after 5 failures in a row.", code="compaction_paused")
    provider = CompactingProvider(steps=[nothing, raising(paused)])
    assert execute_compaction(compaction.pk, provider=provider) is None
    assert (again(compaction).state, compaction.attempt) == ("failed", 1)
    assert "until 12:30" in compaction.error


def test_a_fault_of_ours_shows_no_insides(compaction: Compaction) -> None:
    broken = RuntimeError("secret detail in a traceback")
    assert execute_compaction(compaction.pk, provider=CompactingProvider(steps=[raising(broken)])) is None
    assert again(compaction).state == "failed"
    assert "secret" not in compaction.error
    assert str(compaction.pk) in compaction.error


def test_a_plugin_without_summaries_says_so(compaction: Compaction) -> None:
    execute_compaction(compaction.pk, provider=PlainProvider())
    assert again(compaction).state == "failed"
    assert "makes no summaries" in compaction.error


def test_a_thread_that_became_people_only_is_not_touched(ana: Member, thread: Thread, compaction: Compaction) -> None:
    set_thread_access(thread=thread, by=access(ana), access="human_only")
    provider = CompactingProvider()
    execute_compaction(compaction.pk, provider=provider)
    assert provider.seen == []
    assert again(compaction).state == "failed"
    assert "people only" in compaction.error


# --- on the way ---------------------------------------------------------------------------------------------
def test_progress_is_saved_at_most_every_second(compaction: Compaction) -> None:
    times = iter([0.0, 0.4, 0.9, 1.0, 1.5, 2.1])
    reports = [(0, 60), (10, 60), (20, 60), (30, 60), (40, 60), (50, 60)]
    seen: list[int] = []

    def note(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if sql.startswith("UPDATE") and "of_messages" in sql and "summary_ids" not in sql:
            seen.append(params[0])
        return execute(sql, params, many, context)

    with connection.execute_wrapper(note):
        execute_compaction(compaction.pk, provider=CompactingProvider(reports=reports), clock=lambda: next(times))
    assert seen == [0, 30, 50]
    assert (again(compaction).done_messages, compaction.of_messages) == (60, 60)


def test_changed_messages_are_summarised_anew_before_anything_else(thread: Thread, compaction: Compaction) -> None:
    provider = RebuildingProvider(rebuilt=CompactionResult(400, 380, (5,)))
    execute_compaction(compaction.pk, provider=provider)
    assert [call["call"] for call in provider.seen] == ["bootstrap", "rebuild", "compact"]
    assert again(compaction).summary_ids == [7, 8]


def test_a_change_only_rebuilds(thread: Thread, vibe: Agent) -> None:
    compaction = waiting(thread, "changed")
    provider = RebuildingProvider(rebuilt=CompactionResult(400, 380, (5,)))
    execute_compaction(compaction.pk, provider=provider)
    assert [call["call"] for call in provider.seen] == ["bootstrap", "rebuild"]
    assert (again(compaction).state, compaction.summary_ids, compaction.tokens_after) == ("done", [5], 380)
    assert not Handoff.objects.exists()
