"""Jobs of the ground floor."""

from datetime import timedelta

from allauth.usersessions.models import UserSession
from celery import shared_task
from django.contrib.sessions.models import Session
from django.db import connection
from django.utils import timezone

from openvibe.base.events import EVENT_RETENTION_HOURS
from openvibe.base.job_runs import delete_old_runs
from openvibe.base.models import CacheEntry, Event
from openvibe.base.planner_statistics import analyze_changed_tables

DOCTOR_CHANNEL = "openvibe_doctor"


@shared_task(name="base.answer_doctor", ignore_result=True)
def answer_doctor(token: str) -> None:
    """Says over PostgreSQL's NOTIFY that a worker took the job. `manage.py doctor` listens."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_notify(%s, %s)", [DOCTOR_CHANNEL, token])


@shared_task(name="base.analyze_tables", ignore_result=True, expires=60)
def analyze_tables() -> dict[str, int]:
    return {"tables analysed": analyze_changed_tables()}


@shared_task(name="base.forget_events")
def delete_expired_events() -> dict[str, int]:
    """Events past their retention; a page that slept longer is told to reload."""
    expired = Event.objects.filter(created_at__lt=timezone.now() - timedelta(hours=EVENT_RETENTION_HOURS))
    return {"events deleted": expired.delete()[0]}


@shared_task(name="base.forget_job_runs", ignore_result=True, expires=3_600)
def delete_old_job_runs() -> dict[str, int]:
    return {"results deleted": delete_old_runs()}


@shared_task(name="base.forget_sessions", ignore_result=True)
def delete_expired_sessions() -> dict[str, int]:
    """Sign-ins and counted attempts that ended by themselves; Django leaves their rows where they are."""
    sessions, _ = Session.objects.filter(expire_date__lt=timezone.now()).delete()
    entries, _ = CacheEntry.objects.filter(expires__lt=timezone.now()).delete()
    UserSession.objects.exclude(session_key__in=Session.objects.values("session_key")).delete()
    return {"sessions deleted": sessions, "cache entries deleted": entries}
