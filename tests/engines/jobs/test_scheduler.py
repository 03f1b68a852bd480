"""Recurring jobs stand in the database: what an admin chose stays, the rest follows the settings."""

from datetime import timedelta

import pytest
from allauth.usersessions.models import UserSession
from django.conf import settings
from django.contrib.sessions.models import Session
from django.urls import reverse
from django.utils import timezone
from django_celery_beat.models import IntervalSchedule, PeriodicTask

from openvibe.base.models import CacheEntry
from openvibe.base.tasks import delete_expired_sessions
from openvibe.celery import app
from openvibe.engines.jobs.scheduler import Scheduler, synchronise_schedule
from openvibe.workspaces.models import Member
from tests.admin.conftest import superuser
from tests.factories import signed_in
from tests.memory.task_queue import take_sent

pytestmark = pytest.mark.django_db
JOBS = {
    "sweep": {"task": "memory.sweep_compactions", "schedule": 10.0},
    "clean": {"task": "base.forget_events", "schedule": 86_400.0},
}
CHANGES = reverse("admin:django_celery_beat_periodictask_changelist")


def schedules() -> dict[str, tuple[str, str]]:
    return {job.name: (job.task, str(job.interval)) for job in PeriodicTask.objects.order_by("name")}


def test_rows_follow_the_settings_of_each_version() -> None:
    synchronise_schedule(JOBS)
    assert schedules() == {
        "clean": ("base.forget_events", "every 86400 seconds"),
        "sweep": ("memory.sweep_compactions", "every 10 seconds"),
    }
    synchronise_schedule({"sweep": {"task": "memory.sweep_all", "schedule": 20.0}})
    assert schedules() == {"sweep": ("memory.sweep_all", "every 20 seconds")}


def test_what_an_admin_chose_stays_until_she_takes_it_back(ana: Member) -> None:
    synchronise_schedule(settings.CELERY_BEAT_SCHEDULE)
    job = PeriodicTask.objects.get(name="forget events")
    daily = IntervalSchedule.objects.create(every=1, period="days")
    root = superuser(ana)
    page = reverse("admin:django_celery_beat_periodictask_change", args=[job.pk])
    assert root.post(page, {"interval": daily.pk, "crontab": "", "enabled": "on"}).status_code == 302

    synchronise_schedule(settings.CELERY_BEAT_SCHEDULE)
    assert schedules()["forget events"] == ("base.forget_events", "every day")

    root.post(CHANGES, {"action": "restore_schedule", "_selected_action": [job.pk]})
    assert schedules()["forget events"] == ("base.forget_events", "every 3600 seconds")


def test_times_that_never_come_are_refused(ana: Member) -> None:
    root = superuser(ana)
    every = {"minute": "0", "hour": "0", "day_of_week": "*", "month_of_year": "*", "day_of_month": "*"}
    never = [
        ("interval", {"every": 2_147_483_647, "period": "days"}),
        ("crontab", {**every, "day_of_month": "31", "month_of_year": "2", "timezone": "UTC"}),
    ]
    for kind, fields in never:
        answer = root.post(reverse(f"admin:django_celery_beat_{kind}schedule_add"), fields)
        assert (answer.status_code, "never comes" in answer.content.decode()) == (200, True), kind
    assert not IntervalSchedule.objects.filter(period="days").exists()


@pytest.mark.django_db(transaction=True)
def test_a_daily_job_is_neither_forgotten_nor_repeated_by_a_restart() -> None:
    Scheduler(app=app, lazy=False)
    yesterday = timezone.now() - timedelta(hours=23)
    PeriodicTask.objects.filter(name="thin snapshots").update(last_run_at=yesterday)
    PeriodicTask.objects.filter(name="forget deliveries").update(date_changed=yesterday)  # it never ran yet
    restarted = Scheduler(app=app, lazy=False).schedule
    assert set(restarted) == set(settings.CELERY_BEAT_SCHEDULE)
    for name in ("thin snapshots", "forget deliveries"):
        is_due, seconds = restarted[name].is_due()
        assert not is_due
        assert 3_500 < seconds <= 3_600


@pytest.mark.django_db(transaction=True)
def test_what_ran_while_the_clock_was_ahead_does_not_wait_until_it_is_there_again() -> None:
    Scheduler(app=app, lazy=False)
    PeriodicTask.objects.update(last_run_at=timezone.now() + timedelta(days=400))
    restarted = Scheduler(app=app, lazy=False)
    assert longest_waits(restarted) == []
    restarted.sync()
    assert not PeriodicTask.objects.filter(last_run_at__gt=timezone.now()).exists()


@pytest.mark.django_db(transaction=True)
def test_a_clock_that_goes_back_stops_no_job() -> None:
    scheduler = Scheduler(app=app, lazy=False)
    PeriodicTask.objects.update(last_run_at=timezone.now() + timedelta(hours=1))
    scheduler.clock = lambda: timezone.now() + timedelta(hours=1)
    scheduler.tick()
    scheduler.clock = timezone.now
    assert scheduler.tick() <= 3
    assert longest_waits(scheduler) == []
    scheduler.sync()


def longest_waits(scheduler: Scheduler) -> list[tuple[str, float]]:
    """Jobs that wait for longer than the time between two runs."""
    waits = [(name, entry.is_due().next, entry.schedule.run_every) for name, entry in scheduler.schedule.items()]
    return [(name, seconds) for name, seconds, run_every in waits if seconds > run_every.total_seconds()]


def test_every_job_names_a_task() -> None:
    app.loader.import_default_modules()
    assert {job["task"] for job in settings.CELERY_BEAT_SCHEDULE.values()} <= set(app.tasks)


def test_superusers_run_a_job_now(ana: Member) -> None:
    synchronise_schedule(JOBS)
    job = PeriodicTask.objects.get(name="sweep")
    take_sent()
    assert signed_in(ana).post(CHANGES, {"action": "run_now", "_selected_action": [job.pk]}).status_code == 302
    assert take_sent() == []
    page = superuser(ana).post(CHANGES, {"action": "run_now", "_selected_action": [job.pk]}, follow=True)
    assert "A worker was asked to run “sweep”." in page.content.decode()
    assert [task.task for task in take_sent()] == ["memory.sweep_compactions"]


def test_expired_sessions_are_cleared(ana: Member) -> None:
    now = timezone.now()
    for key, expiry in (("old", now - timedelta(seconds=1)), ("new", now + timedelta(days=1))):
        Session.objects.create(session_key=key, session_data="x", expire_date=expiry)
        UserSession.objects.create(session_key=key, user=ana.user, ip="127.0.0.1")
        CacheEntry.objects.create(cache_key=key, value="1", expires=expiry)
    delete_expired_sessions()
    assert list(Session.objects.values_list("session_key", flat=True)) == ["new"]
    assert list(UserSession.objects.values_list("session_key", flat=True)) == ["new"]
    assert list(CacheEntry.objects.values_list("cache_key", flat=True)) == ["new"]
