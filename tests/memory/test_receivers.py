"""What memory does when chat rings, when somebody asks, and what the sweeper finds."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from pytest_django import DjangoCaptureOnCommitCallbacks

from agents.models import Agent
from memory.plugins import registry
from memory.plugins.compaction import recover_compactions, request_compaction
from memory.plugins.models import Compaction
from memory.plugins.tasks import check_compaction_due, run_compaction, sweep_compactions
from memory.work.services import create_work_item, milestone_reached
from openvibe.base.problems import Problem, Refused
from openvibe.chat.models import Message, Thread
from openvibe.chat.services import delete_message, set_thread_access, update_message
from openvibe.workspaces.models import Member
from tests.factories import access, say
from tests.memory.factories import CompactionFactory, MemoryPluginFactory
from tests.memory.plugins.fakes import InstalledProvider, install
from tests.memory.task_queue import Sent, take_sent


@pytest.fixture
def told(ana: Member, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[InstalledProvider]:
    """The workspace's memory plugin, which does as it is told."""
    take_sent()
    yield install(ana.workspace, tmp_path, monkeypatch)
    registry.clear_plugin_cache()


def cost_of_saying(thread: Thread, by: Member, number: int) -> int:
    with CaptureQueriesContext(connection) as queries:
        say(thread, by, f"Message {number}")
    return len(queries)


# --- messages -----------------------------------------------------------------------------------------------
def test_every_25_messages_of_a_thread_that_agents_follow_a_worker_looks(
    ana: Member,
    vibe: Agent,
    thread: Thread,
    told: InstalledProvider,
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> None:
    thread.following_agents.add(vibe.participant)
    with django_capture_on_commit_callbacks(execute=True):
        costs = {cost_of_saying(thread, ana, number) for number in range(1, 25)}
    assert take_sent() == []
    with django_capture_on_commit_callbacks(execute=True):
        costs.add(cost_of_saying(thread, ana, 25))
    assert take_sent() == [Sent("memory.consider_compaction", (thread.pk, False), False)]
    assert len(costs) == 1


def test_a_thread_no_agent_follows_is_not_looked_at(
    ana: Member,
    thread: Thread,
    told: InstalledProvider,
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> None:
    with django_capture_on_commit_callbacks(execute=True):
        for number in range(25):
            say(thread, ana, f"Message {number}")
    assert take_sent() == []


def test_looking_asks_for_a_compaction_when_one_is_due(vibe: Agent, thread: Thread, told: InstalledProvider) -> None:
    told.is_due = False
    check_compaction_due(thread.pk)
    assert not Compaction.objects.exists()
    told.is_due = True
    check_compaction_due(thread.pk)
    check_compaction_due(thread.pk)
    asked = Compaction.objects.get()
    assert (asked.trigger, asked.plugin, asked.full, asked.state) == ("threshold", "told", False, "queued")
    assert take_sent() == [Sent("memory.compact", (asked.pk,), False)]


def test_a_thread_that_is_gone_is_not_missed(told: InstalledProvider) -> None:
    check_compaction_due(987_654_321)
    run_compaction(987_654_321)
    assert take_sent() == []


@pytest.mark.parametrize("change", ["edit", "delete"])
def test_a_changed_message_has_its_summaries_written_anew(
    ana: Member,
    thread: Thread,
    told: InstalledProvider,
    change: str,
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> None:
    held, other = say(thread, ana, "Roses"), say(thread, ana, "Tulips")
    told.held = {held.pk}
    with django_capture_on_commit_callbacks(execute=True):
        revise(other, ana, change)
    assert not Compaction.objects.exists()
    with django_capture_on_commit_callbacks(execute=True):
        revise(held, ana, change)
        asked = Compaction.objects.get()
        assert take_sent() == []
    assert asked.trigger == "changed"
    assert take_sent() == [Sent("memory.compact", (asked.pk,), False)]


def revise(message: Message, by: Member, change: str) -> None:
    if change == "edit":
        update_message(message=message, by=access(by), body="Something else")
    else:
        delete_message(message=message, by=access(by))


def test_an_edit_that_changes_nothing_and_a_second_deletion_ring_nothing(
    ana: Member, thread: Thread, told: InstalledProvider
) -> None:
    message = say(thread, ana, "Roses")
    told.held = {message.pk}
    update_message(message=message, by=access(ana), body="Roses")
    assert not Compaction.objects.exists()
    delete_message(message=message, by=access(ana))
    Compaction.objects.all().delete()
    delete_message(message=message, by=access(ana))
    assert not Compaction.objects.exists()


def test_a_change_that_is_taken_back_asks_for_nothing(ana: Member, thread: Thread, told: InstalledProvider) -> None:
    message = say(thread, ana, "Roses")
    told.held = {message.pk}
    with transaction.atomic():
        update_message(message=message, by=access(ana), body="Tulips")
        assert Compaction.objects.exists()
        transaction.set_rollback(True)
    assert not Compaction.objects.exists()


def test_a_milestone_is_a_moment_to_compact(
    ana: Member,
    thread: Thread,
    told: InstalledProvider,
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> None:
    with django_capture_on_commit_callbacks(execute=True):
        create_work_item(thread=thread, by=access(ana), kind="objective", text="A hedge of roses")
        assert not Compaction.objects.exists()
        milestone_reached.send(sender=None, thread=thread, trigger="milestone", by=access(ana))
    asked = Compaction.objects.get()
    assert (asked.trigger, asked.requested_by) == ("milestone", ana.participant)
    assert take_sent() == [Sent("memory.compact", (asked.pk,), False)]


# --- by hand ------------------------------------------------------------------------------------------------
def test_one_waits_at_a_time_and_a_full_one_by_hand_takes_its_place(
    ana: Member, thread: Thread, told: InstalledProvider
) -> None:
    first = request_compaction(thread=thread, trigger="threshold")
    assert first is not None
    assert request_compaction(thread=thread, trigger="changed") is None
    assert request_compaction(thread=thread, trigger="hand", by=access(ana)) is None
    assert request_compaction(thread=thread, trigger="milestone", full=True) is None
    upgraded = request_compaction(thread=thread, trigger="hand", full=True, by=access(ana))
    first.refresh_from_db()
    assert upgraded == first
    assert (first.full, first.trigger, first.requested_by) == (True, "hand", ana.participant)
    assert request_compaction(thread=thread, trigger="hand", full=True, by=access(ana)) is None
    Compaction.objects.update(state="running", full=False)
    assert request_compaction(thread=thread, trigger="hand", full=True, by=access(ana)) is None
    Compaction.objects.update(state="done")
    assert request_compaction(thread=thread, trigger="hand", by=access(ana)) not in (None, first)


def test_threads_for_people_only_are_refused_by_hand_and_passed_over_by_triggers(
    ana: Member, thread: Thread, told: InstalledProvider
) -> None:
    set_thread_access(thread=thread, by=access(ana), access="human_only")
    thread.refresh_from_db()
    assert request_compaction(thread=thread, trigger="threshold") is None
    with pytest.raises(Refused, match="people only"):
        request_compaction(thread=thread, trigger="hand", by=access(ana))
    assert not Compaction.objects.exists()


def test_a_plugin_without_summaries_is_said_by_name(ana: Member, thread: Thread) -> None:
    MemoryPluginFactory.create(workspace=ana.workspace, name="memory/simple", enabled=True)
    assert request_compaction(thread=thread, trigger="threshold") is None
    with pytest.raises(Refused, match="memory/simple makes no summaries"):
        request_compaction(thread=thread, trigger="hand", by=access(ana))


# --- jobs ---------------------------------------------------------------------------------------------------
def test_a_failed_attempt_is_sent_again_for_later(vibe: Agent, thread: Thread, told: InstalledProvider) -> None:
    def away() -> None:
        raise Problem("The model is away.")

    compaction = request_compaction(thread=thread, trigger="threshold")
    assert compaction is not None
    told.steps = [lambda: None, away]
    run_compaction(compaction.pk)
    assert take_sent() == [Sent("memory.compact", (compaction.pk,), True)]
    run_compaction(compaction.pk)
    compaction.refresh_from_db()
    assert (compaction.state, take_sent()) == ("done", [])


def test_summaries_that_wait_are_found_by_the_sweeper(vibe: Agent, thread: Thread, told: InstalledProvider) -> None:
    """A message changed while its thread was being compacted: there was no place for a second row."""
    told.changed_threads = [thread.pk]
    running = CompactionFactory.create(thread=thread, plugin="told", trigger="threshold")
    assert recover_compactions() == []
    Compaction.objects.filter(pk=running.pk).update(state="done")
    sweep_compactions()
    asked = Compaction.objects.get(trigger="changed")
    assert take_sent() == [Sent("memory.compact", (asked.pk,), False)]
    assert recover_compactions() == []


@pytest.mark.parametrize("state", ["failed", "nothing"])
def test_what_came_to_nothing_is_left_alone_for_half_an_hour(
    thread: Thread, told: InstalledProvider, state: str
) -> None:
    told.changed_threads = [thread.pk]
    now = timezone.now()
    before = CompactionFactory.create(
        thread=thread, plugin="told", trigger="changed", state=state, error="The model is away.", finished_at=now
    )
    assert recover_compactions() == []
    Compaction.objects.filter(pk=before.pk).update(finished_at=now - timedelta(minutes=31))
    assert len(recover_compactions()) == 1
