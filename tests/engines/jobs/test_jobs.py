"""What every kind of job promises: claimed once, fenced, queued again when its worker dies, and failed visibly."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.db.models import F
from django.utils import timezone

from agents.models import RUNS, Agent, Run
from agents.runs.recovery import recover_runs
from memory.plugins.compaction import recover_compactions
from memory.plugins.models import COMPACTIONS
from openvibe.chat.models import Thread
from openvibe.engines.database.locks import lock_key
from openvibe.engines.jobs.jobs import RESEND_AFTER, JobKind, JobLost
from openvibe.workspaces.models import Member
from tests.factories import say
from tests.memory.factories import CompactionFactory


@dataclass
class Queued:
    """One queued job, its kind, and what sweeps that kind."""

    kind: JobKind[Any]
    job: Any
    recover: Callable[[], list[int]]

    def claim(self) -> Any:
        """The job as a worker has it that dies at once, or None."""
        with self.kind.claim(self.job.pk, self.kind.model._default_manager.all()) as claim:
            return claim

    def again(self) -> Any:
        self.job.refresh_from_db()
        return self.job

    def change(self, **fields: object) -> None:
        self.kind.model._default_manager.filter(pk=self.job.pk).update(**fields)


@pytest.fixture(params=["run", "compaction"])
def queued(request: pytest.FixtureRequest, ana: Member, vibe: Agent, thread: Thread) -> Queued:
    if request.param == "run":
        run = Run.objects.get(trigger=say(thread, ana, "@vibe when do I prune?"))
        return Queued(RUNS, run, recover_runs)
    compaction = CompactionFactory.create(thread=thread, plugin="memory/lcm", trigger="threshold")
    return Queued(COMPACTIONS, compaction, recover_compactions)


@contextmanager
def held_by_another(queued: Queued) -> Iterator[None]:
    other = connection.copy()
    try:
        with other.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_lock(%s)", [lock_key(queued.kind.lock_kind, queued.job.pk)])
            yield
            cursor.execute("SELECT pg_advisory_unlock_all()")  # a closed connection may hold it a moment longer
    finally:
        other.close()


def test_it_is_claimed_once(queued: Queued) -> None:
    claim = queued.claim()

    assert (claim.state, claim.attempt) == (queued.kind.active[0], 1)
    assert queued.claim() is None
    assert (queued.again().state, queued.job.attempt) == (claim.state, 1)
    assert queued.job.started_at == claim.started_at


def test_it_is_not_claimed_when_it_is_not_its_turn(queued: Queued) -> None:
    with queued.kind.claim(queued.job.pk, queued.kind.model._default_manager.all(), lambda job: False) as claim:
        assert claim is None
    assert (queued.again().state, queued.job.attempt) == ("queued", 0)


def test_in_another_workers_hands_it_is_neither_claimed_nor_queued_again(queued: Queued) -> None:
    with held_by_another(queued):
        assert queued.claim() is None
        queued.change(state=queued.kind.active[0], attempt=1)
        assert queued.recover() == []
    assert queued.again().state == queued.kind.active[0]


def test_an_attempt_that_lost_it_cannot_write(queued: Queued) -> None:
    claim = queued.claim()
    queued.change(attempt=F("attempt") + 1)

    with pytest.raises(JobLost):
        queued.kind.lock_owned(claim)
    with pytest.raises(JobLost):
        queued.kind.update_owned(claim, error="Late.")
    assert not queued.kind.requeue(claim)
    assert not queued.kind.fail(claim, "Late.")
    assert (queued.again().state, queued.job.error) == (claim.state, "")


def test_the_attempt_that_owns_it_writes(queued: Queued) -> None:
    claim = queued.claim()
    queued.kind.update_owned(claim, error="Slow.")

    assert queued.kind.lock_owned(claim).error == "Slow."
    assert queued.kind.requeue(claim, delay=60)
    assert queued.again().sent_at > timezone.now() + timedelta(seconds=50)
    with pytest.raises(JobLost):
        queued.kind.lock_owned(claim)


def test_without_an_owner_it_is_queued_again_and_fails_visibly_after_the_last_attempt(queued: Queued) -> None:
    for attempt in range(1, queued.kind.max_attempts):
        assert queued.claim().attempt == attempt
        assert queued.recover() == [queued.job.pk]
        assert (queued.again().state, queued.job.attempt) == ("queued", attempt)
    queued.claim()

    assert queued.recover() == []
    assert queued.again().state == "failed"
    assert "The worker stopped 3 times" in queued.job.error
    assert queued.job.finished_at is not None
    assert queued.job.is_over


def test_restarted_it_has_all_attempts_again_and_none_twice(queued: Queued) -> None:
    queued.change(state="failed", error="Away.", attempt=2)
    queued.kind.restart(queued.again())

    numbers = [queued.claim().attempt, *queued.recover(), queued.claim().attempt, *queued.recover()]
    assert numbers == [4, queued.job.pk, 5, queued.job.pk]
    assert not queued.kind.has_attempts_left(queued.claim())


def test_one_whose_message_got_lost_is_sent_again_once(queued: Queued) -> None:
    assert queued.recover() == []
    queued.change(sent_at=timezone.now() - RESEND_AFTER - timedelta(seconds=1))
    assert queued.recover() == [queued.job.pk]
    assert queued.recover() == []


def test_one_that_was_queued_while_the_clock_was_ahead_is_sent_again_once(queued: Queued) -> None:
    queued.change(sent_at=timezone.now() + timedelta(days=1))
    assert queued.recover() == [queued.job.pk]
    assert queued.recover() == []
