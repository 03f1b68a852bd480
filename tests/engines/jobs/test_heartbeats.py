"""Workers and the scheduler say in the database that they are alive, and how long jobs wait there."""

import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone
from pytest_django.fixtures import Settings

from openvibe.celery import app
from openvibe.engines.jobs.heartbeats import (
    begin_probe,
    end_probe,
    forget_worker,
    probe_ages,
    read_heartbeats,
    record_scheduler,
    record_worker,
)
from openvibe.engines.jobs.models import Heartbeat, QueueProbe
from openvibe.engines.jobs.scheduler import Scheduler
from openvibe.engines.jobs.workers import Pulse
from tests.operations.processes import wait_until

pytestmark = pytest.mark.django_db


def age(model: type[Any], seconds: int, **row: str) -> None:
    """Ages the row, as if all that is known of the row had happened so long before."""
    columns = {Heartbeat: ("seen_at",), QueueProbe: ("sent_at", "attempted_at")}[model]
    changes = ", ".join(f"{column} = {column} - make_interval(secs => {seconds})" for column in columns)
    ((name, value),) = row.items()
    with connection.cursor() as cursor:
        cursor.execute(f"UPDATE {model._meta.db_table} SET {changes} WHERE {name} = %s", [value])


def test_the_newest_beat_of_each_counts() -> None:
    record_worker("worker1@a", ["runs"])
    age(Heartbeat, 40, name="worker1@a")
    record_worker("worker1@a", ["runs", "background"])
    record_scheduler()
    record_scheduler()
    beats = {beat.name: beat for beat in read_heartbeats()}
    assert {name: (beat.kind, beat.queues) for name, beat in beats.items()} == {
        "worker1@a": ("worker", ["runs", "background"]),
        "scheduler": ("scheduler", []),
    }
    assert beats["worker1@a"].seconds < 40


def test_who_is_silent_for_long_is_forgotten_by_the_others_alone() -> None:
    for name in ("old@a", "late@a"):
        record_worker(name, ["runs"])
    record_scheduler()
    for name, seconds in (("old@a", 700), ("late@a", 500), ("scheduler", 700)):
        age(Heartbeat, seconds, name=name)
    assert [beat.name for beat in read_heartbeats()] == ["late@a", "old@a", "scheduler"]
    record_worker("new@a", ["runs"])
    assert [beat.name for beat in read_heartbeats()] == ["late@a", "new@a", "scheduler"]
    forget_worker("new@a")
    assert [beat.name for beat in read_heartbeats()] == ["late@a", "scheduler"]


def test_a_queue_is_measured_by_the_first_job_that_nobody_took(settings: Settings) -> None:
    assert probe_ages() == {"runs": 0.0, "background": 0.0}
    assert begin_probe("runs")
    assert not begin_probe("runs")  # it is under way
    age(QueueProbe, 90, queue="runs")
    assert begin_probe("runs")  # it may be lost with its broker; the age stays that of the first
    assert 90 <= probe_ages()["runs"] < 120
    assert not begin_probe("runs")
    end_probe("runs")
    assert probe_ages()["runs"] == 0.0
    assert begin_probe("runs")


@pytest.mark.parametrize(("broker", "sent"), [("pgmq://localhost", 0), ("memory://", 2)])
def test_the_scheduler_says_that_it_is_alive_and_sends_probes_to_an_outside_broker(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, broker: str, sent: int
) -> None:
    settings.CELERY_BROKER_URL = broker
    now, queues = timezone.now(), list[str]()
    scheduler = Scheduler(app=app, lazy=True)
    scheduler.clock = lambda: now
    monkeypatch.setattr(app, "send_task", lambda *_arguments, queue, **_options: queues.append(queue))
    monkeypatch.setattr("django_celery_beat.schedulers.DatabaseScheduler.tick", lambda *_arguments, **_options: 5.0)
    assert scheduler.tick() == 5.0
    assert scheduler.tick() == 5.0
    assert [beat.name for beat in read_heartbeats()] == ["scheduler"]
    assert len(queues) == sent


class Loop:
    """A consumer whose loop turns when the test says so."""

    hostname, app = "worker1@test", app

    def __init__(self) -> None:
        self.asked, self.calls = threading.Event(), list[Callable[[], object]]()

    def call_soon(self, call: Callable[[], object]) -> None:
        self.calls.append(call)
        self.asked.set()


@pytest.mark.django_db(transaction=True)
def test_a_worker_is_heard_only_while_its_loop_turns(settings: Settings) -> None:
    loop = Loop()
    pulse = Pulse(loop)
    pulse.start()
    assert loop.asked.wait(60)
    assert read_heartbeats() == []
    loop.calls[0]()
    wait_until(read_heartbeats, "the heartbeat")
    (beat,) = read_heartbeats()
    assert (beat.name, beat.kind, beat.queues) == ("worker1@test", "worker", ["background", "runs"])
    pulse.stop()
    pulse.join()
    assert read_heartbeats() == []
