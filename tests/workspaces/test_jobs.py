"""Recurring jobs say how they went: for superusers in the app and the admin, and kept within bounds."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from threading import Thread

import pytest
from celery import Task, current_app
from celery.signals import before_task_publish, task_prerun, task_success
from django.conf import settings
from django.core.management import call_command
from django.db import connection, connections
from django.http import HttpResponse
from django.test import Client
from django.utils import timezone
from django_celery_beat.models import PeriodicTask
from django_celery_beat.schedulers import ModelEntry

from openvibe.base.models import Event
from openvibe.base.tasks import delete_expired_events
from openvibe.engines.database.locks import LockKind, lock_key
from openvibe.engines.jobs.job_runs import (
    MAX_WAIT,
    NO_RESULT,
    NO_WORKER,
    RUNS_PER_STATE,
    delete_old_runs,
    end_orphaned_runs,
    read_job_statuses,
    request_job_run,
)
from openvibe.engines.jobs.models import JobRun
from openvibe.engines.jobs.scheduler import synchronise_schedule
from openvibe.workspaces.models import Member
from tests.admin.conftest import superuser

pytestmark = pytest.mark.django_db
FULL = {"state": "failed", "problem": "Full."}


@pytest.mark.django_db(transaction=True)  # a worker closes old connections before each job
def test_each_run_of_a_job_leaves_its_result(ana: Member, home: str, signed_in: Callable[[Member], Client]) -> None:
    synchronise_schedule(settings.CELERY_BEAT_SCHEDULE)
    for _ in range(2):  # the newest of them stays
        Event.objects.create(workspace_id=ana.workspace_id, kind="x")
    Event.objects.filter(kind="x").update(created_at=timezone.now() - timedelta(days=9))
    delete_expired_events.apply(task_id="asked-for")
    JobRun.objects.create(
        task="agents.sweep_runs",
        started_at=timezone.now(),
        milliseconds=3,
        state="failed",
        problem="ValueError: no such run",
    )

    page = f"{home}settings/jobs/"
    assert signed_in(ana).get(page).status_code == 404
    root = superuser(ana)
    root.get(page)  # is in no list of a member's, but of an owner's who is a superuser
    ana.user.is_superuser = True
    ana.user.save()
    html = signed_in(ana).get(f"{page}?run=asked-for&name=forget+events").content.decode()
    assert "1 events deleted" in html
    assert "no such run" in html
    assert 'href="/w/anas-garden/settings/jobs/"' in html
    assert b"Nothing is known of this run" in signed_in(ana).get(f"{page}?run=other").content
    assert signed_in(ana).get(f"{page}?run=asked-for", headers={"HX-Request": "true"})["HX-Refresh"] == "true"
    admin = root.get("/admin/base/jobrun/")
    assert b"no such run" in admin.content


def test_a_job_that_never_ran_says_when_it_will(ana: Member, home: str, signed_in: Callable[[Member], Client]) -> None:
    """The scheduler reckons from when it was made."""
    synchronise_schedule(settings.CELERY_BEAT_SCHEDULE)
    hourly = PeriodicTask.objects.get(name="forget events")
    entry = ModelEntry(hourly, app=current_app)
    (status,) = [each for each in read_job_statuses() if each.job == hourly]
    assert status.next_run is not None
    assert abs(status.next_run - entry.last_run_at - timedelta(hours=1)) < timedelta(minutes=5)
    ana.user.is_superuser = True
    ana.user.save()
    html = signed_in(ana).get(f"{home}settings/jobs/").content.decode()
    assert re.search(r'data-label="Next run">\s*\d', html)
    assert not re.search(r'data-label="Next run">\s*–', html)


@pytest.mark.django_db(transaction=True)
def test_a_job_that_fails_says_why_and_the_doctor_with_it(capsys: pytest.CaptureFixture[str]) -> None:
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE base_event RENAME TO base_event_lost")
    try:
        delete_expired_events.apply()
    finally:
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE base_event_lost RENAME TO base_event")
    assert JobRun.objects.get().problem.startswith('ProgrammingError: relation "base_event" does not exist')
    with pytest.raises(SystemExit):
        call_command("doctor", only=["jobs"])
    assert "forget events failed" in capsys.readouterr().out


@pytest.mark.django_db(transaction=True)
def test_a_job_that_began_while_the_database_was_away_is_on_record_all_the_same() -> None:
    def bring_back(**_: object) -> None:
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE IF EXISTS base_jobrun_lost RENAME TO base_jobrun")

    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE base_jobrun RENAME TO base_jobrun_lost")
    task_success.connect(bring_back, sender=delete_expired_events)  # after it began, before it ends
    try:
        delete_expired_events.apply()
    finally:
        task_success.disconnect(bring_back, sender=delete_expired_events)
        bring_back()
    assert JobRun.objects.get().state == "done"


def test_results_are_kept_within_bounds(db: None) -> None:
    now = timezone.now()
    JobRun.objects.bulk_create(
        JobRun(task=f"job {n % 2}", started_at=now, milliseconds=1, **(FULL if n % 4 == 3 else {}))
        for n in range(8 * RUNS_PER_STATE)
    )
    newest = JobRun.objects.latest("pk")
    assert delete_old_runs() == 5 * RUNS_PER_STATE
    assert JobRun.objects.filter(task="job 0").count() == RUNS_PER_STATE
    assert JobRun.objects.filter(task="job 1").exclude(problem="").count() == RUNS_PER_STATE
    assert JobRun.objects.filter(pk=newest.pk).exists()


@pytest.fixture
def messages() -> Iterator[list[str]]:
    """The names of the tasks that workers were asked for."""
    sent: list[str] = []

    def note(sender: str, **_: object) -> None:
        sent.append(sender)

    before_task_publish.connect(note)
    yield sent
    before_task_publish.disconnect(note)


@pytest.mark.django_db(transaction=True)
def test_what_waits_or_runs_is_not_asked_for_again(
    ana: Member, home: str, signed_in: Callable[[Member], Client], messages: list[str]
) -> None:
    synchronise_schedule(settings.CELERY_BEAT_SCHEDULE)
    page, job = f"{home}settings/jobs/", PeriodicTask.objects.get(name="forget events")
    ana.user.is_staff = ana.user.is_superuser = True
    ana.user.save()
    root = signed_in(ana)
    asked = root.post(page, {"job": job.pk})
    assert b"waits for a worker already" in root.post(page, {"job": job.pk}, follow=True).content
    assert b"waits for a worker already" in run_in_admin(root, job)
    assert messages == [job.task]
    run = JobRun.objects.get()
    assert (run.state, run.task_id in asked["Location"]) == ("waiting", True)
    html = root.get(asked["Location"]).content.decode()
    assert "waits for a worker" in html
    assert "hx-get" in html
    tired = root.get(f"{page}?run={run.task_id}&polls=120", headers={"HX-Request": "true"}).content.decode()
    assert "hx-get" not in tired
    assert "goes on without this page" in tired

    JobRun.objects.update(state="running")
    with owned(run):
        assert b"runs already" in root.post(page, {"job": job.pk}, follow=True).content
        assert b"Runs since" in root.get(page).content
    delete_expired_events.apply(task_id=run.task_id)
    assert JobRun.objects.get().state == "done"
    root.post(page, {"job": job.pk})
    assert messages == [job.task] * 2


@contextmanager
def owned(run: JobRun) -> Iterator[None]:
    """A worker somewhere else runs it."""
    worker = connection.copy()
    with worker.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_lock(%s)", [lock_key(LockKind.JOB_RUN, run.pk)])
        yield
        cursor.execute("SELECT pg_advisory_unlock_all()")
    worker.close()


def run_in_admin(root: Client, job: PeriodicTask) -> bytes:
    chosen = {"action": "run_now", "_selected_action": job.pk}
    answer = root.post("/admin/django_celery_beat/periodictask/", chosen, follow=True)
    assert isinstance(answer, HttpResponse)
    return answer.content


@pytest.mark.django_db(transaction=True)
def test_a_job_is_seen_while_it_runs_and_after_its_worker_was_killed() -> None:
    seen: list[tuple[str, int | None]] = []

    def look(task: Task, **_: object) -> None:  # type: ignore[type-arg]
        end_orphaned_runs_elsewhere()
        seen.extend(JobRun.objects.values_list("state", "milliseconds"))

    task_prerun.connect(look, sender=delete_expired_events)
    try:
        delete_expired_events.apply()
    finally:
        task_prerun.disconnect(look, sender=delete_expired_events)
    assert seen == [("running", None)]
    assert JobRun.objects.get().state == "done"

    JobRun.objects.update(state="running")
    with owned(JobRun.objects.get()):
        end_orphaned_runs()
        assert JobRun.objects.get().state == "running"
    end_orphaned_runs()
    assert JobRun.objects.values_list("state", "problem").get() == ("failed", NO_RESULT)


def end_orphaned_runs_elsewhere() -> None:
    """Ends orphaned runs as a page does, which is another session than the worker's."""

    def end() -> None:
        end_orphaned_runs()
        connections.close_all()

    page = Thread(target=end)
    page.start()
    page.join(30)


def test_what_no_worker_takes_is_not_waited_for_for_ever() -> None:
    now = timezone.now()
    for task, age in (("one", MAX_WAIT + timedelta(seconds=1)), ("two", timedelta(seconds=1))):
        JobRun.objects.create(task=task, task_id=task, state="waiting", started_at=now - age)
    end_orphaned_runs()
    assert list(JobRun.objects.order_by("task").values_list("state", "problem")) == [
        ("failed", NO_WORKER),
        ("waiting", ""),
    ]


@pytest.mark.django_db(transaction=True)
def test_what_the_queue_does_not_take_may_be_asked_for_again() -> None:
    synchronise_schedule(settings.CELERY_BEAT_SCHEDULE)
    job = PeriodicTask.objects.get(name="forget events")
    job.args = "no list"
    with pytest.raises(ValueError, match="Expecting value"):
        request_job_run(job)
    assert not JobRun.objects.exists()
