"""Schedules: each due time starts one run, whatever is called twice, late or not allowed any more."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from agents.agent.services import deactivate_agent, set_trust_level
from agents.models import Agent, Run, Schedule
from agents.runs.executor import execute_run
from agents.schedules.services import (
    MAX_SCHEDULES,
    ScheduleDraft,
    create_schedule,
    start_due_schedules,
    stop_schedules,
    update_schedule,
)
from openvibe.base.problems import Problem, Refused
from openvibe.chat.models import Message, Thread
from openvibe.chat.services import archive_channel, set_thread_access
from openvibe.workspaces.models import Member
from tests.agents.runs.scripted_runs import told
from tests.concurrency import at_once
from tests.factories import access, make_agent

NOON = datetime(2026, 11, 23, 12, tzinfo=UTC)


@pytest.fixture
def sage(ana: Member, thread: Thread) -> Agent:
    return make_agent(ana, "sage", level=3, channel=thread.channel)


def draft(thread: Thread, *, cron: str = "0 12 * * *", everywhere: bool = False) -> ScheduleDraft:
    where = None if everywhere else thread
    return ScheduleDraft("Noon", cron, "UTC", "Say what is open, @vibe.", thread.channel, where)


@pytest.fixture
def noon(ana: Member, sage: Agent, thread: Thread) -> Schedule:
    schedule = create_schedule(agent=sage, by=access(ana), draft=draft(thread))
    return due(schedule)


def due(schedule: Schedule, at: datetime = NOON) -> Schedule:
    Schedule.objects.filter(pk=schedule.pk).update(next_due_at=at)
    schedule.refresh_from_db()
    return schedule


def started(at: datetime = NOON) -> list[Run]:
    return list(Run.objects.filter(pk__in=start_due_schedules(at)))


def test_a_due_time_starts_one_run_which_posts_as_the_agent(ana: Member, vibe: Agent, noon: Schedule) -> None:
    (run,) = started(NOON + timedelta(seconds=4))
    assert started(NOON + timedelta(seconds=5)) == []
    model = told(run, "Two beds are open, @vibe.")
    assert (run.state, run.task, run.due_at, run.requested_by) == ("done", "scheduled", NOON, ana.participant)
    assert "On schedule “Noon”: Say what is open, @vibe." in model.calls[0].messages[-1].content
    assert [m.author.handle for m in Message.objects.filter(thread=noon.thread).order_by("seq")] == ["sage", "sage"]
    assert Run.objects.exclude(pk=run.pk).count() == 0, "agents never wake agents"
    noon.refresh_from_db()
    assert (noon.last_due_at, noon.next_due_at, noon.note) == (NOON, NOON + timedelta(days=1), "")


def test_times_missed_while_nothing_ran_are_one(noon: Schedule) -> None:
    late = NOON + timedelta(days=9, hours=3)
    assert len(started(late)) == 1
    noon.refresh_from_db()
    assert noon.next_due_at == NOON + timedelta(days=10)


def test_without_a_thread_it_begins_one_each_time(ana: Member, sage: Agent, thread: Thread) -> None:
    due(create_schedule(agent=sage, by=access(ana), draft=draft(thread, everywhere=True)))
    (run,) = started()
    assert (run.thread.title, run.thread.channel) == ("Noon, 23 November 2026", thread.channel)
    execute_run(run.pk)
    run.refresh_from_db()
    assert run.state == "done"


def lower(ana: Member, sage: Agent, thread: Thread) -> None:
    set_trust_level(agent=sage, by=access(ana), level=2, note="Too loud.")


def deactivate(ana: Member, sage: Agent, thread: Thread) -> None:
    deactivate_agent(agent=sage, by=access(ana))


def archive(ana: Member, sage: Agent, thread: Thread) -> None:
    archive_channel(channel=thread.channel, by=access(ana), archived=True)


def close(ana: Member, sage: Agent, thread: Thread) -> None:
    set_thread_access(thread=thread, by=access(ana), access=Thread.Access.HUMAN_ONLY)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lower, "at L2 it does not speak on schedule"),
        (deactivate, "deactivated"),
        (archive, "archived"),
        (close, "for people only"),
    ],
)
def test_what_it_may_not_do_any_more_does_not_run_and_says_why(
    ana: Member,
    sage: Agent,
    thread: Thread,
    noon: Schedule,
    change: Callable[[Member, Agent, Thread], None],
    reason: str,
) -> None:
    change(ana, sage, thread)
    assert started() == []
    noon.refresh_from_db()
    assert reason in noon.note
    assert noon.next_due_at == NOON + timedelta(days=1)
    assert not Message.objects.filter(thread=thread).exists()


def test_at_most_twenty_a_day_with_a_pause_in_between(ana: Member, sage: Agent, thread: Thread, noon: Schedule) -> None:
    (first,) = started()
    due(noon)
    assert started(NOON + timedelta(minutes=1)) == []
    noon.refresh_from_db()
    assert noon.note == "What it began the time before is not finished."
    Run.objects.update(state="done")
    Message.objects.update(created_at=NOON)
    due(noon, NOON + timedelta(minutes=9))
    assert started(NOON + timedelta(minutes=9)) == []
    noon.refresh_from_db()
    assert "less than 10 minutes before" in noon.note
    for _ in range(19):
        message = Message.objects.create(
            thread=thread, author=sage.participant, kind="system", body="x", created_at=NOON
        )
        Run.objects.create(
            workspace=sage.workspace,
            agent=sage,
            thread=thread,
            trigger=message,
            requested_by=ana.participant,
            task="scheduled",
            state="done",
        )
    due(noon, NOON + timedelta(hours=1))
    assert started(NOON + timedelta(hours=1)) == []
    noon.refresh_from_db()
    assert "20 times unasked today" in noon.note
    due(noon, NOON + timedelta(hours=13))
    assert len(started(NOON + timedelta(hours=13))) == 1
    assert first.due_at == NOON


def test_any_member_stops_it_and_only_admins_set_it(
    ana: Member, dora: Member, sage: Agent, thread: Thread, noon: Schedule
) -> None:
    stop_schedules(schedules=[noon], by=access(dora))
    noon.refresh_from_db()
    assert (noon.is_active, noon.next_due_at, noon.note) == (False, None, "Dora stopped it.")
    assert started() == []
    with pytest.raises(Refused, match="owners and admins"):
        update_schedule(schedule=noon, by=access(dora), draft=draft(thread))
    update_schedule(schedule=noon, by=access(ana), draft=draft(thread))
    noon.refresh_from_db()
    assert (noon.is_active, noon.note) == (True, "")


@pytest.mark.parametrize("level", [1, 2])
def test_below_l3_there_are_no_schedules(ana: Member, thread: Thread, level: int) -> None:
    fern = make_agent(ana, "fern", level=level, channel=thread.channel)
    with pytest.raises(Refused, match=f"at L{level} it does not speak on schedule"):
        create_schedule(agent=fern, by=access(ana), draft=draft(thread))


def test_a_schedule_that_never_comes_or_says_nothing_is_refused(ana: Member, sage: Agent, thread: Thread) -> None:
    with pytest.raises(Problem, match="never occurs"):
        create_schedule(agent=sage, by=access(ana), draft=draft(thread, cron="0 0 31 2 *"))
    with pytest.raises(Problem, match="at most 100"):  # not cut: what is left might be another line
        create_schedule(agent=sage, by=access(ana), draft=draft(thread, cron=f"0 0 {'1,' * 50}31 * mon"))


def test_a_time_that_ran_already_does_not_run_again_when_the_clock_goes_back(noon: Schedule) -> None:
    (run,) = started()
    Run.objects.filter(pk=run.pk).update(state="done")
    Message.objects.update(created_at=NOON - timedelta(days=1))
    due(noon)
    assert started() == []
    noon.refresh_from_db()
    assert noon.note == "It ran for this time already."


def test_what_ran_while_the_clock_was_years_ahead_runs_again_when_it_is_right(noon: Schedule) -> None:
    ahead = NOON.replace(year=2036)
    due(noon, ahead)
    (run,) = started(ahead)
    Run.objects.filter(pk=run.pk).update(state="done")
    Message.objects.update(created_at=ahead)

    assert started(NOON - timedelta(hours=1)) == []
    noon.refresh_from_db()
    assert noon.next_due_at == NOON
    (again,) = started(NOON)
    assert (again.due_at, again.schedule) == (NOON, noon)


@pytest.mark.django_db(transaction=True)
def test_several_made_at_once_are_no_more_than_there_may_be(ana: Member, sage: Agent, thread: Thread) -> None:
    for _ in range(MAX_SCHEDULES - 1):
        create_schedule(agent=sage, by=access(ana), draft=draft(thread))

    calls = [lambda: create_schedule(agent=sage, by=access(ana), draft=draft(thread))] * 6
    assert at_once(*calls) == ["done", *["too_many"] * 5]
