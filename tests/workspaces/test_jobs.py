"""Recurring jobs say how they went: for superusers in the app and the admin, and kept within bounds."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.conf import settings
from django.core.management import call_command
from django.db import connection
from django.test import Client
from django.utils import timezone

from openvibe.base.job_runs import KEPT_RUNS, delete_old_runs
from openvibe.base.models import Event, JobRun
from openvibe.base.scheduler import synchronise_schedule
from openvibe.base.tasks import delete_expired_events
from openvibe.workspaces.models import Member
from tests.admin.conftest import superuser

pytestmark = pytest.mark.django_db


@pytest.mark.django_db(transaction=True)  # a worker closes old connections before each job
def test_each_run_of_a_job_leaves_its_result(ana: Member, home: str, signed_in: Callable[[Member], Client]) -> None:
    synchronise_schedule(settings.CELERY_BEAT_SCHEDULE)
    old = Event.objects.create(workspace_id=ana.workspace_id, kind="x")
    Event.objects.filter(pk=old.pk).update(created_at=timezone.now() - timedelta(days=9))
    delete_expired_events.apply(task_id="asked-for")
    JobRun.objects.create(
        task="agents.sweep_runs", started_at=timezone.now(), milliseconds=3, problem="ValueError: no such run"
    )

    page = f"{home}settings/jobs/"
    assert signed_in(ana).get(page).status_code == 404
    root = superuser(ana)
    root.get(page)  # is in no list of a member's, but of an owner's who is a superuser
    ana.user.is_superuser = True
    ana.user.save()
    shown = signed_in(ana).get(f"{page}?run=asked-for&name=forget+events").content.decode()
    assert "1 events deleted" in shown
    assert "no such run" in shown
    assert 'href="/w/anas-garden/settings/jobs/"' in shown
    waiting = signed_in(ana).get(f"{page}?run=other", headers={"HX-Request": "true"})
    assert b"waits for a worker" in waiting.content
    assert signed_in(ana).get(f"{page}?run=asked-for", headers={"HX-Request": "true"})["HX-Refresh"] == "true"
    admin = root.get("/admin/base/jobrun/")
    assert b"no such run" in admin.content


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


def test_results_are_kept_within_bounds(db: None) -> None:
    now = timezone.now()
    JobRun.objects.bulk_create(
        JobRun(task=f"job {n % 2}", started_at=now, milliseconds=1, problem="Full." if n % 4 == 3 else "")
        for n in range(8 * KEPT_RUNS)
    )
    newest = JobRun.objects.latest("pk")
    assert delete_old_runs() == 5 * KEPT_RUNS
    assert JobRun.objects.filter(task="job 0").count() == KEPT_RUNS
    assert JobRun.objects.filter(task="job 1").exclude(problem="").count() == KEPT_RUNS
    assert JobRun.objects.filter(pk=newest.pk).exists()
